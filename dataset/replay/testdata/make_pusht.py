"""Records Push-T of stable-worldmodel as it is installed, for the replay tests.

Made with stable-worldmodel 0.1.1, pymunk 7.3.1 (Chipmunk's successor Munk2D),
pygame 2.6.1, opencv-python 5.0.0, numpy 2.4, h5py, CPython 3.11:

    python make_pusht.py                    # writes pusht_*.h5 beside itself
    python make_pusht.py FOLDER SEED        # others like them, to replay
    python make_pusht.py FOLDER SEED frames # only those with frames
    python make_pusht.py FOLDER SEED varied # only those of worlds that vary

The files have the published layout: row t is the state before action t, the
last row of an episode has no action (NaN) and closes it. The columns restart_*
tell how row 0 was reached, because velocities that a set-state leaves act in
the next one.
"""

import math
import os
import sys

import h5py
import numpy as np
from pymunk.vec2d import Vec2d
from stable_worldmodel.envs.pusht.env import PushT

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0


class Recorded(PushT):
    """Push-T that remembers how its space came to be."""

    def _setup(self):
        super()._setup()
        self.story = {'setup': [*self.agent.position, *self.block.position, self.block.angle], 'set': []}

    def _set_state(self, state):
        super()._set_state(state)
        self.story['set'].append(np.array(state, dtype=np.float64)[:5].tolist() + list(self.asked(state)))

    @staticmethod
    def asked(state):
        return [float(v) for v in state[-2:]] if len(state) == 7 else [0.0, 0.0]

    def restart(self):
        """The columns of the mode that the story so far amounts to."""
        said = self.story['set']
        names = {1: ['start'], 2: ['goal', 'start'], 3: ['goal', 'start', 'eval']}[len(said)]
        cols = {f'restart_{n}_state': np.full(7, np.nan) for n in ('goal', 'start', 'eval')}
        cols |= {f'restart_{n}_state': np.array(v) for n, v in zip(names, said)}
        return cols | {'restart_mode': np.int64(len(said) - 1), 'restart_setup_pose': np.array(self.story['setup'])}


# The factors that are reproduced and have an effect in the original.
FACTORS = ('background.color', 'goal.color', 'goal.angle', 'goal.position', 'block.color', 'agent.color',
           'agent.scale', 'agent.velocity', 'rendering.render_goal')
STARTS = ('block.angle', 'block.start_position', 'agent.start_position')


def variation(env):
    """The columns of the factors, as the original's values."""
    space = env.variation_space
    return {f'variation.{n}': np.array(space[n.split('.')[0]][n.split('.')[1]].value).reshape(-1) for n in FACTORS}


class File:
    """Collects rows of episodes and writes them as one file."""

    def __init__(self, dtype, numpy1=False, widened=False, pixels=False, varied=False):
        self.varied = varied
        self.dtype, self.numpy1, self.widened, self.pixels = dtype, numpy1, widened, pixels
        self.rows, self.ep_len, self.names = [], [], []

    def _row(self, env, reward, terminated, step, restart):
        state = env._get_obs()
        row = {
            'state': state,
            'proprio': np.concatenate((state[:2], state[-2:])),
            'pos_agent': np.array(env.agent.position),
            'vel_agent': np.array(env.agent.velocity),
            'block_pose': np.array([*env.block.position, env.block.angle]),
            'goal_pose': env.goal_pose,
            'goal_state': np.array(env.goal_state, dtype=np.float64),
            'n_contacts': np.int64(np.ceil(env.n_contact_points / 10)),
            'reward': np.float64(reward),
            'terminated': bool(terminated),
            'truncated': False,
            'step_idx': np.int64(step),
            'action': np.full(2, np.nan, dtype=self.dtype),
        } | restart | (variation(env) if self.varied else {})
        if self.pixels:
            row['pixels'] = env.render().copy()
        self.rows.append(row)
        return row

    def _step(self, env, action):
        if self.widened:
            return env.step(action.astype(np.float64))
        if not self.numpy1:
            return env.step(action)
        # NumPy 1 rounds the product of a float32 action and nothing else.
        env.relative = False
        reach = action * np.float32(env.action_scale)
        p = env.agent.position
        out = env.step(Vec2d(p.x + float(reach[0]), p.y + float(reach[1])))
        env.relative = True
        return out

    def episode(self, name, env, act, steps):
        """Records from env's present state; act(t) gives the actions."""
        restart = env.restart()
        row = self._row(env, np.nan, False, 0, restart)
        for t in range(steps):
            row['action'] = np.asarray(act(t), dtype=self.dtype)
            _, reward, terminated, _, _ = self._step(env, row['action'])
            row = self._row(env, reward, terminated, t + 1, restart)
        self.ep_len.append(steps + 1)
        self.names.append(name)

    def write(self, name, attrs):
        path = os.path.join(OUT, name)
        with h5py.File(path, 'w', libver='earliest') as f:
            for k in self.rows[0]:
                v = np.stack([r[k] for r in self.rows])
                if np.issubdtype(v.dtype, np.floating) and np.isnan(v).all():
                    continue
                chunks = (1, *v.shape[1:]) if k == 'pixels' else True
                f.create_dataset(k, data=v, compression='gzip', compression_opts=9, shuffle=True, chunks=chunks, track_times=False)
            ends = np.cumsum(self.ep_len)
            f.create_dataset('ep_len', data=np.array(self.ep_len, dtype=np.int32), track_times=False)
            f.create_dataset('ep_offset', data=np.array(ends - self.ep_len, dtype=np.int64), track_times=False)
            for k, v in ({'env': 'pusht', 'made_by': 'stable-worldmodel 0.1.1, pymunk 7.3.1'} | attrs).items():
                f.attrs[k] = v
        contact = sum(r['n_contacts'] > 0 for r in self.rows)
        solved = sum(r['terminated'] for r in self.rows)
        print(name, os.path.getsize(path), 'bytes', len(self.ep_len), 'episodes', len(self.rows), 'rows', contact, 'with contact', solved, 'solved')


def pushes(env, rng, span=1.0, near=100):
    """Targets round the block, as the repository's weak policy draws them."""
    def act(_):
        p, b = np.array(env.agent.position), np.array(env.block.position)
        a = np.clip(p + rng.uniform(-span, span, 2) * 100, b - near, b + near)
        return np.clip((a - p) / 100, -1, 1)
    return act


def lean(env, where):
    """Pushes the block's middle steadily towards a place."""
    def act(_):
        middle = np.array(env.block.local_to_world((0, 45)))
        return np.clip((np.array(where) - middle) / 200 + (middle - np.array(env.agent.position)) / 150, -1, 1)
    return act


def at(env, state, goal=None, setup_seed=0):
    """Mode 0: a new space, then one set-state."""
    env.reset(seed=setup_seed)
    env._setup()
    env._set_state(np.array(state, dtype=np.float64))
    env._set_goal_state(np.array(goal if goal is not None else state, dtype=np.float64))


def wrapped(env):
    """The goal of a reset with its angle as states have it."""
    g = np.array(env.goal_state, dtype=np.float64)
    g[4] %= 2 * math.pi
    if len(g) < 7:
        g = np.concatenate((g, np.zeros(7 - len(g))))
    env._set_goal_state(g)


def reset(env, seed):
    env.reset(seed=seed + SEED)
    wrapped(env)


def evaluation_pair(env, rng, seed, ahead):
    """A start, a goal some steps ahead in the same episode, and the actions between."""
    reset(env, seed)
    act, states, actions = pushes(env, rng, 0.5, 80), [env._get_obs()], []
    for t in range(12 + ahead):
        actions.append(act(t).astype(np.float32).astype(np.float64))
        env.step(actions[-1])
        states.append(env._get_obs())
    return states[12], states[12 + ahead], actions[12:]


# Agent and block placed on or near each other, on walls, outside.
EDGES = [
    ('agent inside the bar', (256, 262, 256, 256, 0, 0, 0)),
    ('agent inside the stem', (256, 330, 256, 256, 0, 0, 0)),
    ('agent at the corner', (331, 251, 256, 256, 0, 0, 0)),
    ('agent just touching', (256, 241, 256, 256, 0, 0, 0)),
    ('agent in the nook', (285, 300, 256, 256, 0, 100, -50)),
    ('block in the left wall', (250, 250, 40, 250, 1.2, 0, 0)),
    ('block in a corner', (250, 250, 470, 470, 0.8, 0, 0)),
    ('block over two walls', (420, 420, 450, 400, -0.6, 0, 0)),
    ('block along the top wall', (256, 60, 256, 8, 0, 0, 0)),
    ('block pinned between agent and wall', (440, 256, 488, 256, math.pi / 2, 0, 0)),
    ('agent outside', (600, -40, 256, 256, 3, -300, 250)),
    ('block outside', (256, 256, 700, 640, 3, 0, 0)),
    ('angle of many turns', (180, 300, 256, 300, 25.5, 0, 0)),
]


def thresholds():
    """Goals for a world at rest, on both sides of the success rule's edges."""
    here = np.array([100, 100, 300, 200, 1.25, 0, 0], dtype=np.float64)
    def moved(i, v):
        g = here.copy()
        g[i] = v
        return g
    yield 'solved at once', here, here
    yield 'solved at another velocity', here, moved(5, 300)
    yield '20 away', here, here + [12, 16, 0, 0, 0, 0, 0]
    yield '20 away over four', here, here + [10, 10, 10, 10, 0, 0, 0]
    yield 'just below 20', here, moved(0, np.nextafter(120, 0))
    yield 'just above 20', here, moved(0, np.nextafter(120, 200))
    for k, d in enumerate((math.pi / 9, -math.pi / 9)):
        for away in (0, 10):
            g = here[4] + d
            yield f'turned by the limit {k}', here, moved(4, g if not away else np.nextafter(g, away))
            yield f'turned by the limit {k}, inwards', here, moved(4, np.nextafter(g, here[4]))
    low = here.copy(); low[4] = 0.1
    g = low.copy(); g[4] = 2 * math.pi - 0.1
    yield 'across a full turn', low, g
    g = g.copy(); g[4] = 2 * math.pi - 0.3
    yield 'across a full turn, too far', low, g


def states():
    env, rng, rec = Recorded(), np.random.default_rng(7 + SEED), File(np.float64)
    for seed in range(20):
        reset(env, 1000 + seed)
        rec.episode(f'pushes {seed}', env, pushes(env, rng), 100)
    for seed in range(4):
        reset(env, 1500 + seed)
        rec.episode(f'to the wall {seed}', env, lean(env, [(0, 250), (520, 250), (510, 510), (256, -20)][seed]), 60)
    for name, state in EDGES:
        at(env, state)
        rec.episode(name, env, pushes(env, rng, 0.6), 12)
    for seed in range(40):
        ahead = 25 if seed % 4 else 1 + seed // 4
        start, goal, actions = evaluation_pair(env, rng, 2000 + seed, ahead)
        env.reset(seed=3000 + seed)
        env._set_state(start)
        env._set_goal_state(goal)
        actions += [np.zeros(2)] * (30 - len(actions))
        noise = rng.normal(0, 0.03, (30, 2)) * (seed % 3)
        rec.episode(f'evaluation {seed}', env, lambda t: actions[t] + noise[t], 30)
    for name, state, goal in thresholds():
        at(env, state, goal)
        rec.episode(name, env, lambda t: np.zeros(2), 2)
    rec.write('pusht_states.h5', {'numeric_mode': 'float64'})


def float32():
    env, rng, rec = Recorded(), np.random.default_rng(8 + SEED), File(np.float32)
    for seed in range(8):
        reset(env, 4000 + seed)
        rec.episode(f'pushes {seed}', env, pushes(env, rng), 100)
    for name, state in EDGES[:5]:
        at(env, state)
        rec.episode(name, env, pushes(env, rng, 0.6), 12)
    rec.write('pusht_float32_pd.h5', {'numeric_mode': 'float32_pd'})


def numpy1():
    env, rng, rec = Recorded(), np.random.default_rng(9 + SEED), File(np.float32, numpy1=True)
    for seed in range(4):
        reset(env, 5000 + seed)
        rec.episode(f'pushes {seed}', env, pushes(env, rng), 60)
    rec.write('pusht_numpy1.h5', {})


def widened():
    env, rng, rec = Recorded(), np.random.default_rng(11 + SEED), File(np.float32, widened=True)
    for seed in range(3):
        reset(env, 7000 + seed)
        rec.episode(f'pushes {seed}', env, pushes(env, rng), 40)
    rec.write('pusht_widened.h5', {'numeric_mode': 'float64'})


def frames():
    env, rng, rec = Recorded(), np.random.default_rng(10 + SEED), File(np.float64, pixels=True)
    for seed in range(3):
        reset(env, 6000 + seed)
        rec.episode(f'pushes {seed}', env, pushes(env, rng), 12)
    for name, state in EDGES:
        at(env, state)
        rec.episode(name, env, pushes(env, rng, 0.6), 4)
    rec.write('pusht_frames.h5', {})


def varied():
    """Worlds of which the original has drawn the factors."""
    env, rng = Recorded(), np.random.default_rng(12 + SEED)
    for name, pixels, episodes, steps in (('states', False, 16, 50), ('frames', True, 14, 5)):
        rec = File(np.float64, pixels=pixels, varied=True)
        for seed in range(episodes):
            env.reset(seed=8000 + 100 * pixels + seed + SEED, options={'variation': FACTORS + STARTS})
            wrapped(env)
            rec.episode(f'varied {seed}', env, pushes(env, rng, 1, 60), steps)
        rec.write(f'pusht_varied_{name}.h5', {'numeric_mode': 'float64'})


if __name__ == '__main__':
    only = [m for m in (frames, varied) if m.__name__ in sys.argv[3:]]
    for make in only or (states, float32, numpy1, widened, frames, varied):
        make()
