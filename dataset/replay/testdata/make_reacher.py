"""Records Reacher episodes with the running original.

Made with CPython 3.11, stable-worldmodel 0.1.1, dm_control 1.0.44, mujoco 3.11.0,
numpy 2.4.6 and h5py 3.16.0:

    MUJOCO_GL=osmesa python make_reacher.py
        writes reacher_states.h5, reacher_frames.h5, reacher_varied_states.h5 and reacher_varied_frames.h5
    MUJOCO_GL=osmesa python make_reacher.py varied
        writes the last two, of worlds in which the original has drawn all that it lets vary
    python make_reacher.py SEED OUT.h5
        writes other random episodes, without frames

The files have the published layout: row t is the state before action t, the
last row of an episode has no action (NaN) and closes it. substeps, sim_ctrl,
reward and terminated belong to the step into the row; sim_qacc_warmstart is
what MuJoCo's solver starts from in the row's state. Episodes with a goal end when it is met.
"""

import os
import sys

from stable_worldmodel.envs.dmcontrol.reacher import ReacherDMControlWrapper  # before mujoco: torch dislikes OSMesa's LLVM
import h5py
import mujoco
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = np.deg2rad(160)
# All that the original lets vary, but for agent.finger_locked, which changes nothing.
FACTORS = ['agent.color', 'agent.arm_density', 'agent.finger_density', 'floor.color', 'target.color', 'target.shape',
           'rendering.render_target', 'light.intensity']


class Recorder:
    """Collects rows of episodes and writes them as one file."""

    def __init__(self, pixels=False, varied=False):
        self.env = ReacherDMControlWrapper(task='qpos_match', seed=0)
        self.env.reset(seed=0)  # compiles the model once more, for good
        self.pixels, self.varied, self.rows, self.ep_len, self.names = pixels, varied, [], [], []

    @property
    def data(self):
        return self.env.env.physics.data

    def put(self, seed, state=None, goal=None):
        """Reset, then set-state and set-goal as an evaluation does."""
        obs, _ = self.env.reset(seed=seed, options=None if state is None else {'state': state})
        self.goal = goal
        self.env.env.task.target_qpos = None
        if goal is not None:
            self.env.set_target_qpos(goal)
        return obs

    def _row(self, obs, step, reward, terminated, substeps):
        info = self.env.info
        row = {
            'qpos': info['qpos'], 'qvel': info['qvel'], 'observation': obs,
            'finger_pos': info['finger_pos'], 'target_pos': info['target_pos'],
            'goal_qpos': np.full(2, np.nan) if self.goal is None else np.array(self.goal, dtype=np.float64),
            'sim_qacc_warmstart': self.data.qacc_warmstart.copy(),
            'sim_ctrl': self.data.ctrl.copy(),
            'reward': np.float64(reward), 'terminated': terminated, 'truncated': False,
            'substeps': np.int32(substeps), 'step_idx': np.int32(step),
            'action': np.full(2, np.nan),
        }
        if self.varied:
            space = self.env.variation_space
            row |= {f'variation.{n}': np.array(space[n.split('.')[0]][n.split('.')[1]].value).reshape(-1) for n in FACTORS}
        if self.pixels:
            row['pixels'] = self.env.render()
        self.rows.append(row)
        return row

    def episode(self, name, obs, act, steps):
        """Records from the present state; act(t) gives the actions."""
        row = self._row(obs, 0, np.nan, False, 0)
        for t in range(steps):
            row['action'] = np.asarray(act(t), dtype=np.float64)
            before = self.data.time
            obs, reward, terminated, _, _ = self.env.step(row['action'])
            row = self._row(obs, t + 1, reward, terminated, round((self.data.time - before) / 0.02))
            if terminated:
                break
        self.ep_len.append(t + 2)
        self.names.append(name)

    def write(self, path):
        ends = np.cumsum(self.ep_len)
        with h5py.File(path, 'w', libver='earliest') as f:
            for k in self.rows[0]:
                v = np.stack([r[k] for r in self.rows])
                chunks = (1, *v.shape[1:]) if k == 'pixels' else True
                f.create_dataset(k, data=v, compression='gzip', compression_opts=9, shuffle=k != 'pixels',
                                 chunks=chunks, track_times=False)
            f.create_dataset('ep_len', data=np.array(self.ep_len, dtype=np.int32), track_times=False)
            f.create_dataset('ep_offset', data=np.array(ends - self.ep_len, dtype=np.int32), track_times=False)
            f.attrs['env'], f.attrs['made_by'] = 'reacher', 'mujoco ' + mujoco.__version__
            if self.pixels:
                f.attrs['drawn_by'] = self.gl()
        print(path, os.path.getsize(path), 'bytes', list(zip(self.names, self.ep_len)))

    def gl(self):
        """What OpenGL calls itself."""
        from OpenGL import GL
        with self.env.env.physics.contexts.gl.make_current() as ctx:
            return ', '.join(ctx.call(GL.glGetString, n).decode() for n in (GL.GL_RENDERER, GL.GL_VERSION))


def uniform(rng):
    return lambda t: rng.uniform(-1, 1, 2)


def constant(x, y):
    return lambda t: (x, y)


# name, state (qpos, qvel), actions, steps: the golden run, the wrist's limits and what no policy does
CASES = [
    ('the golden run', (.5, -1, .3, -.2), lambda t: [(1, 0), (-1, .5), (.25, -1), (0, 0), (1, 1)][t], 5),
    ('against the upper limit', (0, 2.5, 0, 3), constant(0, 1), 40),
    ('against the lower limit', (0, -2.5, 0, -3), constant(0, -1), 40),
    ('beyond the limit', (1, LIMIT + 0.4, 0, 0), constant(0.3, 0), 20),
    ('round and round', (3, 0, 10, 0), constant(1, 0.02), 60),
    ('fast', (-2, 1, -60, 80), constant(-1, 1), 20),
    ('rest', (0.1, 0.2, 0, 0), constant(0, 0), 4),
    ('actions beyond the box', (0, 0, 0, 0), lambda t: (3.5, -7) if t % 2 else (-1.01, 250), 10),
    ('tiny actions', (0, 0, 0, 0), lambda t: (1e-17 * t, -1e-9), 10),
]


def success(rec, rng, episodes):
    """Goals 25 steps later in another run from the same start, and a policy that nearly repeats it."""
    for i in range(episodes):
        start = np.concatenate([rng.uniform(-np.pi, np.pi, 1), rng.uniform(-2.5, 2.5, 1), rng.normal(0, 2, 2)])
        rec.put(1000 + i, start)
        plan = rng.uniform(-1, 1, (50, 2))
        for t in range(25):
            rec.env.step(plan[t])
        goal = rec.data.qpos.copy()
        if i % 8 == 5:
            goal = start[:2] + rng.uniform(-0.05, 0.05, 2)  # solved at the start
        if i % 8 == 6:
            goal[0] += 2 * np.pi  # a turn away: another goal
        obs = rec.put(2000 + i, start, goal)
        noise = rng.normal(0, 0.02 * (i % 4), (50, 2))
        rec.episode(f'goal {i}', obs, lambda t: plan[t] + noise[t], 50)


def edges(rec):
    """Rest 0.05 from the goal, a step of float64 on either side."""
    for name, goal in [('at', 0.05), ('below', np.nextafter(0.05, 0)), ('above', np.nextafter(0.05, 1))]:
        for sign in (1, -1):
            obs = rec.put(1, np.zeros(4), np.array([sign * goal, 0]))
            rec.episode(f'{name} {sign}', obs, constant(0, 0), 3)


def states(seed, episodes, goals):
    rec, rng = Recorder(), np.random.default_rng(seed)
    for i in range(episodes):
        rec.episode(f'uniform {i}', rec.put(seed + i), uniform(rng), 200)
    success(rec, rng, goals)
    return rec


def frames():
    rec, rng = Recorder(True), np.random.default_rng(18)
    for i in range(10):
        rec.episode(f'uniform {i}', rec.put(500 + i), uniform(rng), 2)
    for name, state, act, steps in CASES:
        rec.episode(name, rec.put(7, np.array(state, dtype=np.float64)), act, 2)
    return rec


def varied():
    """Worlds with every factor drawn; the target of half of them is visible, as box or ball."""
    for name, episodes, steps in [('states', 8, 40), ('frames', 8, 1)]:
        rec, rng = Recorder(name == 'frames', True), np.random.default_rng(19)
        for i in range(episodes):
            obs, _ = rec.env.reset(seed=4000 + 7 * i, options={'variation': ['all']})
            rec.goal = rec.data.qpos + rng.uniform(-0.4, 0.4, 2)
            rec.env.set_target_qpos(rec.goal)
            rec.episode(f'varied {i}', obs, uniform(rng), steps)
        rec.write(os.path.join(HERE, f'reacher_varied_{name}.h5'))


def main():
    if sys.argv[1:] == ['varied']:
        return varied()
    if len(sys.argv) > 1:
        states(int(sys.argv[1]), 5, 16).write(sys.argv[2])
        return
    rec = states(17, 20, 44)
    for name, state, act, steps in CASES:
        rec.episode(name, rec.put(7, np.array(state, dtype=np.float64)), act, steps)
    edges(rec)
    rec.write(os.path.join(HERE, 'reacher_states.h5'))
    frames().write(os.path.join(HERE, 'reacher_frames.h5'))
    varied()


if __name__ == '__main__':
    main()
