"""Records Two-Room episodes with the original environment.

Made with stable-worldmodel 0.1.1, torch 2.15.0, numpy 2.4.6, h5py 3.16.0 on
CPython 3.11:

    python make_tworoom.py            # writes tworoom_*.h5
    python make_tworoom.py varied     # only tworoom_varied_*.h5

The files have the published layout: row t is the state before action t, the
last row of an episode has no action (NaN) and closes it.
"""

import os
import sys

import h5py
import numpy as np
from stable_worldmodel.envs.two_room import TwoRoomEnv

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_STEPS = 100


def constrained_reset(env, seed):
    """Resets with the target rule of the published set (switched off in the release)."""
    for i in range(1000):
        env.reset(seed=seed + 100_000 * i)
        target = env.variation_space['target']['position'].value
        if env._constrain_target_by_min_steps(target):
            return
    raise RuntimeError('no admissible target')


def expert(env, rng):
    """The published expert's action at noise 2.0."""
    agent, target = env.agent_position.numpy(), env.target_position.numpy()
    door = np.array([112, 49], dtype=np.float32)
    way = target
    if (agent[0] > 112) != (target[0] > 112) and np.linalg.norm(door - agent) > 10.5:
        way = door
    d = way - agent
    d = d / max(float(np.linalg.norm(d)), 1e-8) + rng.normal(0, 2.0, 2)
    return np.clip(d, -1, 1).astype(np.float32)


def variation(env):
    """The columns of the factors, as the original's values."""
    space = env.variation_space
    return {f'variation.{n}': np.array(space[n.split('.')[0]][n.split('.')[1]].value).reshape(-1)
            for n in space.names() if n not in ('agent.position', 'target.position', 'wall.border_color')}


def wander(env, rng):
    """Goes to a door, through it, then anywhere, with some noise."""
    def act(t):
        if t >= 40:
            return rng.uniform(-1, 1, 2)
        across = 1 - env.wall_axis
        door = np.zeros(2)
        door[across], door[1 - across] = 112, float(env.door_positions[0])
        way = door - env.agent_position.numpy()
        if act.through or abs(way[across]) + abs(way[1 - across]) < 12:
            act.through = True
            way = np.zeros(2)
            way[across] = 1 if act.side else -1
        return np.clip(way / max(np.abs(way).max(), 1) + rng.normal(0, 0.2, 2), -1.2, 1.2)
    act.through, act.side = False, env.agent_position[1 - env.wall_axis] < 112
    return act


class Recorder:
    """Collects rows of episodes and writes them as one file."""

    def __init__(self, pixels, varied=False):
        self.varied = varied
        self.pixels, self.rows, self.ep_len, self.names = pixels, [], [], []

    def _row(self, env, info, reward, terminated, step):
        row = {
            'state': info['state'].copy(),
            'proprio': info['proprio'].copy(),
            'pos_agent': info['state'].copy(),
            'goal_state': info['goal_state'].copy(),
            'observation': env._get_obs().numpy().copy(),
            'distance_to_target': np.float64(info['distance_to_target']),
            'reward': np.float64(reward),
            'terminated': bool(terminated),
            'truncated': step == MAX_STEPS,
            'step_idx': np.int64(step),
            'action': np.full(2, np.nan, dtype=np.float32),
        }
        if self.varied:
            row |= variation(env)
        if self.pixels:
            row['pixels'] = env.render().copy()
        self.rows.append(row)
        return row

    def episode(self, name, env, act, steps=MAX_STEPS, stop=False):
        """Records from env's present state; act(t) gives the actions."""
        info = env._get_info()
        info['distance_to_target'] = float((env.agent_position - env.target_position).norm())
        row, n = self._row(env, info, np.nan, False, 0), 1
        for t in range(steps):
            row['action'] = np.asarray(act(t), dtype=np.float32)
            _, reward, terminated, _, info = env.step(row['action'])
            row, n = self._row(env, info, reward, terminated, t + 1), n + 1
            if terminated and stop:
                break
        self.ep_len.append(n)
        self.names.append(name)

    def write(self, path, int_type, bool_type, attr_type):
        ends = np.cumsum(self.ep_len)
        with h5py.File(path, 'w', libver='earliest') as f:
            for k in self.rows[0]:
                v = np.stack([r[k] for r in self.rows])
                if v.dtype == bool:
                    v = v.astype(bool_type)
                chunks = (1, *v.shape[1:]) if k == 'pixels' else True
                f.create_dataset(k, data=v, compression='gzip', compression_opts=9, shuffle=True,
                                 chunks=chunks, track_times=False)
            f.create_dataset('ep_len', data=np.array(self.ep_len, dtype=int_type), track_times=False)
            f.create_dataset('ep_offset', data=np.array(ends - self.ep_len, dtype=int_type), track_times=False)
            f.attrs.create('env', 'tworoom', dtype=attr_type)
            f.attrs.create('sampler', 'constrained', dtype=attr_type)
            f.attrs.create('made_by', 'stable-worldmodel 0.1.1', dtype=attr_type)
        print(path, os.path.getsize(path), 'bytes', list(zip(self.names, self.ep_len)))


def put(env, agent, target):
    env.reset(seed=0)
    env._set_state(np.array(agent, dtype=np.float32))
    env._set_goal_state(np.array(target, dtype=np.float32))


def constant(x, y):
    return lambda t: (x, y)


# name, agent, target, action by step, steps
EDGES = [
    ('door, left to right', (60.2, 49.3), (180, 60), constant(1, 0.01), 30),
    ('door, right to left', (170.1, 40.7), (40, 60), constant(-1, 0.03), 30),
    ('leaves the door band downwards, left half', (100, 50), (180, 200), lambda t: (0.4, 0.1) if t < 4 else (0, 1), 12),
    ('leaves the door band downwards, right half', (124, 50), (30, 200), lambda t: (-0.4, 0.1) if t < 4 else (0, 1), 12),
    ('leaves the door band upwards', (104, 40), (180, 200), constant(0.3, -1), 12),
    ('edge of the door band, inside', (99, 64.75), (180, 60), constant(0.5, 0), 12),
    ('edge of the door band, outside', (99, np.nextafter(np.float32(64.75), np.float32(99))), (180, 60), constant(0.5, 0), 6),
    ('upper edge of the door band', (99, 33.25), (180, 60), constant(0.5, 0), 12),
    ('wall from the left', (90, 150), (30, 30), constant(1, 0.2), 12),
    ('wall from the right', (134, 150), (30, 30), constant(-1, -0.2), 12),
    ('exactly at the left face', (95, 150), (30, 30), constant(1, 0), 4),
    ('exactly at the right face', (129, 150), (30, 30), constant(-1, 0), 4),
    ('along the left face', (99.5, 180), (30, 30), constant(0.1, -1), 40),
    ('corner, top left', (30, 30), (180, 60), constant(-1, -1), 6),
    ('corner, bottom right', (195, 196), (30, 60), constant(1, 1), 6),
    ('starts outside the band', (14.5, 208.5), (180, 60), constant(0.1, -0.1), 6),
    ('starts far outside', (208.9, 14.1), (20, 60), constant(0, 0), 4),
    ('starts inside the wall, left half', (110, 150), (20, 60), constant(0, 0.5), 4),
    ('starts on the wall centre', (112, 150), (20, 60), constant(0, 0.5), 4),
    ('actions beyond the box', (60, 112), (180, 60), lambda t: (3.5, -7) if t % 2 else (-1.01, 250), 10),
    ('tiny actions', (60.123, 112.456), (180, 60), constant(1e-7, -3e-7), 10),
    ('no action', (60.123, 112.456), (180, 60), constant(0, 0), 4),
    ('reaches the goal and goes on', (60, 112), (60, 160), constant(0.001, 0.7), 40),
    ('in and out of the goal', (60, 112), (80, 112), lambda t: (np.sin(t / 3), np.cos(t / 2)), 60),
    ('starts solved', (60, 112), (63, 115), constant(0.2, 0.3), 20),
    ('distance exactly 16', (60, 112), (76, 112), constant(0, 0), 3),
    ('distance one step below 16', (60, 112), (np.nextafter(np.float32(76), np.float32(0)), 112), constant(0, 0), 3),
    ('crosses 16 slowly', (60, 112), (78, 113), constant(0.05, 0.01), 20),
]


def states():
    rec, env, rng = Recorder(False), TwoRoomEnv(), np.random.default_rng(7)
    for seed in range(12):
        constrained_reset(env, 1000 + seed)
        rec.episode(f'expert {seed}', env, lambda t: expert(env, rng), stop=True)
    for seed in range(8):
        env.reset(seed=2000 + seed)
        rec.episode(f'uniform {seed}', env, lambda t: rng.uniform(-1, 1, 2))
    for name, agent, target, act, steps in EDGES:
        put(env, agent, target)
        rec.episode(name, env, act, steps)
    rec.write(os.path.join(HERE, 'tworoom_states.h5'), np.int32, bool, None)


def frames():
    rec, env, rng = Recorder(True), TwoRoomEnv(), np.random.default_rng(8)
    for seed in range(3):
        constrained_reset(env, 3000 + seed)
        rec.episode(f'expert {seed}', env, lambda t: expert(env, rng), steps=24, stop=True)
    for name, agent, target, act, steps in EDGES:
        if steps <= 6:
            put(env, agent, target)
            rec.episode(name, env, act, steps)
    put(env, (97, 49), (180, 60))
    rec.episode('through the door', env, constant(0.61, 0.07), 9)
    rec.write(os.path.join(HERE, 'tworoom_frames.h5'), np.int64, np.uint8, h5py.string_dtype('ascii', 24))


def varied():
    """Worlds of which the original has drawn every factor."""
    env, rng = TwoRoomEnv(), np.random.default_rng(9)
    for name, pixels, episodes, steps in (('states', False, 24, 60), ('frames', True, 14, 3)):
        rec = Recorder(pixels, varied=True)
        for seed in range(episodes):
            env.reset(seed=4000 + 100 * pixels + seed, options={'variation': ['all']})
            rec.episode(f'varied {seed}', env, wander(env, rng), steps)
        rec.write(os.path.join(HERE, f'tworoom_varied_{name}.h5'), np.int32, bool, None)


if __name__ == '__main__':
    if 'varied' not in sys.argv:
        states()
        frames()
    varied()
