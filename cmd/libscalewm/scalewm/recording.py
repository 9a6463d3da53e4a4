"""Recording of any gymnasium environment as a data set."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ._abi import call
from .anyenv import AnyEnv, Frame, Observe
from .identity import code_hash, is_module, reachable, state_hash
from .models import Model

# Policy of `collect`: (environment, observation, random generator) -> action.
Policy = Callable[[Any, Any, np.random.Generator], Any]

# Columns of the layout, which observations must not be called.
_RESERVED = {"pixels", "action", "reward", "terminated", "truncated", "ep_idx", "episode_idx", "step_idx", "ep_len", "ep_offset"}
_OUTCOME = {"reward": "float64", "terminated": "uint8", "truncated": "uint8"}


def collect(make_env: Callable[[], Any], policy: Policy | None, episodes: int, out: str | os.PathLike[str], *, observe: Observe | None = None, frame: Frame | None = None,
            seed: int = 0, max_steps: int | None = None, progress: Callable[[int, int, str], object] | None = None) -> dict[str, Any]:  # fmt: skip
    """Records episodes of a gymnasium environment as a data set of `scalewm train --task none`.

    A row is a state: its frame, its columns, and the action taken in it, which is NaN in the last row of
    an episode. `reward`, `terminated` and `truncated` are those of the step into the row.

    Args:
        make_env: function that returns the environment. Its actions are a Box of floats. It is called again
            every 2000 rows or so, so that the state of an environment outlives few episodes.
        policy: function policy(env, observation, rng) that returns an action, where env is the gymnasium
            environment and rng is np.random.default_rng((seed, episode)). If it has a method reset(env, rng), that is
            called at the start of each episode, after the environment's. None draws actions uniformly within the bounds.
        episodes: number of episodes. Episode i starts with env.reset(seed=s), where s is
            np.random.SeedSequence((seed, i)).generate_state(1)[0].
        out: path of the HDF5 file.
        observe: function of the environment that returns a dict of columns, numbers or arrays. By default they are the
            observation, the numbers in the info, and qpos and qvel of MuJoCo environments.
        frame: function of the environment that returns the frame, (S, S, 3) uint8; by default render().
        max_steps: steps after which an episode is truncated. It is required unless the environment has a time limit.
        progress: function progress(done, total, note), called after each episode.

    Parts of the file are written to the folder `out`.parts. After an interruption, the same call
    continues with the missing parts, and writes the same bytes if environment and policy
    are deterministic. If `out` exists with the same arguments and code, nothing is recorded. Of the values that a
    policy has in attributes or closures, only the weights of models count.

    Returns {"path", "episodes", "rows", "columns"}. Raises ValueError or TypeError if frames, columns or
    actions are not as above, FloatingPointError for observations or rewards that are not finite, and `Error` if
    `out` is another file.
    """
    episodes, path = operator.index(episodes), os.fsdecode(out)
    recorder = _Recorder(lambda: AnyEnv(make_env, frame=frame, observe=observe), policy, operator.index(seed), max_steps)
    handle = 0
    try:
        code = code_hash(*(x for x in (recorder.env.env, make_env, policy, observe, frame) if x is not None))
        weights = sorted(state_hash(x) for x in reachable(policy) if isinstance(x, Model) or (is_module(x) and hasattr(x, "state_dict")))
        spec = {"env": recorder.env.name, "policy": recorder.policy_name, "episodes": episodes, "seed": recorder.seed, "max_steps": recorder.limit}
        spec["id"] = hashlib.sha256(repr((1, _spec_of(recorder.env.env), code, weights, recorder.size, recorder.columns)).encode()).hexdigest()[:16]
        columns = [{"name": name, "dtype": dtype, "width": int(np.prod(shape)), "matrix": shape == (1,)} for name, (dtype, shape) in recorder.columns.items()]
        attrs = {"env": spec["env"], "env_id": spec["env"], "policy": spec["policy"]}
        new = call("recording.new", 0, {"out": path, "spec": json.dumps(spec), "attrs": attrs, "columns": columns, "frame_size": recorder.size,
                                        "episodes": episodes, "max_rows": recorder.limit + 1})  # fmt: skip
        handle, missing = new["handle"], new["missing"]
        done = episodes - sum(end - start for start, end in missing)
        for start, end in missing:
            recorder.renew()
            for i in range(start, end):
                call("recording.append", handle, None, recorder.record(i))
                done += 1
                if progress:
                    progress(done, episodes, "episodes")
        return {"path": path, "episodes": episodes, "rows": call("recording.finish", handle)["rows"], "columns": ["pixels", *recorder.columns]}
    finally:
        if handle:
            call("close", handle)
        recorder.env.close()


class _Recorder:
    """Records episodes, with the columns and the frame size that episode 0 has after its reset."""

    def __init__(self, make: Callable[[], AnyEnv], policy: Policy | None, seed: int, max_steps: int | None) -> None:
        self.make, self.seed, self.env, self.left_out = make, seed, make(), set()
        try:
            self.limit = _limit(self.env, max_steps)
            self.policy, self.policy_name = (_uniform(self.env), "random") if policy is None else (policy, getattr(policy, "__name__", type(policy).__name__))
            if not callable(self.policy):
                raise TypeError(f"the policy is a {self.policy_name} (hint: a function of (env, observation, rng) that returns an action)")
            self.env.reset(self._seed(0))
            seen = {name: v for name, v in self.env.columns().items() if v.size or self._leave_out(name, "is empty")}
            if taken := seen.keys() & _RESERVED:
                raise ValueError(f"the column {min(taken)!r} of {self.env.name} has a name of the layout (hint: observe=, a function of the environment that returns a dict of columns with other names)")
            action = "float64" if self.env.env.action_space.dtype == np.float64 else "float32"
            self.columns = {"action": (action, (self.env.action_width,)), **{name: (_stored(v.dtype), v.shape) for name, v in seen.items()}}
            self.columns |= {name: (dtype, ()) for name, dtype in _OUTCOME.items()}
            self.size = len(self.env.frame())
        except BaseException:
            self.env.close()
            raise

    def renew(self) -> None:
        """Replaces the environment, so that an interrupted run gives the same bytes even if an environment keeps state between episodes."""
        old, self.env = self.env, self.make()
        if old.env is not self.env.env:
            old.close()

    def record(self, episode: int) -> list[np.ndarray]:
        """Records an episode. Returns the bytes of each column and of the frames."""
        data, self.step = {name: bytearray() for name in (*self.columns, "pixels")}, 0
        try:
            self._record(episode, data)
        except (TypeError, ValueError, FloatingPointError) as e:
            if type(e) not in (TypeError, ValueError, FloatingPointError):  # a subclass of the environment's
                raise
            raise type(e)(f"episode {episode}, step {self.step}: {e}") from e
        return [np.frombuffer(b, np.uint8) for b in data.values()]

    def _record(self, episode, data):
        env, rng = self.env, np.random.default_rng((self.seed, episode))
        env.reset(self._seed(episode))
        if hasattr(self.policy, "reset"):
            self.policy.reset(env.env, rng)
        reward, terminated, truncated = np.nan, False, False
        while True:
            # Copies as bytes: environments may write to the same arrays again.
            for name, v in {**self._observed(), "reward": reward, "terminated": terminated, "truncated": truncated}.items():
                data[name] += np.asarray(v, self.columns[name][0]).tobytes()
            picture = env.frame()
            if len(picture) != self.size:
                raise ValueError(f"the frame has {len(picture)} pixels, the first one {self.size} (hint: frame=, a function of the environment that returns frames of one size)")
            data["pixels"] += picture.data
            if terminated or truncated:
                data["action"] += np.full(env.action_width, np.nan, self.columns["action"][0]).tobytes()
                return
            action = self._action(rng)
            data["action"] += action.astype(self.columns["action"][0]).tobytes()
            terminated, truncated = env.step(action)
            self.step += 1
            truncated = truncated or (self.step == self.limit and not terminated)
            if not np.isfinite(reward := np.asarray(env.reward, np.float64).item()):
                raise FloatingPointError(f"the reward of {env.name} is {reward}")

    def _action(self, rng):
        """Returns the policy's action in the type of the action space, which is the one that the environment receives."""
        given = self.policy(self.env.env, self.env.observation, rng)
        action = np.array(given, self.env.env.action_space.dtype).ravel()
        if action.size != self.env.action_width or not np.isfinite(action).all():
            raise ValueError(f"the policy {self.policy_name} returned {given}, not {self.env.action_width} finite numbers")
        return action

    def _observed(self):
        """Returns the observed columns of the current state, which must be those of the first one."""
        seen, out = self.env.columns(), {}
        for name in seen.keys() - self.columns.keys():
            self._leave_out(name, "was missing at the first reset")
        for name, (dtype, shape) in self.columns.items():
            if name in _OUTCOME or name == "action":
                continue
            v = seen.get(name)
            if v is None or v.shape != shape or not np.can_cast(_stored(v.dtype), dtype):
                now = "is missing" if v is None else f"is {v.dtype} of shape {v.shape}"
                raise ValueError(f"the column {name!r} {now}; at the first reset it was {dtype} of shape {shape} (hint: observe=, a function of the environment that returns the same columns in every state)")
            out[name] = v
        return out

    def _leave_out(self, name, why):
        """Warns once that a column is not recorded."""
        if name not in self.left_out:
            self.left_out.add(name)
            warnings.warn(f"the column {name!r} of {self.env.name} is left out: it {why} (hint: observe= chooses the columns)", stacklevel=2)

    def _seed(self, episode):
        return int(np.random.SeedSequence((self.seed, episode)).generate_state(1)[0])


def _limit(env, max_steps):
    """Returns the maximum number of steps of an episode: the lower one of `max_steps` and of gymnasium's TimeLimit."""
    if max_steps is not None and operator.index(max_steps) < 1:
        raise ValueError(f"max_steps={max_steps}: an episode has at least one step")
    limits = [] if max_steps is None else [operator.index(max_steps)]
    if (spec := getattr(env.env, "spec", None)) is not None and spec.max_episode_steps:
        limits.append(spec.max_episode_steps)
    if not limits:
        raise ValueError(f"episodes of {env.name} may have no end (hint: max_steps=, or max_episode_steps= of gymnasium.make)")
    return min(limits)


def _uniform(env):
    """Returns the policy that draws actions uniformly within their bounds."""
    low, high = (np.asarray(x, np.float64) for x in (env.env.action_space.low, env.env.action_space.high))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(f"the actions of {env.name} have no bounds: {env.env.action_space} (hint: policy=, a function of (env, observation, rng) that returns an action)")
    return lambda env, observation, rng: rng.uniform(low, high)


def _stored(dtype):
    """Returns the name of the type in which a column is stored."""
    return {"bool": "uint8", "float16": "float32"}.get(dtype.name, "float64" if dtype.itemsize > 8 else dtype.name)


def _spec_of(env):
    """Returns gymnasium's description of an environment, "" if there is none or it names objects of this process."""
    try:
        return env.spec.to_json()
    except Exception:
        return ""
