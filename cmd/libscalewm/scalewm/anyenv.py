"""One gymnasium environment of the user's, for collecting and evaluating: checked calls, frames and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


# What `observe` and `frame` are called with and return; see `collect` and `evaluate`.
Columns = Mapping[str, Any]
Observe = Callable[[Any], Columns]
Frame = Callable[[Any], Any]


class AnyEnv:
    """An environment from the function `make`, with its last observation and info.

    It checks what gymnasium's interface promises, because environments of older interfaces or with
    numerical faults would otherwise give plausible numbers. `observe` returns columns for the row of a data set;
    by default they are `default_columns`. `frame` returns the picture; by default it is `render()`.
    """

    def __init__(self, make: Callable[[], Any], *, frame: Frame | None = None, observe: Observe | None = None) -> None:
        self.env = make()
        self._frame, self._observe = frame, observe
        self.observation: Any = None
        self.info: dict[str, Any] = {}
        for name in ("reset", "step", "action_space"):
            if not hasattr(self.env, name):
                raise TypeError(f"the world is a {type(self.env).__name__} without {name} (hint: world= is a function that returns a gymnasium.Env, such as lambda: gymnasium.make(...))")
        space = self.env.action_space
        if not hasattr(space, "low") or np.dtype(space.dtype).kind != "f":
            raise TypeError(f"the world's actions are {space} (hint: planned and recorded actions are real numbers: a Box of floats)")

    @property
    def action_width(self) -> int:
        """Number of values of an action."""
        return int(np.prod(self.env.action_space.shape))

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts an episode. Raises TypeError if the environment has an older interface."""
        try:
            out = self.env.reset(seed=seed) if options is None else self.env.reset(seed=seed, options=options)
        except TypeError as e:
            if "unexpected keyword argument 'seed'" not in str(e):
                raise
            raise TypeError(f"reset() of {self.name} has no seed=, as gymnasium's has (hint: wrap an environment of the older gym in shimmy.GymV21CompatibilityV0)") from e
        if not isinstance(out, tuple) or len(out) != 2 or not isinstance(out[1], dict):
            raise TypeError(f"reset() of {self.name} returned {_kind(out)}, not (observation, info) as in gymnasium (hint: wrap an environment of the older gym in shimmy.GymV21CompatibilityV0)")
        self.observation, self.info = out
        self._check("reset")

    def step(self, action: Any) -> tuple[bool, bool]:
        """Takes a step with an action of `action_width` numbers. Returns (terminated, truncated).

        Raises FloatingPointError if the observation is not finite.
        """
        space = self.env.action_space
        out = self.env.step(np.asarray(action, space.dtype).reshape(space.shape))
        if not isinstance(out, tuple) or len(out) != 5:
            raise TypeError(f"step() of {self.name} returned {_kind(out)}, not the 5 of gymnasium: observation, reward, terminated, truncated, info "
                            "(hint: wrap an environment of the older gym in shimmy.GymV21CompatibilityV0)")  # fmt: skip
        self.observation, self.reward, terminated, truncated, self.info = out
        self._check("step")
        return bool(terminated), bool(truncated)

    def frame(self) -> np.ndarray:
        """Returns the picture, (S, S, 3) uint8. Raises TypeError or ValueError if it is something else."""
        by = "frame()" if self._frame else "render()"
        picture = self._frame(self.env) if self._frame else self.env.render()
        if picture is None:
            raise TypeError(f"{by} of {self.name} returned None (hint: gymnasium.make(..., render_mode='rgb_array'), or frame=, a function of the environment that returns the picture)")
        return self.checked(picture, by)

    def checked(self, picture: Any, by: str) -> np.ndarray:
        """Returns a picture as an array if it can be a frame. `by` is what returned it, for the error."""
        a = np.asarray(picture)
        if a.dtype != np.uint8 or a.ndim != 3 or a.shape[2] != 3:
            raise TypeError(f"{by} of {self.name} returned {a.dtype} of shape {a.shape} (hint: frames are uint8, (S, S, 3); frame= is a function of the environment that returns such a picture)")
        if a.shape[0] != a.shape[1]:
            raise ValueError(f"frames of {self.name} have {a.shape[0]} x {a.shape[1]} pixels, which is not a square "
                             "(hint: gymnasium.make(..., width=224, height=224) where the environment has these options, or gymnasium.wrappers.AddRenderObservation and ResizeObservation, or frame= with a crop)")  # fmt: skip
        return np.ascontiguousarray(a)

    def columns(self) -> dict[str, np.ndarray]:
        """Returns the numbers of the current state by column, each as an array of one dimension or none."""
        given = self._observe(self.env) if self._observe else default_columns(self)
        if not isinstance(given, Mapping):
            raise TypeError(f"observe(env) returned {_kind(given)}, not a dict of columns")
        out = {name: np.asarray(v) for name, v in given.items()}
        for name, v in out.items():
            if v.dtype.kind not in "fiub":
                raise TypeError(f"observe(env) returned {v.dtype} for the column {name!r}, not numbers")
        return {name: v if v.ndim < 2 else v.ravel() for name, v in out.items()}

    @property
    def name(self) -> str:
        """The environment's id, or the name of its class."""
        spec = getattr(self.env, "spec", None)
        return spec.id if spec is not None else type(getattr(self.env, "unwrapped", self.env)).__name__

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def _check(self, what):
        for name, v in _numbers(self.observation).items():
            if v.dtype.kind == "f" and not np.isfinite(v).all():
                raise FloatingPointError(f"after {what}() the {name} of {self.name} has numbers that are not finite")


def default_columns(env: AnyEnv) -> dict[str, np.ndarray]:
    """Returns the numbers that an environment shows: its observation, its info, and qpos and qvel of gymnasium's MuJoCo environments.

    A Box is the column `observation`; the entries of a Dict are columns of their own. Pictures are left out.
    """
    out = {name: v for x in (env.info, env.observation) for name, v in _numbers(x).items() if v.ndim < 3}
    data, settable = getattr(env.env.unwrapped, "data", None), hasattr(env.env.unwrapped, "set_state")
    if settable and hasattr(data, "qpos") and hasattr(data, "qvel"):
        out |= {"qpos": np.array(data.qpos), "qvel": np.array(data.qvel)}
    return out


def _numbers(x):
    """Returns the numeric entries of an observation or info by name, nested ones joined by an underscore."""
    if not isinstance(x, Mapping):
        x = {"observation": x}
    out = {}
    for name, v in x.items():
        if isinstance(v, Mapping):
            out |= {f"{name}_{k}": w for k, w in _numbers(v).items()}
        elif isinstance(v, (bool, int, float, np.generic, np.ndarray)) or hasattr(v, "__array__"):
            if (a := np.asarray(v)).dtype.kind in "fiub":
                out[str(name).replace("/", "_")] = a
    return out


def _kind(x):
    return f"{len(x)} values" if isinstance(x, tuple) else type(x).__name__
