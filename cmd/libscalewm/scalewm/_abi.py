"""Calls into libscalewm. Nothing else knows the C ABI, which cmd/libscalewm/main.go describes."""

import copyreg
import ctypes
import functools
import json
import os
import threading
from array import array
from pathlib import Path

ABI = 1
_HERE = Path(__file__).resolve().parent
_DONE, _FAILED, _MORE = 0, 1, 2


class Error(RuntimeError):
    """What the library refuses or could not do. The text says what was being done and how to help."""


class _Library:
    """The opened library. Its calls release the GIL."""

    def __init__(self, path):
        try:
            lib = ctypes.CDLL(str(path))
        except OSError as e:
            raise Error(f"opening {path}: {e} (hint: install scalewm's wheel for this platform)") from None
        lib.scalewm_abi.argtypes, lib.scalewm_abi.restype = [], ctypes.c_int32
        if (theirs := lib.scalewm_abi()) != ABI:
            raise Error(f"{path} has version {theirs} of the ABI, this package wants {ABI} (hint: install scalewm again)")
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
    """A fork takes one thread along, and the Go runtime in the library lives in several."""
    global _forked
    _forked = _library is not None


os.register_at_fork(after_in_child=_after_fork)


def _open():
    global _library, _about
    with _opening:
        if _library is None:
            opened = _Library(_HERE / "libscalewm.so")
            read = {k: v for k, v in os.environ.items() if k.startswith(("SCALEWM_", "MUJOCO_"))}
            _about = _call(opened, "open", 0, {"home": str(_HERE), "environment": read}, ())
            if _written() not in (None, _about):
                raise Error(f"{_HERE / 'libscalewm.so'} is not the library of this package (hint: install scalewm again)")
            _library = opened
    return _library


def _call(library, operation, handle, request, arrays):
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
    while status == _MORE:  # between two slices of a long call Python looks for Ctrl-C
        status = library.call(operation, handle, 1, request, where, n, answer)
    if not answer.value:
        return None
    text = ctypes.string_at(answer.value).decode(errors="replace")
    library.free(answer)
    if status == _FAILED:
        raise Error(text)
    return json.loads(text)


def call(operation, handle=0, request=None, arrays=()):
    """Does an operation on arrays of the caller's, which are contiguous, and gives its answer."""
    if _forked:
        raise Error("scalewm was in use when this process was forked, and cannot be used in it "
                    "(hint: multiprocessing.get_context('spawn'), AsyncVectorEnv(..., context='spawn'), or vector worlds with workers=0)")  # fmt: skip
    return _call(_library or _open(), operation, handle, request, arrays)


@functools.cache
def tasks():
    """What the tasks say of themselves: {name: {"columns", "switches", "factors", "success", ...}}."""
    return {t["name"]: t for t in _asked()["tasks"]}


def versions():
    """Versions of the ABI, of MuJoCo and of HDF5."""
    return _asked()["versions"]


def rules():
    """The settings of evaluations by keyword, with their defaults."""
    return _asked()["rules"]


@functools.cache
def _written():
    """What the library said when the wheel was built, by which spaces are known before it is opened; None without a wheel."""
    try:
        return json.loads((_HERE / "tasks.json").read_text())
    except FileNotFoundError:
        return None


def _asked():
    if _written() is None and _library is None:
        _open()
    return _written() or _about


class Uncopied:
    """An object that copy and pickle refuse."""

    def __reduce_ex__(self, protocol):
        raise TypeError(f"scalewm.{type(self).__name__} cannot be copied or pickled: its worlds live in the library of this process "
                        "(hint: make another one and reset it with the same seed, or set its state; in another process, make it there)")  # fmt: skip


class Held(Uncopied):
    """What a handle of the library names, until it is closed. Handles are never copied: where `_wants` says what was opened,
    copies and pickles open it again by `_open`, and refuse what is no longer the same by `_about`."""

    _handle = 0  # None: not opened yet
    _wants = _about = None

    def close(self):
        handle, self._handle = self._handle, 0
        if handle:
            call("close", handle)

    def __reduce_ex__(self, protocol):
        if self._wants is None:
            return super().__reduce_ex__(protocol)
        if not self._handle:
            raise Error(f"copying a {type(self).__name__} of {self._wants['path']}: it was closed (hint: make a new one)")
        return copyreg.__newobj__, (type(self),), self.__getstate__()

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "_handle"}

    def __setstate__(self, state):
        vars(self).update(state)
        self._open()
        if self._about != state["_about"]:
            self.close()
            raise Error(f"copying a {type(self).__name__}: {self._wants['path']} is no longer what it was when it was opened (hint: open it again)")

    def __del__(self):
        try:
            self.close()
        except Exception:  # a forked process, or Python is going down
            pass
