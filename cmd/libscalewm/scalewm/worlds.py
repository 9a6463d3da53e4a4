"""Worlds side by side, stepped in one call. gym.py dresses them for gymnasium."""

import numpy as np

from ._abi import Error, Held, call, tasks

FRAME = (224, 224, 3)
PIXELS = "pixels"


class Worlds(Held):
    """n worlds of a task.

    `watch` names columns of the task, "pixels" among them: every call that changes worlds gives
    their values for all worlds, as a tuple of arrays (n, width), frames as (n, 224, 224, 3); `out` takes arrays
    that `buffers` made, which they are written to then.
    `options` chooses switches and fixes or samples factors of variation. `workers` is the number
    of threads that step and draw, 0 for one a core. One thread at a time uses the object.
    """

    def __init__(self, task, n=1, *, watch=(), options=None, workers=1, _later=False):
        known = tasks()
        if task not in known:
            raise Error(f"no task named {task!r} (hint: one of {', '.join(known)})")
        self.about, self.n, self.watch = known[task], n, tuple(watch)
        self.action_dtype = np.dtype(self.about["action"]["dtype"])
        self._request = {"task": task, "n": n, "workers": workers, "watch": self.watch, "options": options_text(options)}
        self._shapes = [((n, *shape), dtype) for shape, dtype in (self.shape(c) for c in self.watch)]
        self._handle = None
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

    def shape(self, column):
        """Shape and type of a column of one world."""
        if column == PIXELS:
            return FRAME, np.dtype("uint8")
        for c in self.about["columns"]:
            if c["name"] == column:
                return (c["width"],), np.dtype(c["dtype"])
        for f in self.about["factors"]:
            if f"variation.{f['name']}" == column:
                return (len(f["init"]),), np.dtype(f["dtype"])
        raise Error(f"task {self.about['name']} has no column {column!r} (hint: pixels, or one of scalewm.tasks()[{self.about['name']!r}])")

    def buffers(self):
        """Arrays for what is watched."""
        return _fitting(None, self._shapes)

    def reset(self, seeds, mask=None, out=None):
        """Starts an episode in the worlds of the mask. A seed below 0 lets a world go on with its random numbers."""
        seeds, out = np.ascontiguousarray(seeds, np.int64), _fitting(out, self._shapes)
        self._call("worlds.reset", None, (self._mask(mask), seeds, *out))
        return out

    def step(self, actions, reset=None, out=None):
        """Moves each world by a row of actions; those of the mask `reset` start an episode instead.

        Gives what is watched, rewards and whether episodes ended.
        """
        rewards, ended, out = np.empty(self.n), np.empty(self.n, np.bool_), _fitting(out, self._shapes)
        self._call("worlds.step", None, (self._mask(reset), self.actions(actions), rewards, ended, *out))
        return out, rewards, ended

    def set(self, what, rows, mask=None, out=None):
        """Puts worlds where rows have them: {column: (n, width)}.

        `what` is "state", "goal", or "start" for the first row of a recorded episode with all its columns.
        """
        parts = [(name, np.asarray(v, np.float64).reshape(self.n, -1)) for name, v in rows.items()]
        if not parts:
            raise Error(f"setting a {what}: no columns (hint: {self.about['state_columns'] if what != 'goal' else self.about['goal_columns']})")
        request = {"what": what, "columns": [{"name": name, "width": v.shape[1]} for name, v in parts]}
        out = _fitting(out, self._shapes)
        self._call("worlds.set", request, (self._mask(mask), np.concatenate([v for _, v in parts], axis=1), *out))
        return out

    def vary(self, options, mask=None):
        """Makes worlds anew with other options; they need a reset then."""
        self._call("worlds.vary", {"options": options_text(options)}, (self._mask(mask),))

    def observe(self, out=None):
        """What is watched, as it is now."""
        out = _fitting(out, self._shapes)
        self._call("worlds.observe", None, out)
        return out

    def frames(self, out=None):
        """The frames of all worlds, (n, 224, 224, 3) uint8, watched or not."""
        (out,) = _fitting(None if out is None else (out,), [((self.n, *FRAME), np.dtype("uint8"))])
        self._call("worlds.frames", None, (out,))
        return out

    def actions(self, actions):
        """Actions as the library takes them; what they are not raises ValueError or TypeError."""
        a = np.asarray(actions)
        if not np.can_cast(a.dtype, self.action_dtype, "same_kind"):
            raise TypeError(f"actions of type {a.dtype} (hint: {self.action_dtype})")
        if a.shape != (want := (self.n, self.about["action"]["width"])):
            raise ValueError(f"actions of shape {a.shape}, not {want}")
        return np.ascontiguousarray(a, self.action_dtype)

    def _mask(self, mask):
        if mask is None:
            return None
        m = np.ascontiguousarray(mask)
        if m.dtype != np.bool_ or m.shape != (self.n,):
            raise ValueError(f"a mask of {m.dtype} and shape {m.shape}, not bool and ({self.n},)")
        return m


def _fitting(out, shapes):
    """Arrays that the library writes to as they lie in memory: the caller's, or new ones of these shapes and types."""
    if out is None:
        return tuple(np.empty(shape, dtype) for shape, dtype in shapes)
    if len(out) != len(shapes) or not all(isinstance(a, np.ndarray) and a.flags.carray and (a.shape, a.dtype) == s for a, s in zip(out, shapes)):
        wanted = ", ".join(f"{dtype} {shape}" for shape, dtype in shapes)
        raise ValueError(f"out does not fit (hint: contiguous arrays that can be written to: {wanted})")
    return out


def options_text(options):
    """Options as the command line writes them: numbers with commas between them."""
    return {name: v if isinstance(v, str) else ",".join(repr(x) for x in np.ravel(v).tolist())
            for name, v in (options or {}).items()}  # fmt: skip
