"""stable-worldmodel's World on its own environments and on ours, side by side.

From the state and the goal of an episode of theirs, and with the same actions, ours has to show
the same infos. TestPeersWorld runs this.
"""

import numpy as np
import scalewm.swm
import stable_worldmodel as swm
from stable_worldmodel.envs.two_room import ExpertPolicy
from stable_worldmodel.policy import RandomPolicy

STEPS = 12
# Of each: arguments of theirs, options of ours for the arithmetic of NumPy 2, what a reset is told, and
# which infos are compared ("observation" shows Reacher's target, which our reset draws itself).
CASES = {
    "swm/TwoRoom-v1": ({}, {}, ("state", "goal_state"), ("observation", "state", "proprio", "goal_state", "distance_to_target", "pixels")),
    "swm/PushT-v1": ({}, {"numeric_mode": "float32_pd"}, ("state", "goal_state"), ("state", "proprio", "pos_agent", "vel_agent", "goal_state", "goal_pose", "pixels")),
    "swm/ReacherDMControl-v0": ({"task": "qpos_match"}, {}, ("qpos",), ("qpos", "qvel", "finger_pos")),
}


def world(name, **kwargs):
    drawn = "pixels" in CASES[name][3]
    return swm.World(name, num_envs=2, image_shape=(224, 224), max_episode_steps=STEPS + 1, add_pixels=drawn, **kwargs)


def arrays(w):
    """Infos as they are now; Two-Room's own observation is a tensor."""
    return {k: np.array(v) for k, v in w.infos.items() if hasattr(v, "dtype")}


def play(w, actions, reset):
    reset(w)
    rows = [arrays(w)]
    for a in actions:
        w.infos = w.envs.step(a)[-1]
        rows.append(arrays(w))
    return rows


def start(w, first, keys):
    """Each environment of ours begins where theirs began."""
    options = []
    for i in range(2):
        if "qpos" in keys:
            options.append({"state": {"qpos": first["qpos"][i, 0], "qvel": first["qvel"][i, 0]}})
        else:
            options.append({k: first[k][i, 0] for k in keys})
    w.reset(seed=0, options=options)


theirs = {}
rng = np.random.default_rng(0)
for name, (arguments, _, _, _) in CASES.items():
    w = world(name, **arguments)
    actions = rng.uniform(-1, 1, (STEPS, *w.envs.action_space.shape)).astype(np.float32)
    theirs[name] = actions, play(w, actions, lambda w: w.reset(seed=3))
    w.close()

scalewm.swm.register()
for name, (arguments, options, keys, compared) in CASES.items():
    actions, rows = theirs[name]
    w = world(name, options=options, **arguments)
    assert isinstance(w.envs.envs[0].unwrapped, scalewm.swm.Env)
    ours = play(w, actions, lambda w: start(w, rows[0], keys))
    for t, (a, b) in enumerate(zip(ours, rows)):
        for key in compared:
            worst = np.abs(np.subtract(a[key], b[key], dtype=float)).max()
            if a[key].shape != b[key].shape or worst > (key == "pixels"):  # a level, as docs/tasks.md says of Two-Room's exp
                raise SystemExit(f"{name} step {t}: {key} differs by {worst}: {a[key].ravel()[:8]} and {b[key].ravel()[:8]}")
    missing = set(rows[0]) - set(ours[0]) - {"env_name"}
    assert not missing, f"{name} lacks {missing}"
    print(f"{name}: {len(ours)} rows of {len(compared)} infos are equal")

# World's own loops drive ours, and its expert solves Two-Room in it.
w = swm.World("swm/TwoRoom-v1", num_envs=3, image_shape=(64, 64), max_episode_steps=100)
w.set_policy(ExpertPolicy())
result = w.evaluate(episodes=6, seed=1)
assert result["success_rate"] == 100, result
w.reset(seed=1, options={"variation": ["all"]})
assert w.infos["variation.agent.color"].shape == (3, 1, 3)
for name in ("swm/PushT-v1", "swm/DWMPointMaze-v0", "swm/OGBCube-v0"):
    w = swm.World(name, num_envs=2, image_shape=(64, 64), max_episode_steps=3, add_pixels=name != "swm/OGBCube-v0")
    w.set_policy(RandomPolicy(seed=1))
    assert len(w.evaluate(episodes=2, seed=1)["seeds"]) == 2
    w.close()
print("ok")
