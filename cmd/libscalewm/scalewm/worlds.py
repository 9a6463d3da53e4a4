"""Worlds of one task, stepped together in one call. gym.py wraps them for gymnasium."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._abi import Error, Handle, call, tasks

FRAME = (224, 224, 3)
PIXELS = "pixels"
Arrays = tuple[np.ndarray, ...]


class Worlds(Handle):
    """n worlds of a task.

    Args:
        task: name of the task, a key of `scalewm.tasks()`.
        n: number of worlds.
        watch: name or names of columns of the task, and "pixels" for the frame. Every call that changes
            worlds returns their values for all worlds as a tuple of arrays, in this order: (n,
            width) of the column's dtype, frames (n, 224, 224, 3) uint8.
        options: values of switches and factors of variation, by name.
        workers: number of threads that step and draw; 0 means one per core.

    Methods with a parameter `out` write to these arrays, which `buffers` allocates, instead of
    allocating new ones. The object must be used by one thread at a time. Masks are bool of shape
    (n,); None selects all worlds.
    """

    def __init__(self, task: str, n: int = 1, *, watch: str | Iterable[str] = (), options: Mapping[str, Any] | None = None, workers: int = 1, _later: bool = False) -> None:
        known = tasks()
        if task not in known:
            raise Error(f"no task named {task!r} (hint: one of {', '.join(known)})")
        self.about, self.n, self.watch = known[task], n, names(watch)
        self.action_dtype = np.dtype(self.about["action"]["dtype"])
        self._request = {"task": task, "n": n, "workers": workers, "watch": self.watch, "options": options_text(options)}
        self._shapes = [((n, *shape), dtype) for shape, dtype in (self.shape(c) for c in self.watch)]
        self._handle = None
        # With _later, the first call opens the worlds, so that looking at spaces opens nothing.
        if not _later:
            self._open()

    def _open(self):
        handle = call("worlds.new", 0, self._request)["handle"]
        try:
            call("worlds.make", handle)
        except BaseException:
            call("close", handle)
            raise
        self._handle = handle

    def _call(self, operation, request=None, arrays=()):
        if self._handle is None:
            self._open()
        call(operation, self._handle, request, arrays)

    def shape(self, column: str) -> tuple[tuple[int, ...], np.dtype]:
        """Returns the shape and dtype of a column of one world."""
        if column == PIXELS:
            return FRAME, np.dtype("uint8")
        for c in self.about["columns"]:
            if c["name"] == column:
                return (c["width"],), np.dtype(c["dtype"])
        for f in self.about["factors"]:
            if f"variation.{f['name']}" == column:
                return (len(f["init"]),), np.dtype(f["dtype"])
        raise Error(f"task {self.about['name']} has no column {column!r} (hint: pixels, or one of scalewm.tasks()[{self.about['name']!r}])")

    def buffers(self) -> Arrays:
        """Returns a tuple of new arrays for the watched columns."""
        return _outputs(None, self._shapes)

    def reset(self, seeds: Any, mask: Any = None, out: Arrays | None = None) -> Arrays:
        """Starts an episode in the selected worlds and returns what is watched.

        `seeds` is int64 of shape (n,). A negative seed continues a world's current random numbers.
        """
        seeds, out = np.ascontiguousarray(seeds, np.int64), _outputs(out, self._shapes)
        self._call("worlds.reset", None, (self._mask(mask), seeds, *out))
        return out

    def step(self, actions: Any, reset: Any = None, out: Arrays | None = None) -> tuple[Arrays, np.ndarray, np.ndarray]:
        """Makes one step in each world, or starts an episode in those selected by `reset`.

        `actions` is (n, A) of the task's action dtype. Returns (watched, rewards (n,) float64,
        ended (n,) bool), where ended says that the task's success rule ended the episode.
        """
        rewards, ended, out = np.empty(self.n), np.empty(self.n, np.bool_), _outputs(out, self._shapes)
        self._call("worlds.step", None, (self._mask(reset), self.actions(actions), rewards, ended, *out))
        return out, rewards, ended

    def set(self, what: str, rows: Mapping[str, Any], mask: Any = None, out: Arrays | None = None) -> Arrays:
        """Sets the selected worlds from rows, {column: (n, width)}, and returns what is watched.

        `what` is "state", "goal", or "start" for the first row of a recorded episode with all its
        columns, hidden ones included.
        """
        parts = [(name, np.asarray(v, np.float64).reshape(self.n, -1)) for name, v in rows.items()]
        if not parts:
            raise Error(f"setting a {what}: no columns (hint: {self.about['state_columns'] if what != 'goal' else self.about['goal_columns']})")
        request = {"what": what, "columns": [{"name": name, "width": v.shape[1]} for name, v in parts]}
        out = _outputs(out, self._shapes)
        self._call("worlds.set", request, (self._mask(mask), np.concatenate([v for _, v in parts], axis=1), *out))
        return out

    def vary(self, options: Mapping[str, Any], mask: Any = None) -> None:
        """Replaces the selected worlds by new ones with other options. They need a reset."""
        self._call("worlds.vary", {"options": options_text(options)}, (self._mask(mask),))

    def observe(self, out: Arrays | None = None) -> Arrays:
        """Returns the current values of what is watched."""
        out = _outputs(out, self._shapes)
        self._call("worlds.observe", None, out)
        return out

    def frames(self, out: np.ndarray | None = None) -> np.ndarray:
        """Returns the frames of all worlds, (n, 224, 224, 3) uint8, whether or not they are watched."""
        (out,) = _outputs(None if out is None else (out,), [((self.n, *FRAME), np.dtype("uint8"))])
        self._call("worlds.frames", None, (out,))
        return out

    def actions(self, actions: Any) -> np.ndarray:
        """Converts actions to a contiguous array (n, A). Raises TypeError or ValueError if they do not fit."""
        a = np.asarray(actions)
        if not np.can_cast(a.dtype, self.action_dtype, "same_kind"):
            raise TypeError(f"actions of type {a.dtype} (hint: {self.action_dtype})")
        if a.shape != (want := (self.n, self.about["action"]["width"])):
            raise ValueError(f"actions have shape {a.shape}, not {want}")
        return np.ascontiguousarray(a, self.action_dtype)

    def _words(self):
        return f"{self.about['name']}: {self.n} world{'s' * (self.n != 1)}, watching {', '.join(self.watch) or 'nothing'}"

    def _mask(self, mask):
        if mask is None:
            return None
        m = np.ascontiguousarray(mask)
        if m.dtype != np.bool_ or m.shape != (self.n,):
            raise ValueError(f"the mask is {m.dtype} of shape {m.shape}, not bool of shape ({self.n},)")
        return m


def _outputs(out, shapes):
    """Returns output arrays of these shapes and dtypes: the caller's, after a check, or new ones. The library writes to their memory directly."""
    if out is None:
        return tuple(np.empty(shape, dtype) for shape, dtype in shapes)
    if len(out) != len(shapes) or not all(isinstance(a, np.ndarray) and a.flags.carray and (a.shape, a.dtype) == s for a, s in zip(out, shapes)):
        wanted = ", ".join(f"{dtype} {shape}" for shape, dtype in shapes)
        raise ValueError(f"out does not fit (hint: contiguous arrays that can be written to: {wanted})")
    return out


def names(x: str | Iterable[str]) -> list[str]:
    """Returns one or several names as a list."""
    return [x] if isinstance(x, str) else list(x)


def options_text(options):
    """Returns options in the command line's notation: numbers separated by commas."""
    return {name: v if isinstance(v, str) else ",".join(repr(x) for x in np.ravel(v).tolist())
            for name, v in (options or {}).items()}  # fmt: skip
