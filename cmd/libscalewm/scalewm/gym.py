"""gymnasium's environments over Worlds."""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ._abi import Uncopied, tasks
from .worlds import Worlds

METADATA = {"render_modes": ["rgb_array"], "render_fps": 10}


def default_observation(task):
    """The column that the original environment observes."""
    names = [c["name"] for c in tasks()[task]["columns"]] if task in tasks() else []
    return "observation" if "observation" in names else "state"


class _View(Uncopied):
    """Worlds with the columns that are observed and those that go into infos."""

    def __init__(self, task, n, obs, info, options, workers, later=False):
        self.alone = obs is None or isinstance(obs, str)  # the observation is one column, not a Dict
        self.observed = [obs or default_observation(task)] if self.alone else list(obs)
        self.info = [i for i in info if i not in self.observed]
        self.options, self.varied = dict(options or {}), False
        self.worlds = Worlds(task, n, watch=self.observed + self.info, options=self.options, workers=workers, _later=later)
        self.info_at = {name: (self.observed + self.info).index(name) for name in info}
        action = self.worlds.about["action"]
        low, high = (np.array(action[end], self.worlds.action_dtype) for end in ("low", "high"))
        self.action_space = spaces.Box(low, high, dtype=self.worlds.action_dtype)
        parts = {name: _space(*self.worlds.shape(name)) for name in self.observed}
        self.observation_space = parts[self.observed[0]] if self.alone else spaces.Dict(parts)

    def observation(self, out):
        return out[0] if self.alone else dict(zip(self.observed, out))

    def infos(self, out):
        return {name: out[at] for name, at in self.info_at.items()}

    def reset(self, seeds, mask, options, out):
        """Starts episodes as the options of a reset say."""
        options = dict(options or {})
        variation = options.pop("variation", None)
        state, goal = options.pop("state", None), options.pop("goal", None)
        if options:
            raise ValueError(f"reset has no options {sorted(options)} (hint: variation, state, goal, and reset_mask of vector worlds)")
        if variation is not None or self.varied:  # each reset says what varies
            self.worlds.vary({**self.options, **self.variation(variation or {})}, mask)
            self.varied = variation is not None or mask is not None
        out = self.worlds.reset(seeds, mask, out)
        for what, value in (("state", state), ("goal", goal)):
            if value is not None:
                out = self.worlds.set(what, self.row(what, value), mask, out)
        return out

    def variation(self, chosen):
        """Names of factors that a reset draws, or values of factors by name; a group's name is all of it."""
        if isinstance(chosen, dict):
            return chosen
        names = [f["name"] for f in self.worlds.about["factors"]]
        picked = {n: "sample" for c in chosen for n in names if c == "all" or n == c or n.startswith(c + ".")}
        for c in chosen:
            if c != "all" and not any(n == c or n.startswith(c + ".") for n in names):
                raise ValueError(f"no factor of variation {c!r} (hint: all, or of {', '.join(names)})")
        return picked

    def row(self, what, value):
        """Rows by column; an array has the columns of a state, or a goal, side by side."""
        if isinstance(value, dict):
            return value
        about = self.worlds.about
        names = about["state_columns"] if what == "state" else about["goal_columns"]
        widths = {c["name"]: c["width"] for c in about["columns"]}
        value = np.asarray(value, np.float64).reshape(self.worlds.n, -1)
        for used in (names[:1], names):  # one column, or all of them where a state is several
            if (total := sum(widths[n] for n in used)) == value.shape[1]:
                ends = np.cumsum([widths[n] for n in used])[:-1]
                return dict(zip(used, np.split(value, ends, axis=1)))
        raise ValueError(f"a {what} of {value.shape[1]} numbers, not {total} (hint: the columns {', '.join(names)})")


def _space(shape, dtype):
    if dtype == np.uint8:
        return spaces.Box(0, 255, shape, np.uint8)
    if dtype.kind == "i":
        return spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype.type)
    return spaces.Box(-np.inf, np.inf, shape, dtype.type)


class VectorEnv(Uncopied, gymnasium.vector.VectorEnv):
    """n worlds of a task in one call a step.

    `obs` is the name of a column of the task, "pixels", or several names, which make a Dict; left
    out, it is the vector that the original observes. `info` names columns for the infos. Observations are fresh
    arrays that the library has written, or with copy=False the same ones at every step.
    """

    def __init__(self, task, num_envs=1, *, obs=None, info=(), options=None, max_episode_steps=None, render_mode=None,
                 autoreset_mode=AutoresetMode.NEXT_STEP, workers=1, copy=True):  # fmt: skip
        _check_render_mode(render_mode)
        self.view = _View(task, num_envs, obs, info, options, workers)
        self.worlds, self.num_envs, self.render_mode = self.view.worlds, num_envs, render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**METADATA, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = self.view.observation_space, self.view.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.limit = np.iinfo(np.int64).max if max_episode_steps is None else max_episode_steps
        self.elapsed = np.zeros(num_envs, np.int64)
        self.ended = np.zeros(num_envs, np.bool_)  # in the last step
        self.any_ended = False
        self.begun = False
        self.out = None if copy else self.worlds.buffers()

    def reset(self, *, seed=None, options=None):
        """Options are "variation" (names of factors to draw, or their values), "state" and "goal" (rows by
        column, or arrays) and "reset_mask" (the worlds that start anew)."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        out = self.view.reset(self._seeds(seed), mask, options, self.out)
        chosen = slice(None) if mask is None else mask
        self.elapsed[chosen], self.ended[chosen], self.begun = 0, False, True
        self.any_ended = self.ended.any()
        return self.view.observation(out), self._infos(out)

    def _seeds(self, seed):
        """World i has seed + i. Without seeds the first reset draws them, and later ones go on."""
        n = self.num_envs
        if seed is None:
            return np.full(n, -1) if self.begun else self.np_random.integers(2**62, size=n)
        if isinstance(seed, (int, np.integer)):
            return np.arange(seed, seed + n)
        if len(seed) != n:
            raise ValueError(f"{len(seed)} seeds for {n} worlds")
        drawn = self._seeds(None)
        return np.array([d if s is None else s for s, d in zip(seed, drawn)])

    def step(self, actions):
        started = None
        if self.any_ended:
            if self.autoreset_mode == AutoresetMode.DISABLED:
                raise gymnasium.error.ResetNeeded(f"worlds {np.flatnonzero(self.ended).tolist()} have ended (hint: reset(options={{'reset_mask': ...}}))")
            started = self.ended
        out, rewards, terminated = self.worlds.step(actions, started, self.out)
        self.elapsed += 1
        if started is not None:
            self.elapsed[started] = 0
        truncated = self.elapsed >= self.limit
        self.ended = terminated | truncated
        self.any_ended = self.ended.any()
        infos = {}
        if self.any_ended and self.autoreset_mode == AutoresetMode.SAME_STEP:
            infos = self._finish(out)
        if self.view.info_at:
            infos.update(self._infos(out))
        return self.view.observation(out), rewards, terminated, truncated, infos

    def _finish(self, out):
        """Starts new episodes in the worlds that have ended, whose last observations go into infos."""
        infos = {}
        for i in np.flatnonzero(self.ended):
            last = tuple(a[i].copy() for a in out)
            infos = self._add_info(infos, {"final_obs": self.view.observation(last), "final_info": self.view.infos(last)}, i)
        self.worlds.reset(np.full(self.num_envs, -1), self.ended, out)
        self.elapsed[self.ended] = 0
        self.any_ended = False
        return infos

    def _infos(self, out):
        infos = self.view.infos(out)
        return {**infos, **{f"_{name}": np.ones(self.num_envs, np.bool_) for name in infos}}

    def set_state(self, rows, mask=None):
        """Puts worlds where rows have them, {column: (n, width)} or an array, and gives the observation."""
        return self._set("state", rows, mask)

    def set_goal(self, rows, mask=None):
        """Sets goals as set_state sets states."""
        return self._set("goal", rows, mask)

    def set_start(self, rows, mask=None):
        """Puts worlds at the first row of a recorded episode, with what it hides."""
        return self._set("start", rows, mask)

    def _set(self, what, rows, mask):
        return self.view.observation(self.worlds.set(what, self.view.row(what, rows), mask, self.out))

    def render(self):
        return None if self.render_mode is None else tuple(self.worlds.frames())

    def close_extras(self, **kwargs):
        self.worlds.close()


class Env(Uncopied, gymnasium.Env):
    """One world of a task: VectorEnv's obs, info and options, without a vector's dimension.

    The library is opened at the first use of the world, so that processes can be forked from one that only looks at the spaces.
    """

    metadata = METADATA

    def __init__(self, task, *, obs=None, info=(), options=None, render_mode=None):
        _check_render_mode(render_mode)
        self.view = _View(task, 1, obs, info, options, 1, later=True)
        self.worlds, self.render_mode = self.view.worlds, render_mode
        self.observation_space, self.action_space = self.view.observation_space, self.view.action_space
        self.begun = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is None:
            seed = -1 if self.begun else self.np_random.integers(2**62)
        out = self.view.reset([seed], None, options, None)
        self.begun = True
        return self._one(out)

    def step(self, action):
        out, rewards, terminated = self.worlds.step(np.asarray(action)[None])
        observation, info = self._one(out)
        return observation, float(rewards[0]), bool(terminated[0]), False, info

    def _one(self, out):
        out = tuple(a[0] for a in out)
        return self.view.observation(out), self.view.infos(out)

    def set_state(self, row):
        """Puts the world where a row has it, {column: values} or an array, and gives the observation."""
        return self._set("state", row)

    def set_goal(self, row):
        """Sets the goal as set_state sets a state."""
        return self._set("goal", row)

    def set_start(self, row):
        """Puts the world at the first row of a recorded episode, with what it hides."""
        return self._set("start", row)

    def _set(self, what, row):
        return self._one(self.worlds.set(what, self.view.row(what, row)))[0]

    def render(self):
        return None if self.render_mode is None else self.worlds.frames()[0]

    def close(self):
        self.worlds.close()


def _check_render_mode(mode):
    if mode not in (None, "rgb_array"):
        raise ValueError(f"render_mode {mode!r} (hint: rgb_array)")
