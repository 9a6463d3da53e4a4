"""Records PointMaze episodes with MuJoCo, stepped and drawn as the original does.

The original needs MuJoCo 2.1 and mujoco-py; its step and its order of drawing
are repeated here on MuJoCo 2.3.7, the last one with the same contacts, in the
scene of envs/pointmaze/testdata/maze.xml.

Made with CPython 3.11, h5py 3.16.0 and

    mujoco 2.3.7, numpy 1.26.4:  MUJOCO_GL=osmesa python make_pointmaze.py
        writes pointmaze_states.h5 and pointmaze_frames.h5
    mujoco 4.0.0, numpy 2.4.6:   python make_pointmaze.py
        writes pointmaze_modern.h5
    any of them:                 python make_pointmaze.py SEED OUT.h5
        writes other random episodes

The files have the published layout: row t is the state before action t, the
last row of an episode has no action (NaN) and closes it. qpos, qvel and
drawn_xy (where the disc is in the frame, in the coordinates of qpos) are beside it in float64.
"""

import os
import sys

import h5py
import mujoco
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SCENE = os.path.join(HERE, '..', '..', '..', 'envs', 'pointmaze', 'testdata', 'maze.xml')
SIZE = 224
VERSION = tuple(int(v) for v in mujoco.__version__.split('.')[:2])
PROFILE = '2.1' if VERSION < (3, 0) else '3.0' if VERSION < (3, 5) else '3.5'


class Maze:
    """The original's environment and its adapter."""

    def __init__(self):
        self.m = mujoco.MjModel.from_xml_path(SCENE)
        self.d = mujoco.MjData(self.m)
        self.goal, self.pen = None, None

    def put(self, state, goal=None):
        """The adapter's set-state and set-goal."""
        mujoco.mj_resetData(self.m, self.d)
        self.goal = None if goal is None else np.asarray(goal, dtype=np.float64)
        self._write(state[:2], state[2:])

    def _write(self, qpos, qvel):
        self.d.qpos[:], self.d.qvel[:] = qpos, qvel
        mujoco.mj_forward(self.m, self.d)
        self.drawn = self.d.qpos.copy()

    def step(self, action):
        self._write(self.d.qpos.copy(), np.clip(self.d.qvel, -5, 5))
        self.d.ctrl[:] = np.clip(np.asarray(action, dtype=np.float64), -1, 1)
        for _ in range(5):
            self.drawn = self.d.qpos.copy()
            mujoco.mj_step(self.m, self.d)

    def state(self):
        return np.concatenate([self.d.qpos, self.d.qvel]).astype(np.float32)

    def solved(self):
        return self.goal is not None and bool(np.linalg.norm(self.state()[:2] - self.goal[:2]) < 0.5)

    def frame(self):
        """No forward pass before drawing, no flip after: row 0 is the smallest y."""
        if self.pen is None:
            self.pen = Pen(self.m)
        return self.pen.draw(self.m, self.d)


class Pen:
    def __init__(self, m):
        self.gl = mujoco.gl_context.GLContext(SIZE, SIZE)
        self.gl.make_current()
        self.con = mujoco.MjrContext(m, mujoco.mjtFontScale.mjFONTSCALE_150)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.con)
        self.scn, self.cam = mujoco.MjvScene(m, 100), mujoco.MjvCamera()
        self.cam.lookat[:] = 3, 3, 0
        self.cam.distance, self.cam.azimuth, self.cam.elevation = 9.734846922834954, 90, -90

    def draw(self, m, d):
        mujoco.mjv_updateScene(m, d, mujoco.MjvOption(), None, self.cam, mujoco.mjtCatBit.mjCAT_ALL, self.scn)
        view, out = mujoco.MjrRect(0, 0, SIZE, SIZE), np.empty((SIZE, SIZE, 3), np.uint8)
        mujoco.mjr_render(view, self.scn, self.con)
        mujoco.mjr_readPixels(out, None, view, self.con)
        return out


class Recorder:
    """Collects rows of episodes and writes them as one file."""

    def __init__(self, maze, pixels=False):
        self.maze, self.pixels, self.rows, self.ep_len, self.names = maze, pixels, [], [], []

    def _row(self, step):
        maze = self.maze
        row = {
            'state': maze.state(),
            'pos': maze.state()[:2],
            'qpos': maze.d.qpos.copy(),
            'qvel': maze.d.qvel.copy(),
            'drawn_xy': maze.drawn.copy(),
            'goal_state': np.full(4, np.nan) if maze.goal is None else maze.goal.copy(),
            'reward': np.float64(np.nan if step == 0 else 0),
            'terminated': step > 0 and maze.solved(),
            'truncated': False,
            'step_idx': np.int64(step),
            'action': np.full(2, np.nan, dtype=np.float32),
        }
        if self.pixels:
            row['pixels'] = maze.frame()
        self.rows.append(row)
        return row

    def episode(self, name, act, steps):
        """Records from the maze's present state; act(t) gives the actions."""
        row = self._row(0)
        for t in range(steps):
            row['action'] = np.asarray(act(t), dtype=np.float32)
            self.maze.step(row['action'])
            row = self._row(t + 1)
        self.ep_len.append(steps + 1)
        self.names.append(name)

    def write(self, path):
        ends = np.cumsum(self.ep_len)
        with h5py.File(path, 'w', libver='earliest') as f:
            for k in self.rows[0]:
                v = np.stack([r[k] for r in self.rows])
                chunks = (1, *v.shape[1:]) if k == 'pixels' else True
                f.create_dataset(k, data=v, compression='gzip', compression_opts=9, shuffle=True,
                                 chunks=chunks, track_times=False)
            f.create_dataset('ep_len', data=np.array(self.ep_len, dtype=np.int32), track_times=False)
            f.create_dataset('ep_offset', data=np.array(ends - self.ep_len, dtype=np.int32), track_times=False)
            f.attrs['env'], f.attrs['contact_profile'] = 'pointmaze', PROFILE
            f.attrs['made_by'] = 'mujoco ' + mujoco.__version__
        print(path, os.path.getsize(path), 'bytes', list(zip(self.names, self.ep_len)))


def random_state(rng):
    """The wrapper's random state."""
    while True:
        x, y = rng.uniform(0.5, 3.1, 2)
        if x <= 1.1 or x >= 2.5 or y >= 2.5:
            return np.array([x, y, *rng.uniform(-5.2262554, 5.2262554, 2)])


def constant(x, y):
    return lambda t: (x, y)


def uniform(rng):
    return lambda t: rng.uniform(-1, 1, 2)


def toward(rng):
    """Holds a direction for some steps: faster, and harder on walls and corners, than uniform actions."""
    held = {}

    def act(t):
        if t % 8 == 0:
            held['a'] = np.sign(rng.uniform(-1, 1, 2)) * rng.uniform(0.5, 1, 2)
        return held['a']
    return act


# name, start, actions, steps: walls, corners and what no policy does
CASES = [
    ('the golden run', (0.8, 2.4, 1, -0.5), lambda t: [
        (1, .5), (1, .5), (1, 1), (.25, 1), (0, 1), (-.5, 1), (1, 1), (1, 1), (1, -.25), (1, .5), (1, -1), (-1, -1)][t], 12),
    ('round the corner of the tongue', (1.15, 2.25, 0, 0), constant(0.8, 0.35), 12),
    ('into the corner of the tongue', (1.1, 2.5, 0, 0), constant(0.7, -0.7), 12),
    ('into the right corner of the tongue', (2.5, 2.5, 0, 0), constant(-0.7, -0.7), 12),
    ('rests in a corner', (0.5, 3.1, 0, 0), constant(-1, 1), 20),
    ('slides along a wall', (0.8, 0.8, 0, 0), constant(-1, 1), 20),
    ('no action', (0.8, 0.8, 0, 0), constant(0, 0), 4),
    ('actions beyond the box', (0.8, 1.8, 0, 0), lambda t: (3.5, -7) if t % 2 else (-1.01, 250), 10),
    ('velocity beyond the clip', (0.8, 1.8, 5.1, -40), constant(0.3, 0.9), 10),
    ('starts just inside a wall', (0.32, 1.8, 0, 0), constant(0, 0), 10),
    ('starts with its centre in a wall', (0.25, 1.8, 0, 0), constant(0, 0), 10),
    ('starts deep in a wall', (-0.15, 1.83, 0, 0), constant(0, 0.1), 10),
    ('starts at the meeting of four walls', (0.3, 0.31, 0, 0), constant(0.1, 0.2), 10),
    ('starts in the tongue', (1.8, 0.8, 1, 0), constant(0, 1), 20),
    ('starts outside the maze', (-2, 5, 1, 1), constant(1, -1), 20),
    ('hits the maze from outside', (-1.1, 1.3, 0, 0), constant(1, 0), 20),
    ('far away', (-1e4, 1e6, 1, 1), constant(1, -1), 4),
]

# name, start, goal, actions, steps: the edges of success
f32 = np.float32
GOALS = [
    ('starts solved', (0.8, 1.8, 0, 0), (0.8, 1.7, 0, 0), constant(0.2, 0.3), 20),
    ('starts solved, velocities differ', (0.8, 1.8, 0, 0), (0.8, 1.8, 5, -5), constant(0.1, 0), 10),
    ('distance exactly 0.5', (0.75, 1.75, 0, 0), (0.75, 1.25, 0, 0), constant(0, 0), 3),
    ('one step of float32 below 0.5', (0.75, 1.75, 0, 0), (0.75, float(np.nextafter(f32(1.25), f32(2))), 0, 0), constant(0, 0), 3),
    ('one step of float64 below 0.5', (0.75, 1.75, 0, 0), (0.75, np.nextafter(1.25, 2), 0, 0), constant(0, 0), 3),
    ('one step of float64 above 0.5', (0.75, 1.75, 0, 0), (0.75, np.nextafter(1.25, 0), 0, 0), constant(0, 0), 3),
    ('0.3, 0.4 apart', (0.75, 1.75, 0, 0), (1.05, 2.15, 0, 0), constant(0, 0), 3),
    ('crosses 0.5 slowly', (0.8, 1.0, 0, 0), (0.8, 1.52, 0, 0), constant(0.001, 0.004), 20),
    ('in and out of the goal', (0.8, 2.8, 0, 0), (1.8, 2.8, 0, 0), lambda t: (np.sin(t / 4), np.cos(t / 3)), 60),
]


def states(maze, seed, episodes, cases):
    rec, rng = Recorder(maze), np.random.default_rng(seed)
    for i in range(episodes):
        maze.put(random_state(rng))
        rec.episode(f'uniform {i}', uniform(rng), 100)
    for i in range(episodes // 5):
        maze.put(random_state(rng))
        rec.episode(f'held {i}', toward(rng), 60)
    for name, start, act, steps in cases:
        maze.put(np.array(start, dtype=np.float64))
        rec.episode(name, act, steps)
    return rec, rng


def goals(rec, rng, episodes):
    """Goals as in evaluation: 25 steps later in another run from the same start."""
    maze = rec.maze
    for i in range(episodes):
        start = random_state(rng).astype(np.float32).astype(np.float64)
        maze.put(start)
        act = uniform(rng) if i % 2 else toward(rng)
        for t in range(25):
            maze.step(act(t))
        maze.put(start, maze.state())
        rec.episode(f'goal {i}', toward(rng), 50)
    for name, start, goal, act, steps in GOALS:
        maze.put(np.array(start, dtype=np.float64), goal)
        rec.episode(name, act, steps)


def frames(maze):
    rec, rng = Recorder(maze, True), np.random.default_rng(18)
    for i in range(12):
        maze.put(random_state(rng))
        rec.episode(f'uniform {i}', toward(rng), 12)
    for name, start, act, steps in CASES:
        if steps <= 12 or 'corner' in name or 'outside' in name:
            maze.put(np.array(start, dtype=np.float64))
            rec.episode(name, act, min(steps, 8))
    return rec


def main():
    maze = Maze()
    if len(sys.argv) > 1:
        rec, rng = states(maze, int(sys.argv[1]), 20, [])
        goals(rec, rng, 36)
        rec.write(sys.argv[2])
    elif PROFILE == '2.1':
        rec, rng = states(maze, 17, 20, CASES)
        goals(rec, rng, 36)
        rec.write(os.path.join(HERE, 'pointmaze_states.h5'))
        frames(maze).write(os.path.join(HERE, 'pointmaze_frames.h5'))
    else:
        rec, _ = states(maze, 17, 10, CASES)
        rec.write(os.path.join(HERE, 'pointmaze_modern.h5'))


if __name__ == '__main__':
    main()
