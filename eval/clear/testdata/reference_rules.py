"""Writes the cases of the families swept, predicates and rotation.

    python reference_rules.py CLEAR OUT [SEED]

CLEAR is a checkout of DavidSunok/CLEAR-LeWM, OUT the folder of the cases, SEED a number for
further cases of the same kinds. It needs NumPy, PyTorch and h5py. Every number comes from
functions of CLEAR-LeWM; the envs under them are the stand-ins below.
"""

import dataclasses
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path.insert(0, sys.argv[1])
from clear_lewm import protocols, runner, tasks, topology, tworoom_runtime as runtime  # noqa: E402

OUT = Path(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 0
SOURCE = "DavidSunok/CLEAR-LeWM ab8849c (package 0.5.1)"
RULES = {"clear-moderate": "moderate", "clear-strict": "strict"}
CANONICAL = topology.canonical_tworoom_geometry()


def write(name, entries):
    head = {"family": name.split("_")[0], "source": SOURCE, "numpy": np.__version__, "made_by": "reference_rules.py"}
    lines = []
    for key, value in (head | entries).items():
        if isinstance(value, list):
            value = "[\n  " + ",\n  ".join(json.dumps(v) for v in value) + "\n ]"
        elif isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
            value = "{\n  " + ",\n  ".join(json.dumps(k) + ": [\n   " + ",\n   ".join(json.dumps(x) for x in v) + "\n  ]" for k, v in value.items()) + "\n }"
        else:
            value = json.dumps(value)
        lines.append(json.dumps(key) + ": " + value)
    text = "{\n " + ",\n ".join(lines) + "\n}\n"
    json.loads(text)
    (OUT / (name + (f"_seed{SEED}" if SEED else "") + ".json")).write_text(text)


def numbers(v):
    return [float(x) for x in np.asarray(v, dtype=np.float64)]


# --- swept ---------------------------------------------------------------------------------


def floor(axis=1, thickness=10, radius=7.0, doors=((49, 14),)):
    return dataclasses.replace(
        CANONICAL, wall_axis=axis, wall_thickness=float(thickness), agent_radius=float(radius),
        doors=tuple((float(c), float(h)) for c, h in doors))


FLOORS = {
    "canonical": CANONICAL,
    "horizontal": floor(axis=0),
    "two doors": floor(doors=((49, 14), (160, 20)), thickness=7),
    "merged": floor(doors=((60, 10), (78, 8), (150, 12)), thickness=21),
    "touching": floor(axis=0, doors=((60, 10), (80, 10)), thickness=12),
    "narrow": floor(doors=((100, 5),)),
    "as wide as the disc": floor(doors=((100, 9),), radius=9),
    "one wide, one narrow": floor(axis=0, doors=((30, 3), (120, 12)), radius=8.5, thickness=16),
    "at the edges": floor(doors=((3, 15), (221, 18)), thickness=41, radius=7.5),
    "all wall": floor(doors=((112, 0),)),
    "nested": floor(doors=((90, 21), (95, 6), (60, 21)), radius=13.25, thickness=9),
    "fractional radius": floor(radius=float(np.float32(10.7)), thickness=33, doors=((140, 19),)),
}


def outcome(g, a, b):
    motion = topology.resolve_motion(g, a, b)
    end = np.asarray(motion.position)
    route = topology.check_route_segment(g, a, end)
    straight = topology.check_route_segment(g, a, b)
    return {
        "end": numbers(end), "contacts": motion.collisions,
        "from_clear": bool(topology.point_is_clear(g, a)), "end_clear": bool(topology.point_is_clear(g, end)),
        "route_valid": bool(route.valid), "crosses": g.crossing_coordinate(a, end),
        "straight": {"valid": bool(straight.valid), "wall": bool(straight.wall_collision),
                     "illegal": bool(straight.illegal_crossing), "crosses": g.crossing_coordinate(a, b)}}


def close(a, b):
    if isinstance(a, dict):
        return all(close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return all(close(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) < 1e-6
    return a == b


def move(kind, a, b, name="canonical"):
    g = FLOORS[name]
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    out = outcome(g, a, b)
    exact = False
    for i in range(4):
        for d in (-1e-9, 1e-9):
            p = np.concatenate((a, b))
            p[i] += d
            exact |= not close(out, outcome(g, p[:2], p[2:]))
    entry = {"kind": kind, "from": numbers(a), "to": numbers(b)} | out
    if name != "canonical":
        entry["geometry"] = name
    return entry | ({"exact": True} if exact else {})


def corners(g):
    return [(x, y) for r in g.solid_wall_rectangles() for x in (r.xmin, r.xmax) for y in (r.ymin, r.ymax)]


def moves(rng, name, n):
    g = FLOORS[name]
    out = []
    turn = (lambda p: p) if g.wall_axis == 1 else (lambda p: (p[1], p[0]))
    low, high = g.wall_bounds
    r = g.agent_radius
    for _ in range(n):
        # Along the wall, near one of its faces; then near a corner, and inside its circle.
        a = turn((rng.choice([low - r, high + r]) + rng.normal(0, 4), rng.uniform(10, 214)))
        out.append(move("near a face", a, np.asarray(a) + rng.normal(0, 6, 2), name))
        c = np.asarray(corners(g)[rng.integers(len(corners(g)))])
        angle = rng.uniform(0, 2 * math.pi)
        direction = np.asarray([math.cos(angle), math.sin(angle)])
        for kind, far in (("near a corner", r + abs(rng.normal(0, 2))), ("inside a corner's circle", r * rng.uniform(0, 1))):
            a = c + far * direction
            out.append(move(kind, a, a + rng.normal(0, 5, 2), name))
        # Through a door or against its sides, across the whole wall.
        door = g.doors[rng.integers(len(g.doors))]
        y = door[0] + rng.uniform(-1.3, 1.3) * door[1]
        a, b = (low - r - rng.uniform(.5, 9), y), (high + r + rng.uniform(.5, 9), y + rng.normal(0, 5))
        if rng.integers(2):
            a, b = b, a
        out.append(move("at a door", turn(a), turn(b), name))
        a = turn((rng.uniform(low, high), y))
        out.append(move("in the passage", a, np.asarray(a) + rng.normal(0, 9, 2), name))
        inside = turn((rng.uniform(low - r, high + r), rng.uniform(0, 224)))
        out.append(move("in the wall", inside, np.asarray(inside) + rng.normal(0, 6, 2), name))
        # Out of the solid part, so that only the corner's circle is there.
        solid = next(q for q in g.solid_wall_rectangles() if c[0] in (q.xmin, q.xmax) and c[1] in (q.ymin, q.ymax))
        outwards = np.where(c == (solid.xmin, solid.ymin), -1, 1) * abs(direction)
        a = c + (r + 1e-4) * outwards
        out.append(move("a short move at a corner", a, a - rng.choice([2.5e-4, 3.1e-4, 3.3e-4, 4e-4]) * outwards, name))
        a = c + (r - rng.choice([5e-7, 9e-7, 1.1e-6, 3e-6])) * outwards
        out.append(move("at the margin", a, a + rng.normal(0, 1, 2), name))
        a = c + (r + rng.uniform(-2e-4, 2e-4)) * direction
        step = rng.normal(0, 1, 2)
        step *= rng.choice([1e-8, 1e-4, 2.9e-4, 3.3e-4, 6e-4]) / np.linalg.norm(step)
        out.append(move("a short move", a, a + step, name))
    return out


def exact_moves():
    out = []
    for name in ("canonical", "horizontal", "narrow"):
        g = FLOORS[name]
        turn = (lambda p: p) if g.wall_axis == 1 else (lambda p: (p[1], p[0]))
        for a, b in (
            ((100, 100), (100, 110)), ((100, 100), (100, 90)), ((124, 150), (124, 140)), ((100, 20), (100, 60)),
            ((100, 49), (100, 20)), ((100, 49), (124, 49)), ((112, 42), (112, 56)), ((112, 42), (130, 42)),
            ((112, 56), (90, 56)), ((100, 100), (90, 100)), ((100, 100), (105, 105)), ((107, 42), (100, 35)),
            ((100, 35), (107, 42)), ((100, 35), (100, 63)), ((112, 49), (112, 49)), ((112, 49), (120, 49)),
            ((120, 49), (112, 49)), ((21, 21), (21, 203)), ((21, 21), (10, 10)), ((203, 203), (230, 230)),
            ((107, 100), (117, 100)), ((112, 100), (112, 110)), ((112, 100), (130, 100)), ((93, 100), (100, 100)),
            ((99.9999, 100), (100, 100)), ((99.9998, 100), (105, 103)), ((100, 224), (105, 220)), ((95, 42), (129, 42)),
        ):
            out.append(move("on a boundary", turn(a), turn(b), name))
    return out


class Space:
    def __init__(self, value):
        self.value = value

    def __getitem__(self, key):
        return Space(self.value)


class Floor:
    """What the hooks of tworoom_runtime read of an env, with float32 tensors."""

    IMG_SIZE, BORDER_SIZE, WALL_CENTER = 224, 14, 112

    def __init__(self, g, speed):
        import torch

        self.torch, self.speed = torch, speed
        self.wall_axis, self.wall_thickness = g.wall_axis, g.wall_thickness
        self.door_positions, self.door_sizes = [d[0] for d in g.doors], [d[1] for d in g.doors]
        self.num_doors = len(g.doors)
        self.variation_space = Space(np.float32(g.agent_radius))
        self.agent_position = self.target_position = torch.zeros(2)
        self.unwrapped = self

    def _set_state(self, state):
        self.agent_position = self.torch.as_tensor(state, dtype=self.torch.float32)

    def _set_goal_state(self, state):
        self.target_position = self.torch.as_tensor(state, dtype=self.torch.float32)

    def step(self, action):
        a = self.torch.clamp(self.torch.as_tensor(action, dtype=self.torch.float32), -1, 1)
        self.to = self.agent_position + a * self.speed
        self.agent_position = self._apply_collisions(self.agent_position, self.to)
        return None, 0.0, False, False, {}


def trajectory(kind, rng, speed, start, goal, n):
    start, goal = numbers(np.float32(start)), numbers(np.float32(goal))
    found, first = {}, None
    action = []
    for rule, name in RULES.items():
        env = Floor(CANONICAL, speed)
        runtime.install_topology_success(SimpleNamespace(envs=SimpleNamespace(envs=[env])), protocols.get_protocol(name))
        audit = runtime.ACTIVE_AUDITS[0]
        env._set_state(start)
        env._set_goal_state(goal)
        rows = {k: [] for k in ("to", "position", "contacts", "route_valid", "crossings", "side")}
        found[rule] = None
        for t in range(n):
            if len(action) == t:
                at = np.asarray(env.agent_position, dtype=np.float64)
                via = np.asarray(goal)
                if (at[0] < 112) != (goal[0] < 112) and rng.integers(10):
                    via = np.asarray((112 + math.copysign(15, goal[0] - 112), 49)) if abs(at[1] - 49) < 6 else np.asarray((at[0] + 3 * (112 - at[0]) / 40, 49))
                d = (via - at) / max(speed, np.linalg.norm(via - at)) + rng.normal(0, .4, 2)
                action.append(numbers(np.float32(d * rng.choice([.3, 1, 1.5]))))
            before = audit.collision_contacts
            done = env.step(action[t])[2]
            for key, value in (("to", numbers(env.to)), ("position", numbers(env.agent_position)), ("contacts", audit.collision_contacts - before),
                               ("route_valid", bool(audit.route_valid)), ("crossings", audit.valid_room_crossings),
                               ("side", CANONICAL.room_side(np.asarray(env.agent_position, dtype=np.float64)))):
                rows[key].append(value)
            if done and found[rule] is None:
                found[rule] = t + 1
        first = first or (rows, audit)
    rows, audit = first
    return {"kind": kind, "start": start, "goal": goal, "speed": speed, "start_clear": bool(audit.initial_state_clear), "goal_clear": bool(audit.goal_state_clear),
            "cross_room": bool(audit.cross_room_goal), "action": action} | rows | {"moderate_at": found["clear-moderate"], "strict_at": found["clear-strict"]}


def recorded(kind, positions):
    positions = np.asarray(np.float32(positions), dtype=np.float64)
    n = len(positions)
    data = {"proprio": positions, "ep_idx": np.zeros(n, dtype=np.int64), "step_idx": np.arange(n)}
    prefix = tasks.tworoom_invalid_transition_prefix(data)
    crossings, valid = [0], []
    for a, b in zip(positions, positions[1:]):
        valid.append(bool(topology.check_route_segment(CANONICAL, a, b).valid))
        c = CANONICAL.crossing_coordinate(a, b)
        crossings.append(crossings[-1] + int(c is not None and CANONICAL.crossing_has_full_clearance(c)))
    return {"kind": kind, "position": [numbers(p) for p in positions], "step_valid": valid, "invalid_before": [int(x) for x in prefix], "crossings": crossings[1:]}


def swept():
    rng = np.random.default_rng([SEED, 1])
    write("swept_canonical", {"moves": exact_moves() + moves(rng, "canonical", 24), "geometries": geometries(("horizontal", "narrow"))})
    names = [n for n in FLOORS if n != "canonical"]
    write("swept_factors", {"moves": [m for n in names for m in moves(rng, n, 4)], "geometries": geometries(names)})
    runs = []
    for i in range(16):
        far = i % 4 != 3
        start = rng.uniform((25, 25), (98, 200)) if i % 2 else rng.uniform((126, 25), (200, 200))
        goal = rng.uniform((25, 25), (98, 110)) if (i % 2 == 0) == far else rng.uniform((126, 25), (200, 110))
        if far and i < 10:
            start, goal = (rng.uniform((80, 30), (98, 70)), rng.uniform((126, 30), (140, 70)))[:: 1 if i % 2 else -1]
        runs.append(trajectory("towards the goal", rng, float(np.float32(rng.choice([1.75, 5, 5, 10.5]))), start, goal, 18))
    runs.append(trajectory("start in the wall", rng, 5.0, (104, 100), (90, 90), 8))
    runs.append(trajectory("goal in the wall", rng, 5.0, (95, 45), (118, 60), 8))
    runs.append(trajectory("start at the border", rng, 5.0, (16, 208), (60, 190), 12))
    paths = []
    for i in range(8):
        p = np.asarray(rng.uniform((90, 30), (134, 75)) if i else (95.0, 49.0))
        rows = [p]
        for _ in range(24):
            rows.append(np.clip(rows[-1] + rng.normal(0, 4, 2) + (0.3 * (1 - 2 * (i % 2)), 0), 14, 209))
        paths.append(recorded("a walk at the door", rows))
    paths.append(recorded("through the wall", [(90 + 5 * k, 120 + k) for k in range(10)]))
    paths.append(recorded("outside the floor", [(30 - 3 * k, 30 - 2 * k) for k in range(6)]))
    lengths = []
    for i in range(40):
        a, b = rng.uniform(21, 203, 2), rng.uniform(21, 203, 2)
        if i < 5:
            a[0], b[0] = 112.0, (112.0, 150.0)[i % 2]
        lengths.append({"from": numbers(a), "to": numbers(b), "length": CANONICAL.shortest_door_path(a, b), "cross_room": bool(CANONICAL.is_cross_room(a, b))})
    write("swept_paths", {"trajectories": runs, "recorded": paths, "geodesics": lengths})


def geometries(names):
    return {n: {"wall_axis": FLOORS[n].wall_axis, "thickness": FLOORS[n].wall_thickness, "radius": FLOORS[n].agent_radius, "doors": [list(d) for d in FLOORS[n].doors],
                "solids": [[r.xmin, r.xmax, r.ymin, r.ymax] for r in FLOORS[n].solid_wall_rectangles()],
                "clear_door_intervals": [list(d) for d in FLOORS[n].clear_door_intervals()], "center_bounds": list(FLOORS[n].center_bounds)} for n in names}


# --- predicates ----------------------------------------------------------------------------


def at_hold(name, k=1):
    spec = protocols.get_protocol(name)
    return dataclasses.replace(spec, sustained_steps=k, pusht_sustained_steps=None, cube_sustained_steps=None, reacher_sustained_steps=None, tworoom_sustained_steps=None)


def install(env, task, spec):
    env.unwrapped = env
    runner._install_task_success(SimpleNamespace(envs=SimpleNamespace(envs=[env])), task, spec)


class Pusht:
    def _set_goal_state(self, goal):
        self.goal_state = np.asarray(goal)

    def step(self, action):
        return {"state": np.asarray(action)}, 0.0, False, False, {}


class Reacher:
    def __init__(self, now, goal):
        self.now, self.goal = now, goal
        data = SimpleNamespace(qpos=np.zeros(2), qvel=np.zeros(2))
        finger = np.zeros(3)

        def forward():
            finger[:2] = goal["finger_pos"] if np.array_equal(data.qpos, goal["qpos"]) else now["finger_pos"]

        class Geoms:
            def __getitem__(self, key):
                return finger[:2]

        named = SimpleNamespace(data=SimpleNamespace(geom_xpos=Geoms()))
        self.env = SimpleNamespace(physics=SimpleNamespace(data=data, forward=forward, named=named), task=SimpleNamespace(target_qpos=None))
        data.qpos[:] = now["qpos"]
        forward()

    def set_target_qpos(self, target):
        self.env.task.target_qpos = np.asarray(target)

    def step(self, action):
        return None, 0.0, False, False, {}


class Cube:
    def __init__(self, now, goal):
        qpos = np.concatenate((now["privileged_block_0_pos"], now["privileged_block_0_quat"]))
        self._data = SimpleNamespace(joint=lambda name: SimpleNamespace(qpos=qpos), mocap_pos=np.asarray([goal["privileged_block_0_pos"]]), mocap_quat=np.asarray([goal["privileged_block_0_quat"]]))
        self._cube_target_mocap_ids = [0]
        self._success = False

    def set_target_pos(self, cube_id, target_pos, target_quat=None):
        pass

    def post_step(self):
        pass


def hooked(task, name, now, goal, extra):
    spec = at_hold(name)
    if task == "pusht":
        env = Pusht()
        install(env, task, spec)
        env._set_goal_state(goal["state"])
        return bool(env.step(now["state"])[2])
    if task == "reacher":
        env = Reacher(now, goal)
        install(env, task, spec)
        env.set_target_qpos(goal["qpos"])
        return bool(env.step(None)[2])
    if task == "cube":
        env = Cube(now, goal)
        install(env, task, spec)
        env.post_step()
        return bool(env._success)
    env = Floor(CANONICAL, 0.0)
    env.torch = SimpleNamespace(float32=None, zeros=np.zeros, as_tensor=lambda v, dtype=None: np.asarray(v, dtype=np.float64), clamp=lambda v, a, b: np.clip(v, a, b))
    runtime.install_topology_success(SimpleNamespace(envs=SimpleNamespace(envs=[env])), spec)
    env._set_state(extra["start"]["state"])
    env._set_goal_state(goal["state"])
    env.agent_position = np.asarray(now["state"], dtype=np.float64)
    audit = runtime.ACTIVE_AUDITS[0]
    audit.route_valid, audit.valid_room_crossings = extra["route_valid"], extra["crossings"]
    env._apply_collisions = lambda a, b: env.agent_position
    # The step is of length 0; where the disc is not clear, the context's route is kept.
    done = bool(env.step(np.zeros(2))[2])
    if extra["route_valid"] != audit.route_valid:
        return None
    return done


def pair(task, near, now, goal, **extra):
    columns = {k: np.asarray([now[k], goal[k]], dtype=np.float64) for k in now}
    if task == "tworoom":
        columns["proprio"] = columns["state"]
    d = tasks.pair_diagnostics(columns, task, np.asarray([0]), np.asarray([1]))
    success = {"upstream": bool(d.initial_success[0])}
    for rule, name in RULES.items():
        success[rule] = hooked(task, name, now, goal, extra)
        if success[rule] is None:
            return None
    distances = {k: v[0].item() for k, v in d.extras.items()}
    return {"near": near, "now": {k: numbers(v) for k, v in now.items()}, "goal": {k: numbers(v) for k, v in goal.items()}} | extra | {"distances": distances, "success": success}


def unit(rng, n):
    v = rng.normal(0, 1, n)
    return v / np.linalg.norm(v)


def turned(q, degrees, axis):
    """q followed by a turn about an axis."""
    w, v = math.cos(math.radians(degrees) / 2), math.sin(math.radians(degrees) / 2) * np.asarray(axis)
    return np.concatenate(([w * q[0] - v @ q[1:]], w * q[1:] + q[0] * v + np.cross(v, q[1:])))


FACE = [(a, unit_axis) for a in (0, 90, 180, 270) for unit_axis in np.eye(3)]


def predicates():
    rng = np.random.default_rng([SEED, 2])
    pairs = {t: [] for t in ("tworoom", "pusht", "reacher", "cube")}
    for near, threshold in (("upstream", 16), ("clear-strict", 8)):
        for _ in range(25):
            goal = rng.uniform(25, 199, 2)
            if rng.integers(2):
                goal = rng.uniform((104, 43), (120, 55))
            now = np.clip(goal + threshold * rng.uniform(.8, 1.2) * unit(rng, 2), 21, 203)
            p = pair("tworoom", near, {"state": now}, {"state": goal}, start={"state": numbers(rng.uniform((25, 25), (95, 199)) + (rng.choice([0, 104]), 0))},
                     route_valid=bool(rng.integers(4)), crossings=int(rng.integers(3)))
            pairs["tworoom"] += [p] if p else []
    for x, crossings in ((112.0, 1), (112.0, 0), (113.0, 0), (113.0, 1), (111.0, 1)):
        p = pair("tworoom", "clear-strict", {"state": [x, 49.0]}, {"state": [115.0, 50.0]}, start={"state": [60.0, 60.0]}, route_valid=True, crossings=crossings)
        pairs["tworoom"].append(p)
    for near, threshold, turn in (("upstream", 20, 20), ("clear-strict", 10, 10), ("upstream", 15, 20), ("clear-strict", 8, 10)):
        for _ in range(12):
            goal = np.concatenate((rng.uniform(50, 460, 4), [rng.uniform(0, 2 * math.pi)], rng.normal(0, 20, 2)))
            now = goal.copy()
            now[:4] += threshold * rng.uniform(.7, 1.2) * (np.concatenate(([0, 0], unit(rng, 2))) if near == "clear-strict" else unit(rng, 4))
            now[4] = (now[4] + math.radians(turn * rng.uniform(.8, 1.2) * rng.choice([-1, 1]))) % (2 * math.pi)
            now[5:] = rng.normal(0, 20, 2)
            pairs["pusht"].append(pair("pusht", near, {"state": now}, {"state": goal}))
    for angles in ((0.05, 2 * math.pi - 0.1), (6.28, 0.0), (3.0, 6.1)):
        pairs["pusht"].append(pair("pusht", "wrap", {"state": [200, 200, 250, 240, angles[0], 0, 0]}, {"state": [203, 201, 251, 240, angles[1], 0, 0]}))

    def arm(q):
        return numbers([.12 * math.cos(q[0]) + .12 * math.cos(q[0] + q[1]), .12 * math.sin(q[0]) + .12 * math.sin(q[0] + q[1])])

    for _ in range(45):
        goal = rng.uniform(-2.7, 2.7, 2)
        now = goal + rng.uniform(-.06, .06, 2) + (2 * math.pi * rng.integers(-2, 3), 2 * math.pi * rng.integers(0, 2) * rng.integers(0, 2))
        finger = arm(goal)
        near = "clear-moderate"
        here = arm(now)
        if rng.integers(2):
            near, here = "clear-strict", numbers(np.asarray(finger) + .01 * rng.uniform(.9, 1.1) * unit(rng, 2))
        pairs["reacher"].append(pair("reacher", near, {"qpos": now, "finger_pos": here}, {"qpos": goal, "finger_pos": finger}))
    for _ in range(60):
        q = unit(rng, 4)
        a, axis = FACE[rng.integers(len(FACE))]
        other = turned(turned(q, 0, axis), 15 * rng.uniform(.8, 1.2), unit(rng, 3)) if rng.integers(2) else turned(q, a + 15 * rng.uniform(.8, 1.2) * rng.choice([-1, 1]), axis)
        goal = rng.uniform((.3, -.3, .02), (.55, .3, .3))
        threshold = rng.choice([.03, .04])
        now = goal + threshold * rng.uniform(.8, 1.15) * unit(rng, 3)
        pairs["cube"].append(pair("cube", "clear-strict", {"privileged_block_0_pos": now, "privileged_block_0_quat": other * rng.choice([1, -1, 2.5])},
                                  {"privileged_block_0_pos": goal, "privileged_block_0_quat": q * rng.choice([1, -1, .2])}))
    # On a threshold: the comparison decides.
    quat = [1.0, 0, 0, 0]
    still = {"start": {"state": [60.0, 60.0]}, "route_valid": True, "crossings": 0}
    boundary = [
        ("tworoom", {"state": [60, 60]}, {"state": [60, 68]}, still), ("tworoom", {"state": [60, 60]}, {"state": [68, 60]}, still),
        ("tworoom", {"state": [112, 49]}, {"state": [112, 50]}, still), ("tworoom", {"state": [112, 49]}, {"state": [113, 49]}, still),
        ("pusht", {"state": [200, 300, 256, 248, 1.5, 0, 0]}, {"state": [200, 300, 250, 240, 1.5, 0, 0]}, {}),
        ("pusht", {"state": [200, 300, 250, 240, 1.5, 0, 0]}, {"state": [210, 310, 260, 250, 1.5, 0, 0]}, {}),
        ("pusht", {"state": [200, 300, 250, 240, 0, 0, 0]}, {"state": [200, 300, 250, 240, math.pi / 9, 0, 0]}, {}),
        ("pusht", {"state": [200, 300, 250, 240, 0, 0, 0]}, {"state": [200, 300, 250, 240, math.radians(10), 0, 0]}, {}),
        ("reacher", {"qpos": [.05, 0], "finger_pos": [.01, 0]}, {"qpos": [0, 0], "finger_pos": [0, 0]}, {}),
        ("reacher", {"qpos": [0, .05], "finger_pos": [0, .01]}, {"qpos": [0, 0], "finger_pos": [0, 0]}, {}),
        ("cube", {"privileged_block_0_pos": [0, .04, 0], "privileged_block_0_quat": quat}, {"privileged_block_0_pos": [0, 0, 0], "privileged_block_0_quat": quat}, {}),
        ("cube", {"privileged_block_0_pos": [0, 0, .03], "privileged_block_0_quat": quat}, {"privileged_block_0_pos": [0, 0, 0], "privileged_block_0_quat": quat}, {}),
    ]
    for task, now, goal, extra in boundary:
        pairs[task].append(pair(task, "threshold", now, goal, **extra) | {"exact": True})
    holds = []
    for _ in range(14):
        k, steps = int(rng.integers(1, 6)), [bool(x) for x in rng.random(int(rng.integers(3, 14))) < .7]
        env = Pusht()
        install(env, "pusht", at_hold("moderate", k))
        goal = np.asarray([200, 300, 250, 240, 1.5, 0, 0])
        env._set_goal_state(goal)
        ends = [env.step(goal + (0 if s else 100))[2] for s in steps]
        holds.append({"hold": k, "steps": steps, "success_at": ends.index(True) + 1 if True in ends else None})
    write("predicates_more", {"pairs": pairs, "holds": holds})


def rotation():
    rng = np.random.default_rng([SEED, 3])
    pairs = []
    for i in range(120):
        q = unit(rng, 4)
        other = unit(rng, 4)
        if i % 3 == 1:  # near one of the 24 rotations
            a, axis = FACE[rng.integers(len(FACE))]
            other = turned(turned(q, a, axis), rng.choice([1e-7, 1e-4, .5, 20]), unit(rng, 3))
        elif i % 3 == 2:
            other = turned(q, rng.choice([0, 15, 44.9, 45.1, 62, 120, 180]), unit(rng, 3) if i % 2 else np.eye(3)[i % 3])
        q, other = q * rng.choice([1, 1e-3, 40, -1]), other * rng.choice([1, 7, -.3])
        pairs.append({"a": numbers(q), "b": numbers(other), "degrees": float(tasks.quaternion_angle_deg(q, other)), "degrees_symmetric": float(tasks.cube_symmetry_angle_deg(q, other))})
    write("rotation_more", {"pairs": pairs})


swept()
predicates()
rotation()
