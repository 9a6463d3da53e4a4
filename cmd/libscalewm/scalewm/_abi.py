"""Calls into libscalewm. Only this file contains the C ABI, which cmd/libscalewm/main.go documents."""

from __future__ import annotations

import copyreg
import ctypes
import errno
import functools
import json
import os
import threading
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

ABI = 2
_HERE = Path(__file__).resolve().parent
_DONE, _FAILED, _MORE, _MISSING = 0, 1, 2, 3


class Error(RuntimeError):
    """An operation failed or was rejected. The message says what was being done, and often has a hint."""


class NotFound(Error, FileNotFoundError):
    """An operation failed because a file or folder does not exist."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.errno = errno.ENOENT


class _Library:
    """The opened library. ctypes releases the GIL during its calls."""

    def __init__(self, path):
        try:
            lib = ctypes.CDLL(str(path))
        except OSError as e:
            raise Error(f"opening {path}: {e} (hint: install scalewm's wheel for this platform)") from None
        lib.scalewm_abi.argtypes, lib.scalewm_abi.restype = [], ctypes.c_int32
        if (theirs := lib.scalewm_abi()) != ABI:
            raise Error(f"{path} has version {theirs} of the ABI, this package needs {ABI} (hint: install scalewm again)")
        self.call, self.free = lib.scalewm_call, lib.scalewm_free
        self.call.restype = ctypes.c_int32
        self.call.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32, ctypes.c_char_p,
                              ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)]  # fmt: skip
        self.free.argtypes, self.free.restype = [ctypes.c_void_p], None


_library = None
_about = None
_opening = threading.Lock()
_forked = False


def _after_fork():
    """Marks the library as unusable in a forked child if it was open.

    The child has only the thread that called fork, but the Go runtime in the library needs its other
    threads. Calls would hang, so they are rejected instead.
    """
    global _forked
    _forked = _library is not None


os.register_at_fork(after_in_child=_after_fork)


def _open():
    # Reads the environment at this moment: Go only knows the variables that the process started with.
    global _library, _about
    with _opening:
        if _library is None:
            opened = _Library(_HERE / "libscalewm.so")
            read = {k: v for k, v in os.environ.items() if k.startswith(("SCALEWM_", "MUJOCO_"))}
            _about = _call(opened, "open", 0, {"home": str(_HERE), "environment": read}, ())
            if _packaged() not in (None, _about):
                raise Error(f"{_HERE / 'libscalewm.so'} is not the library of this package (hint: install scalewm again)")
            _library = opened
    return _library


def _call(library, operation, handle, request, arrays):
    # The buffers, as an array of scalewm_buffer structs: pairs of address and size in bytes.
    table = array("q")
    for a in arrays:
        if a is None:
            table.extend((0, 0))
        else:
            table.extend((a.__array_interface__["data"][0], a.nbytes))
    operation = operation.encode()
    request = None if request is None else json.dumps(request).encode()
    answer = ctypes.c_void_p()
    where, n = table.buffer_info()[0], len(arrays)
    status = library.call(operation, handle, 0, request, where, n, answer)
    while status == _MORE:  # between two slices of a long call, Python handles Ctrl-C
        status = library.call(operation, handle, 1, request, where, n, answer)
    if not answer.value:
        return None
    # Free the answer before raising: it is memory of the library.
    text = ctypes.string_at(answer.value).decode(errors="replace")
    library.free(answer)
    if status in (_FAILED, _MISSING):
        raise (NotFound if status == _MISSING else Error)(text)
    return json.loads(text)


def call(operation, handle=0, request=None, arrays=()):
    """Performs an operation and returns its answer.

    `arrays` are contiguous NumPy arrays, which the operation reads or writes in place, or None for
    an empty buffer. They must stay alive during the call, which a tuple of the caller's does.
    """
    if _forked:
        raise Error("scalewm was in use when this process was forked, and cannot be used in it "
                    "(hint: multiprocessing.get_context('spawn'), AsyncVectorEnv(..., context='spawn'), or vector worlds with workers=0)")  # fmt: skip
    return _call(_library or _open(), operation, handle, request, arrays)


@functools.cache
def tasks() -> dict[str, dict[str, Any]]:
    """Returns the descriptions of all tasks: {name: {"columns", "switches", "factors", "success", ...}}."""
    return {t["name"]: t for t in _description()["tasks"]}


def versions() -> dict[str, str]:
    """Returns the versions of the ABI, of MuJoCo and of HDF5."""
    return _description()["versions"]


def rules() -> dict[str, str]:
    """Returns the settings of evaluations by keyword, with their defaults."""
    return _description()["rules"]


@functools.cache
def _packaged():
    """Returns the library's description of itself from when the wheel was built, or None without a wheel. It makes the spaces known without opening the library."""
    try:
        return json.loads((_HERE / "tasks.json").read_text())
    except FileNotFoundError:
        return None


def _description():
    """Returns the description from the wheel, or, without a wheel, from the opened library."""
    if _packaged() is None and _library is None:
        _open()
    return _packaged() or _about


class NotCopyable:
    """A base class of objects that cannot be copied or pickled."""

    def __reduce_ex__(self, protocol):
        raise TypeError(f"scalewm.{type(self).__name__} cannot be copied or pickled: its worlds live in the library of this process "
                        "(hint: make another one and reset it with the same seed, or set its state; in another process, make it there)")  # fmt: skip


class Handle(NotCopyable):
    """A base class of objects that have a handle of the library, until they are closed.

    A handle is never copied. If `_source` describes what was opened, copies and pickles open it again
    with `_open`, and fail if its description `_about` has changed. Without `_source` they fail.
    """

    _handle: int | None = 0  # 0: closed; None: not opened yet
    _source: dict[str, Any] = {}
    _about: dict[str, Any] = {}

    def _words(self) -> str:
        """Returns what the object is, for its repr."""
        return ""

    def close(self) -> None:
        """Frees the object in the library. Closing again does nothing."""
        handle, self._handle = self._handle, 0
        if handle:
            call("close", handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<scalewm.{type(self).__name__} {self._words()}{', closed' if self._handle == 0 else ''}>"

    def __reduce_ex__(self, protocol):
        if not self._source:
            return super().__reduce_ex__(protocol)
        if not self._handle:
            raise Error(f"copying a {type(self).__name__} of {self._source['path']}: it was closed (hint: make a new one)")
        return copyreg.__newobj__, (type(self),), self.__getstate__()

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "_handle"}

    def __setstate__(self, state):
        vars(self).update(state)
        self._open()
        if self._about != state["_about"]:
            self.close()
            raise Error(f"copying a {type(self).__name__}: {self._source['path']} is no longer what it was when it was opened (hint: open it again)")

    def __del__(self):
        try:
            self.close()
        except Exception:  # in a forked process, or while the interpreter shuts down
            pass
