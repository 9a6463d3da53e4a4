"""Records episodes of the cube with the running original.

Made with CPython 3.11, stable-worldmodel 0.1.1, ogbench 1.2.1, dm_control 1.0.44,
mujoco 3.11.0, numpy 2.4.6 and h5py 3.16.0:

    MUJOCO_GL=osmesa python make_cube.py
        writes cube_states.h5, cube_goals.h5, cube_float64.h5 and cube_frames.h5
    python make_cube.py SEED OUT.h5 PLANS UNIFORM GOALS [frames]
        writes that many other episodes of each kind

The files have the published layout: row t is the state before action t, the last
row of an episode has no action (NaN) and closes it. sim_ctrl, reward and terminated
belong to the step into the row; sim_qacc_warmstart is where MuJoCo's solver starts
from in the row's state, sim_pinch_* what the controller sees of it. Episodes with a
goal end when it is met.
"""

import os
import sys
import warnings

warnings.filterwarnings('ignore')
from stable_worldmodel.envs.ogbench.cube_env import CubeEnv  # before mujoco: torch dislikes OSMesa's LLVM
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle
import h5py
import mujoco
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SIM = ('sim_ctrl', 'sim_pinch_xpos', 'sim_pinch_xmat')
HEAVY = ('observation', 'proprio_joint_pos', 'proprio_joint_vel', 'privileged_block_0_quat')  # say what qpos and qvel say


def make(mode):
    """The environment as the task's configuration makes it; compiled once, for good."""
    env = CubeEnv(env_type='single', ob_type='states', multiview=False, visualize_info=False, terminate_at_goal=True, mode=mode)
    env.reset(seed=0)
    env.modify_mjcf_model = lambda model: model  # nothing varies
    return env


class Recorder:
    """Collects rows of episodes and writes them as one file."""

    def __init__(self, pixels=False, dtype=np.float32, without=(), brief=False):
        self.pixels, self.dtype, self.without, self.brief = pixels, dtype, without, brief
        self.rows, self.ep_len, self.names = [], [], []

    def _row(self, obs, step, reward, terminated):
        env, data = self.env, self.env._data
        info = {k.replace('/', '_'): np.asarray(v, dtype=np.float64) for k, v in env.compute_ob_info().items()
                if k.startswith(('proprio', 'privileged/block', 'qpos', 'qvel', 'time'))}
        row = {
            **info, 'observation': obs,
            'goal_privileged_block_0_pos': np.full(3, np.nan) if self.goal is None else np.array(self.goal),
            'sim_qacc_warmstart': data.qacc_warmstart.copy(), 'sim_ctrl': data.ctrl.copy(),
            'sim_pinch_xpos': data.site_xpos[env._pinch_site_id].copy(), 'sim_pinch_xmat': data.site_xmat[env._pinch_site_id].copy(),
            'reward': np.float64(reward), 'terminated': terminated, 'truncated': False, 'step_idx': np.int32(step),
            'action': np.full(5, np.nan, dtype=self.dtype),
        }
        for name in self.without:
            del row[name]
        if self.pixels:
            row['pixels'] = env.render(camera='front_pixels')
        self.rows.append(row)
        return row

    def episode(self, name, env, act, steps, goal=None):
        """Records from the present state; act(t) gives the actions."""
        self.env, self.goal = env, goal
        if goal is not None:
            env.set_target_pos(0, goal)
        row = self._row(env.compute_observation(), 0, np.nan, False)
        for t in range(steps):
            row['action'] = np.asarray(act(t)).astype(self.dtype)
            obs, reward, terminated, _, _ = env.step(row['action'])
            if goal is None:
                reward, terminated = 0.0, False
            row = self._row(obs, t + 1, reward, terminated)
            if terminated:
                break
        if self.brief:  # NaN is not compared: the start and the flags are enough
            for row in self.rows[1 - t - 2:]:
                for k in ('qpos', 'qvel', 'sim_qacc_warmstart', 'proprio_effector_pos'):
                    row[k] = np.full_like(row[k], np.nan)
        self.ep_len.append(t + 2)
        self.names.append(name)

    def write(self, path):
        ends = np.cumsum(self.ep_len)
        with h5py.File(path, 'w', libver='earliest') as f:
            for k in self.rows[0]:
                v = np.stack([r[k] for r in self.rows])
                packed = dict(compression='gzip', compression_opts=9, shuffle=k != 'pixels',
                              chunks=(1, *v.shape[1:]) if k == 'pixels' else True)
                f.create_dataset(k, data=v, track_times=False, **(packed if v.size > 2000 else {}))
            f.create_dataset('ep_len', data=np.array(self.ep_len, dtype=np.int32), track_times=False)
            f.create_dataset('ep_offset', data=np.array(ends - self.ep_len, dtype=np.int32), track_times=False)
            f.attrs['env'], f.attrs['made_by'] = 'cube', 'mujoco ' + mujoco.__version__
            if self.pixels:
                f.attrs['drawn_by'] = self.gl()
        print(path, os.path.getsize(path), 'bytes', list(zip(self.names, self.ep_len)))

    def gl(self):
        """What OpenGL calls itself."""
        from OpenGL import GL
        self.env._renderer._gl_context.make_current()
        while GL.glGetError():
            pass
        return ', '.join(GL.glGetString(n).decode() for n in (GL.GL_RENDERER, GL.GL_VERSION))


class Plans:
    """Episodes of the plan oracle in the mode that collects data, with a new target for each plan."""

    def __init__(self):
        self.env = make('data_collection')
        self.oracle = CubePlanOracle(env=self.env, noise=0.1, noise_smoothing=0.5)

    def start(self, seed):
        np.random.seed(seed)
        self.env.reset(seed=seed)
        self._plan()
        return self.env

    def _plan(self):
        info = {**self.env.compute_ob_info(), 'success': False}
        self.oracle.reset(None, info)

    def act(self, t):
        action = np.clip(self.oracle.select_action(None, self.env.compute_ob_info()), -1, 1)
        if self.oracle.done:
            for name in ('goal_position', 'goal_yaw'):
                self.env.variation_space['cube'][name].sample()
            self.env.set_new_target(return_info=False)
            self._plan()
        return action


def uniform(rng):
    return lambda t: rng.uniform(-1, 1, 5)


def golden(t):
    """The run of docs/sources.md#cube-golden: down beside the cube, close, up, open."""
    return np.array(([(0, 1, 0, 0, -1)] * 2 + [(0, 0, -1, 0, -1)] * 6 + [(0, 0, 0, 0, 1)] * 6 + [(0, -.5, 1, .2, 1)] * 6 + [(0, 0, 0, 0, -1)] * 4)[t])


def put(env, qpos, qvel):
    """Reset and set-state as an evaluation does."""
    env.reset()
    env.set_state(qpos, qvel)


def start_golden(env):
    """The state that the golden run starts from: yaw 0 of effector and cube."""
    env.reset()
    env._data.qpos[:6] = (-1.891558487, -1.773761573, 1.897744594, -1.694779348, -1.570796327, -.320762160)
    env._data.qpos[14:] = (.425, .1, .02, 1, 0, 0, 0)
    put(env, env._data.qpos.copy(), np.zeros(20))


# name, actions, steps: what no policy does
CASES = [
    ('the golden run', golden, 24),
    ('actions beyond the box', lambda t: (2, -3, 1.5, 7, -9) if t % 2 else (-2, 3, -1.5, -7, 9), 12),
    ('against the table', lambda t: (0, 0, -1, 0, t % 2), 12),
    ('out of reach', lambda t: (1, 1, 1, 1, 0), 12),
    ('rest', lambda t: np.zeros(5), 3),
]


def goals(rec, task, plans, rng, episodes, steps):
    """Starts inside plan episodes with the cube's place 25 steps later as the goal, and a policy
    that nearly repeats them; every fifth is solved at its start."""
    i = 0
    while i < episodes:
        env = plans.start(int(rng.integers(1 << 30)))
        trail = []
        for t in range(120):
            state = env._data.qpos.copy(), env._data.qvel.copy()
            action = plans.act(t)
            trail.append((*state, action))
            env.step(action)
        for s in range(int(rng.integers(5, 30)), 95, 30):
            if i >= episodes:
                break
            qpos, qvel, _ = trail[s]
            goal = trail[s + 25][0][14:17].copy()
            if i % 5 == 1:
                goal = qpos[14:17] + rng.uniform(-0.02, 0.02, 3)
            noise = rng.normal(0, 0.03 * (i % 3), (steps, 5))
            put(task, qpos, qvel)
            rec.episode(f'goal {i}', task, lambda t: np.clip(trail[min(s + t, 119)][2] + noise[t], -1, 1), steps, goal)
            i += 1


def edges(rec, task):
    """The cube at rest 0.04 from the goal, a step of float64 on either side."""
    start_golden(task)
    for t in range(4):
        task.step(np.zeros(5))
    qpos, qvel = task._data.qpos.copy(), task._data.qvel.copy()
    put(task, qpos, qvel)
    task.step(np.zeros(5))
    x = task._data.qpos[14:17].copy()
    for way in np.eye(3):
        for by in (0.04, np.nextafter(0.04, 0), np.nextafter(0.04, 1)):
            put(task, qpos, qvel)
            rec.episode(f'edge {by}', task, lambda t: np.zeros(5), 1, x + way * by)


def record(rec, seed, plans, uniforms, goal_episodes, steps=200, uniform_steps=50):
    rng = np.random.default_rng(seed)
    oracle = Plans() if plans or goal_episodes else None
    collecting = oracle.env if oracle else make('data_collection')
    for i in range(plans):
        rec.episode(f'plan {i}', oracle.start(seed + i), oracle.act, steps)
    for i in range(uniforms):
        np.random.seed(seed + i)
        collecting.reset(seed=seed + i)
        rec.episode(f'uniform {i}', collecting, uniform(rng), uniform_steps)
    if goal_episodes:
        goals(rec, make('task'), oracle, rng, goal_episodes, 50)
    return rec


def frames(plans, task):
    """Starts inside a plan: the first frame is of the state, the next ones lag."""
    rec, env = Recorder(pixels=True, without=HEAVY), plans.start(20)
    for t in range(60):
        if t in (10, 30, 50):
            put(task, env._data.qpos.copy(), env._data.qvel.copy())
            rec.episode(f'after {t} steps', task, lambda i: plans.act(t + i), 2)
        env.step(plans.act(t))
    return rec


def main():
    if len(sys.argv) > 1:
        seed, path, counts = int(sys.argv[1]), sys.argv[2], [int(n) for n in sys.argv[3:6]]
        record(Recorder(pixels='frames' in sys.argv), seed, *counts).write(path)
        return
    rec = record(Recorder(without=HEAVY), 17, 1, 1, 0, steps=200, uniform_steps=25)
    task = make('task')
    for name, act, steps in CASES:
        start_golden(task)
        rec.episode(name, task, act, steps)
    rec.write(os.path.join(HERE, 'cube_states.h5'))
    rec = Recorder(dtype=np.float64)
    record(rec, 19, 1, 1, 0, steps=10, uniform_steps=5).write(os.path.join(HERE, 'cube_float64.h5'))
    rec = record(Recorder(without=HEAVY + SIM, brief=True), 18, 0, 0, 42)
    edges(rec, task)
    rec.write(os.path.join(HERE, 'cube_goals.h5'))
    frames(Plans(), task).write(os.path.join(HERE, 'cube_frames.h5'))


if __name__ == '__main__':
    main()
