"""Hashes that distinguish a model from others: of its weights and of its code."""

from __future__ import annotations

import contextlib
import copyreg
import dis
import functools
import hashlib
import inspect
import os
import sys
import types
from pathlib import Path
from typing import Any

from .models import Model

# Wrapper modules of torch, and the name under which each holds the wrapped module.
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module", "DataParallel": "module"}
# Kinds of objects that call other functions, and the attributes with these functions and their arguments.
_CALLABLES = (types.FunctionType, types.MethodType, functools.partial, functools.partialmethod, functools.cached_property, functools._lru_cache_wrapper, staticmethod, classmethod, property)
_CALLED = ("__self__", "__func__", "__wrapped__", "__defaults__", "__kwdefaults__", "func", "args", "keywords", "fget", "fset")


def state_hash(*models: Any) -> str:
    """Returns the SHA-256 of the names and values of the `state_dict()` of PyTorch modules.

    Names are without `_orig_mod` and `module`, which torch.compile and DistributedDataParallel add. For a
    single model from `scalewm.load`, it is the hash of its file.
    """
    models = [m for m in models if m is not None]
    if len(models) == 1 and isinstance(models[0], Model):
        return models[0].weights
    h = hashlib.sha256()
    for m in models:
        if isinstance(m, Model):
            h.update(f"{m.weights}\n".encode())
            continue
        if not hasattr(m, "state_dict"):
            raise TypeError("the model has no state_dict to hash (hint: weights=, the SHA-256 of the file that it was loaded from)")
        named = [(".".join(part for part in key.split(".") if part not in _WRAPPERS.values()), t) for key, t in m.state_dict().items()]
        for key, t in sorted(named, key=lambda x: x[0]):
            h.update(f"{key} {t.dtype} {tuple(t.shape)}\n".encode())
            h.update(t.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes())
    return h.hexdigest()


def unwrapped(x):
    """Returns the module inside wrappers of torch, or x itself."""
    while type(x).__module__.startswith("torch.") and (name := _WRAPPERS.get(type(x).__name__)):
        x = x._modules[name]
    return x


def is_module(x):
    """Returns whether x looks like a PyTorch module, without importing torch."""
    return callable(getattr(type(x), "modules", None))


def is_composed(x):
    """Returns whether x is a container of torch or a cost of stable-worldmodel (ShootingCostEvaluator, objectives): modules that only use others, in both modes alike."""
    return type(x).__module__.startswith(("torch.nn.modules.container", "stable_worldmodel.planning."))


def reachable(*roots):
    """Returns the given objects and those they refer to, five levels deep: through attributes, containers, closures, bound methods and partial functions."""
    found, level = {}, roots
    for _ in range(5):
        below = []
        for x in map(unwrapped, level):
            if id(x) not in found and not isinstance(x, (type, types.ModuleType, str, bytes, int, float, complex, type(None))):
                found[id(x)] = x
                below += _inside(x)
        level = below
    return list(found.values())


def _inside(x):
    """Returns the objects that x refers to directly."""
    if isinstance(x, (list, tuple, set, frozenset)):
        return list(x)
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, _CALLABLES):
        return [getattr(x, name, None) for name in _CALLED] + [v for _, v in _closure(x)]
    inside = list(getattr(x, "__dict__", {}).values()) + [getattr(x, name, None) for name in copyreg._slotnames(type(x))]
    if is_module(x):  # what a module has registered, and what it has in containers and functions
        inside = [*x.modules(), *(v for v in inside if isinstance(v, (dict, list, tuple, set, *_CALLABLES)))]
    return inside


def _closure(x):
    """Yields names and values of the variables in a function's closure."""
    for name, c in zip(x.__code__.co_freevars, x.__closure__ or ()) if isinstance(x, types.FunctionType) else ():
        with contextlib.suppress(ValueError):  # a variable that is not assigned yet
            yield name, c.cell_contents


def code_hash(*models, **settings):
    """Returns the SHA-256 of the code that models run, "" if they have no code of their own (as those of `scalewm.load`).

    Hashed are the classes of the models and of what they refer to (see `reachable`), with their base
    classes, and the functions and classes that this code names. Of libraries, only the names of modules'
    classes count. The hash covers the running byte code, the source of classes if Python finds it, and
    constants that the code does not assign to. Source alone would not do: it is that of the file, which
    may have been edited since it was imported. `settings` are those of the evaluation that affect what the
    code receives.
    """
    todo, seen, lines, constants, assigned = reachable(*models), {}, set(), set(), set()
    while todo:
        x = todo.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        named = []  # (kind, name, value) of what x has or uses by name
        if isinstance(x, type):
            if not _is_library(x.__module__):
                try:
                    source = inspect.getsource(x)
                except Exception:  # a REPL has no source, and a changed file can fail in any way
                    source = ""
                lines.add(f"class {x.__qualname__}({[b.__qualname__ for b in x.__bases__]})\n{source}")
                todo += x.__bases__
                named = [("ATTR", name, v) for name, v in vars(x).items() if not name.startswith("__") or isinstance(v, _CALLABLES)]
            elif callable(getattr(x, "modules", None)) and x.__name__ not in _WRAPPERS:
                lines.add(f"{x.__module__}.{x.__qualname__}")
        elif isinstance(x, (tuple, dict, *_CALLABLES)):
            todo += _inside(x)
            if isinstance(x, types.FunctionType) and not _is_library(x.__globals__.get("__name__")):
                lines.add(f"def {x.__qualname__} {_text(x.__code__)} {[_text(d) for d in x.__defaults__ or ()]}")
                used = {}  # names by operation
                for i in (i for code in _codes(x.__code__) for i in dis.get_instructions(code) if isinstance(i.argval, str)):
                    used.setdefault(i.opname, set()).add(i.argval)
                assigned |= {(kind, name) for kind in ("ATTR", "GLOBAL", "DEREF") for name in used.get(f"STORE_{kind}", ())}
                named = [("GLOBAL", name, x.__globals__[name]) for op in ("LOAD_GLOBAL", "LOAD_NAME") for name in used.get(op, ()) if name in x.__globals__]
                for module in [v for _, _, v in named if isinstance(v, types.ModuleType) and not _is_library(v.__name__)]:
                    named += [("ATTR", name, vars(module)[name]) for op in ("LOAD_ATTR", "LOAD_METHOD") for name in used.get(op, ()) if name in vars(module)]
                named += [("DEREF", *c) for c in _closure(x)]
        else:
            todo.append(type(x))
            if is_composed(x):
                lines.add(_composition(x))
        for kind, name, value in named:
            todo.append(value)
            constants.add((kind, name, f"{x.__qualname__}: {name} = {_text(value)}"))
    lines |= {text for kind, name, text in constants if (kind, name) not in assigned}
    return hashlib.sha256("\n".join([*sorted(lines), repr(settings)]).encode()).hexdigest() if lines else ""


def _composition(x):
    """Returns a module as text: its class, and for composed ones constants and parts in order."""
    own = {k: _text(tuple(v) if isinstance(v, list) else v) for k, v in vars(x).items() if not k.startswith("_") and k != "training"}
    return f"{type(x).__qualname__} {own} {[(k, _composition(unwrapped(m))) for k, m in x._modules.items()]}" if is_composed(x) else type(x).__qualname__


def _codes(code):
    """Yields a code object and those nested in it."""
    yield code
    for k in code.co_consts:
        if isinstance(k, types.CodeType):
            yield from _codes(k)


def _text(x):
    """Returns code or a constant as text that is the same in every process; None for anything else."""
    if isinstance(x, types.CodeType):
        table = getattr(x, "co_exceptiontable", b"").hex()
        return f"{x.co_code.hex()} {table} {x.co_names} {x.co_varnames} {x.co_freevars} {x.co_argcount} {x.co_kwonlyargcount} {x.co_flags} {[_text(k) for k in x.co_consts]}"
    if isinstance(x, (tuple, frozenset)):
        parts = [_text(v) for v in x]
        return None if None in parts else f"{type(x).__name__}{parts if isinstance(x, tuple) else sorted(parts)}"
    return repr(x) if x is None or x is ... or type(x) in (bool, int, float, complex, str, bytes) else None


def _is_library(module):
    """Returns whether a module, given by its name, belongs to Python, to an installed package, or to scalewm."""
    top, file = str(module).partition(".")[0], getattr(sys.modules.get(module), "__file__", None)
    if not file:
        return top in sys.builtin_module_names or top in sys.stdlib_module_names
    return top in ("scalewm", "torch", "numpy") or file.startswith(os.path.dirname(os.__file__) + os.sep) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
