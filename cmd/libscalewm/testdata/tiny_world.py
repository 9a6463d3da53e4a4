"""A small gymnasium environment for tests: a point in a square with a velocity, drawn as a dot of 32 x 32 pixels. It is also the module that tests of the command line name."""

import os
import time

import gymnasium
import numpy as np


class Point(gymnasium.Env):
    """The point accelerates by the action. The episode terminates when it is within 0.1 of the goal."""

    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    observation_space = gymnasium.spaces.Box(-10, 10, (4,), np.float64)

    def __init__(self, size=32, render_mode="rgb_array"):
        self.size, self.render_mode = size, render_mode
        self.position, self.velocity, self.goal = np.zeros(2), np.zeros(2), np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.velocity, self.goal = self.np_random.uniform(-1, 1, 2), np.zeros(2), self.np_random.uniform(-1, 1, 2)
        return self._get_obs(), {}

    def _get_obs(self):
        return np.concatenate([self.position, self.velocity])

    def step(self, action):
        time.sleep(float(os.environ.get("POINT_SLEEP", 0)))
        self.velocity = 0.8 * self.velocity + 0.05 * np.asarray(action, np.float64)
        self.position = np.clip(self.position + self.velocity, -1, 1)
        done = bool(np.linalg.norm(self.position - self.goal) < 0.1)
        return self._get_obs(), -1.0, done, False, {}

    def render(self):
        return picture(self.position, self.size)


def picture(position, size=32):
    y, x = np.mgrid[:size, :size] / (size - 1) * 2 - 1
    dot = np.exp(-((x - position[0]) ** 2 + (y - position[1]) ** 2) / 0.05)
    return np.repeat((255 * dot).astype(np.uint8)[..., None], 3, 2)


def set_state(env, row):
    e = env.unwrapped
    e.position, e.velocity = np.array(row["observation"][:2]), np.array(row["observation"][2:])
    if "goal_observation" in row:
        e.goal = np.array(row["goal_observation"][:2])


def success(env, goal):
    """The point is within 0.1 of the goal's position."""
    return bool(np.linalg.norm(env.unwrapped.position - goal["observation"][:2]) < 0.1)


def goal(env, rng):
    g = rng.uniform(-1, 1, 2)
    env.unwrapped.goal = g
    return {"observation": np.concatenate([g, [0, 0]]), "pixels": picture(g, env.unwrapped.size)}


class See:
    """A cost model that knows the world: it finds the dot in the frames and integrates the actions."""

    frame_size = 32

    def state_dict(self):
        return {}

    def _where(self, frames):
        w = frames[..., 0].astype(np.float64)
        g = np.linspace(-1, 1, 32)
        s = w.sum((1, 2)) + 1e-9
        return np.stack([(w.sum(1) @ g) / s, (w.sum(2) @ g) / s], 1)

    def encode(self, frames):
        return self._where(frames)

    def rollout(self, start, candidates):
        p, v = np.repeat(start[:, None], candidates.shape[1], 1), 0
        for h in range(candidates.shape[2]):
            for a in np.split(candidates[:, :, h], 5, -1):
                v = 0.8 * v + 0.05 * 0.58 * a
                p = p + v
        return p


def record(path, episodes=12, steps=40, seed=0, names=None):
    """Writes a data set of random actions with h5py. `names` replaces names of columns."""
    import h5py

    rng, env = np.random.default_rng(seed), Point()
    cols = {k: [] for k in ("pixels", "action", "observation", "goal_observation")}
    for e in range(episodes):
        env.reset(seed=e)
        for t in range(steps + 1):
            cols["pixels"].append(env.render())
            cols["observation"].append(env._get_obs())
            cols["goal_observation"].append([*env.goal, 0, 0])
            a = rng.uniform(-1, 1, 2).astype(np.float32)
            cols["action"].append(a if t < steps else np.full(2, np.nan, np.float32))
            env.step(a)
    with h5py.File(path, "w") as f:
        for k, v in cols.items():
            f[(names or {}).get(k, k)] = np.asarray(v, {"pixels": np.uint8, "action": np.float32}.get(k, np.float64))
        n = steps + 1
        f["ep_len"] = np.full(episodes, n, np.int32)
        f["ep_offset"] = np.arange(episodes) * n
        f["step_idx"] = np.tile(np.arange(n), episodes)
    return path


MODEL = See()
MODEL.method = "see"
