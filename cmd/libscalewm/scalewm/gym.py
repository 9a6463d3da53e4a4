"""gymnasium environments on top of Worlds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from ._abi import NotCopyable, tasks
from .worlds import Worlds, names

METADATA = {"render_modes": ["rgb_array"], "render_fps": 10}


def default_observation(task):
    """Returns the name of the column that the reference environment observes."""
    columns = [c["name"] for c in tasks()[task]["columns"]] if task in tasks() else []
    return "observation" if "observation" in columns else "state"


class _View(NotCopyable):
    """Worlds with the columns that are observed and those that go into infos.

    It converts between gymnasium's spaces, infos and reset options and the arrays of Worlds.
    """

    def __init__(self, task, n, obs, info, options, workers, later=False):
        self.alone = obs is None or isinstance(obs, str)  # the observation is one column, not a Dict
        self.observed = [obs or default_observation(task)] if self.alone else list(obs)
        info = names(info)
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
        """Starts episodes with gymnasium's reset options: variation, state and goal."""
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
        """Returns options for a variation: names of factors, or of groups of factors, that a reset draws; or a dict of values."""
        if isinstance(chosen, dict):
            return chosen
        chosen, factors = names(chosen), [f["name"] for f in self.worlds.about["factors"]]
        picked = {n: "sample" for c in chosen for n in factors if c == "all" or n == c or n.startswith(c + ".")}
        for c in chosen:
            if c != "all" and not any(n == c or n.startswith(c + ".") for n in factors):
                raise ValueError(f"no factor of variation {c!r} (hint: all, or of {', '.join(factors)})")
        return picked

    def row(self, what, value):
        """Returns rows {column: (n, width)} for a dict, or for an array with the columns of a state or goal concatenated."""
        if isinstance(value, dict):
            return value
        about = self.worlds.about
        columns = about["state_columns"] if what == "state" else about["goal_columns"]
        widths = {c["name"]: c["width"] for c in about["columns"]}
        value = np.asarray(value, np.float64).reshape(self.worlds.n, -1)
        for used in (columns[:1], columns):  # one column, or all of them where a state is several
            if (total := sum(widths[n] for n in used)) == value.shape[1]:
                ends = np.cumsum([widths[n] for n in used])[:-1]
                return dict(zip(used, np.split(value, ends, axis=1)))
        raise ValueError(f"a {what} of {value.shape[1]} numbers, not {total} (hint: the columns {', '.join(columns)})")


def _space(shape, dtype):
    """Returns the gymnasium space of a column."""
    if dtype == np.uint8:
        return spaces.Box(0, 255, shape, np.uint8)
    if dtype.kind == "i":
        return spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype.type)
    return spaces.Box(-np.inf, np.inf, shape, dtype.type)


def _repr(env):
    """Returns the repr of an environment: that of its worlds under its own name."""
    return repr(env.worlds).replace("Worlds", type(env).__name__, 1)


class VectorEnv(NotCopyable, gymnasium.vector.VectorEnv):
    """n worlds of a task as a gymnasium vector environment. Each step is one call.

    Args:
        obs: a column of the task, "pixels", or a list of these, which makes the observation a Dict.
            By default, the vector that the reference environment observes.
        info: names of columns for the infos.
        options: values of switches and factors, by name.
        max_episode_steps: length after which an episode is truncated; None means no limit.
        workers: number of threads; 0 means one per core.
        copy: if False, every step returns the same arrays with new contents.
    """

    def __init__(self, task: str, num_envs: int = 1, *, obs: str | Iterable[str] | None = None, info: str | Iterable[str] = (),
                 options: Mapping[str, Any] | None = None, max_episode_steps: int | None = None, render_mode: str | None = None,
                 autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP, workers: int = 1, copy: bool = True) -> None:  # fmt: skip
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

    def reset(self, *, seed: int | Iterable[int | None] | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts episodes.

        Options are "variation" (names of factors to draw, or their values), "state" and "goal" (rows
        by column, or arrays), and "reset_mask" (bool (n,): the worlds that start an episode).
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        out = self.view.reset(self._seeds(seed), mask, options, self.out)
        chosen = slice(None) if mask is None else mask
        self.elapsed[chosen], self.ended[chosen], self.begun = 0, False, True
        self.any_ended = self.ended.any()
        return self.view.observation(out), self._infos(out)

    def _seeds(self, seed):
        """Returns the seeds of a reset. World i gets seed + i. Without a seed, the first reset draws seeds, and later ones continue the random numbers (-1)."""
        n = self.num_envs
        if seed is None:
            return np.full(n, -1) if self.begun else self.np_random.integers(2**62, size=n)
        if isinstance(seed, (int, np.integer)):
            return np.arange(seed, seed + n)
        if len(seed) != n:
            raise ValueError(f"{len(seed)} seeds for {n} worlds")
        drawn = self._seeds(None)
        return np.array([d if s is None else s for s, d in zip(seed, drawn)])

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
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
        """Starts episodes in the worlds that have ended (SAME_STEP). Their last observations go into the infos."""
        infos = {}
        for i in np.flatnonzero(self.ended):
            last = tuple(a[i].copy() for a in out)
            infos = self._add_info(infos, {"final_obs": self.view.observation(last), "final_info": self.view.infos(last)}, i)
        self.worlds.reset(np.full(self.num_envs, -1), self.ended, out)
        self.elapsed[self.ended] = 0
        self.any_ended = False
        return infos

    def _infos(self, out):
        # gymnasium's format of infos: each key has a mask of the worlds for which it is set.
        infos = self.view.infos(out)
        return {**infos, **{f"_{name}": np.ones(self.num_envs, np.bool_) for name in infos}}

    def set_state(self, rows: Any, mask: Any = None) -> Any:
        """Sets the worlds' states from rows, {column: (n, width)} or an array, and returns the observation."""
        return self._set("state", rows, mask)

    def set_goal(self, rows: Any, mask: Any = None) -> Any:
        """Sets the goals, given like the rows of set_state, and returns the observation."""
        return self._set("goal", rows, mask)

    def set_start(self, rows: Any, mask: Any = None) -> Any:
        """Sets the worlds to the first row of a recorded episode, hidden columns included, and returns the observation."""
        return self._set("start", rows, mask)

    def _set(self, what, rows, mask):
        return self.view.observation(self.worlds.set(what, self.view.row(what, rows), mask, self.out))

    def render(self) -> tuple[np.ndarray, ...] | None:
        return None if self.render_mode is None else tuple(self.worlds.frames())

    def close_extras(self, **kwargs: Any) -> None:
        self.worlds.close()

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    __repr__ = _repr


class Env(NotCopyable, gymnasium.Env):
    """One world of a task as a gymnasium environment. obs, info and options are those of VectorEnv, without the dimension of worlds.

    The library is opened when the world is first used, so a process that only looks at the spaces
    can still fork.
    """

    metadata = METADATA

    def __init__(self, task: str, *, obs: str | Iterable[str] | None = None, info: str | Iterable[str] = (),
                 options: Mapping[str, Any] | None = None, render_mode: str | None = None) -> None:  # fmt: skip
        _check_render_mode(render_mode)
        self.view = _View(task, 1, obs, info, options, 1, later=True)
        self.worlds, self.render_mode = self.view.worlds, render_mode
        self.observation_space, self.action_space = self.view.observation_space, self.view.action_space
        self.begun = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = -1 if self.begun else self.np_random.integers(2**62)
        out = self.view.reset([seed], None, options, None)
        self.begun = True
        return self._one(out)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        out, rewards, terminated = self.worlds.step(np.asarray(action)[None])
        observation, info = self._one(out)
        return observation, float(rewards[0]), bool(terminated[0]), False, info

    def _one(self, out):
        out = tuple(a[0] for a in out)
        return self.view.observation(out), self.view.infos(out)

    def set_state(self, row: Any) -> Any:
        """Sets the world's state from a row, {column: values} or an array, and returns the observation."""
        return self._set("state", row)

    def set_goal(self, row: Any) -> Any:
        """Sets the goal, given like the row of set_state, and returns the observation."""
        return self._set("goal", row)

    def set_start(self, row: Any) -> Any:
        """Sets the world to the first row of a recorded episode, hidden columns included, and returns the observation."""
        return self._set("start", row)

    def _set(self, what, row):
        return self._one(self.worlds.set(what, self.view.row(what, row)))[0]

    def render(self) -> np.ndarray | None:
        return None if self.render_mode is None else self.worlds.frames()[0]

    def close(self) -> None:
        self.worlds.close()

    __repr__ = _repr


def _check_render_mode(mode):
    if mode not in (None, "rgb_array"):
        raise ValueError(f"render_mode {mode!r} (hint: rgb_array)")
