"""What distinguishes a model from others: its weights and its code."""

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

from .models import Model

# Modules of torch that wrap another one, and the name under which they hold it.
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module", "DataParallel": "module"}
# What calls other functions, and where it has them and their arguments.
_CALLABLES = (types.FunctionType, types.MethodType, functools.partial, functools.partialmethod, functools.cached_property, functools._lru_cache_wrapper, staticmethod, classmethod, property)
_CALLED = ("__self__", "__func__", "__wrapped__", "__defaults__", "__kwdefaults__", "func", "args", "keywords", "fget", "fset")


def state_hash(*models):
    """SHA-256 of the names and numbers of `state_dict()` of PyTorch modules, the same for what torch.compile and DistributedDataParallel
    make of them; what `scalewm.load` gives alone has that of its file."""
    models = [m for m in models if m is not None]
    if len(models) == 1 and isinstance(models[0], Model):
        return models[0].weights
    h = hashlib.sha256()
    for m in models:
        if isinstance(m, Model):
            h.update(f"{m.weights}\n".encode())
            continue
        if not hasattr(m, "state_dict"):
            raise TypeError("nothing names the model's weights (hint: weights=, the SHA-256 of the file that it was loaded from)")
        for key, t in sorted((_bare_key(m, key), t) for key, t in m.state_dict().items()):
            h.update(f"{key} {t.dtype} {tuple(t.shape)}\n".encode())
            h.update(t.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes())
    return h.hexdigest()


def _wrapped_as(m):
    """The name under which a wrapper of torch holds its module; None for everything else."""
    return _WRAPPERS.get(type(m).__name__) if type(m).__module__.startswith("torch.") else None


def _bare(x):
    while name := _wrapped_as(x):
        x = x._modules[name]
    return x


def _bare_key(m, key):
    """A key of a state_dict without the names that wrappers add."""
    names = []
    for name in key.split("."):
        if name != _wrapped_as(m):
            names.append(name)
        m = getattr(m, "_modules", {}).get(name)
    return ".".join(names)


def is_module(x):
    return callable(getattr(type(x), "modules", None))


def held(*roots):
    """The objects and what they hold, five levels deep: in attributes, containers, closures, bound methods and partial functions."""
    found, level = {}, roots
    for _ in range(5):
        below = []
        for x in map(_bare, level):
            if id(x) not in found and not isinstance(x, (type, types.ModuleType, str, bytes, int, float, complex, type(None))):
                found[id(x)] = x
                below += _inside(x)
        level = below
    return list(found.values())


def _inside(x):
    if isinstance(x, (list, tuple, set, frozenset)):
        return list(x)
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, _CALLABLES):
        return [getattr(x, name, None) for name in _CALLED] + [v for _, v in _closed(x)]
    inside = list(getattr(x, "__dict__", {}).values()) + [getattr(x, name, None) for name in copyreg._slotnames(type(x))]
    if is_module(x):  # of others, a module holds what it has registered, and what it has in containers and functions
        inside = [*x.modules(), *(v for v in inside if isinstance(v, (dict, list, tuple, set, *_CALLABLES)))]
    return inside


def _closed(x):
    """Names and values of the variables that a function has from around it."""
    for name, c in zip(x.__code__.co_freevars, x.__closure__ or ()) if isinstance(x, types.FunctionType) else ():
        with contextlib.suppress(ValueError):  # it is not assigned yet
            yield name, c.cell_contents


def code_hash(*models, **settings):
    """SHA-256 of the code that models run, "" where they have none of their own (as those of `scalewm.load`).

    It is the code of their classes and of what they hold (see `held`), with base classes, and of the functions and classes that this code
    names; of libraries only the names of modules' classes count. The running code is hashed, the source of classes where Python finds it, and
    constants that the code does not assign to: source alone is that of the file, which may have been edited after its import. `settings`
    are those of the evaluation that change what the code gets.
    """
    todo, seen, lines, constants, assigned = held(*models), {}, set(), set(), set()
    while todo:
        x = todo.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        named = []  # kind, name and value of what x has or uses by name
        if isinstance(x, type):
            if not _of_a_library(x.__module__):
                try:
                    source = inspect.getsource(x)
                except Exception:  # there is none in a REPL; a changed file can break it in any way
                    source = ""
                lines.add(f"class {x.__qualname__}({[b.__qualname__ for b in x.__bases__]})\n{source}")
                todo += x.__bases__
                named = [("ATTR", name, v) for name, v in vars(x).items() if not name.startswith("__") or isinstance(v, _CALLABLES)]
            elif callable(getattr(x, "modules", None)) and x.__name__ not in _WRAPPERS:
                lines.add(f"{x.__module__}.{x.__qualname__}")
        elif isinstance(x, (tuple, dict, *_CALLABLES)):
            todo += _inside(x)
            if isinstance(x, types.FunctionType) and not _of_a_library(x.__globals__.get("__name__")):
                lines.add(f"def {x.__qualname__} {_text(x.__code__)} {[_text(d) for d in x.__defaults__ or ()]}")
                used = {}  # names by what is done with them
                for i in (i for code in _codes(x.__code__) for i in dis.get_instructions(code) if isinstance(i.argval, str)):
                    used.setdefault(i.opname, set()).add(i.argval)
                assigned |= {(kind, name) for kind in ("ATTR", "GLOBAL", "DEREF") for name in used.get(f"STORE_{kind}", ())}
                named = [("GLOBAL", name, x.__globals__[name]) for op in ("LOAD_GLOBAL", "LOAD_NAME") for name in used.get(op, ()) if name in x.__globals__]
                for module in [v for _, _, v in named if isinstance(v, types.ModuleType) and not _of_a_library(v.__name__)]:
                    named += [("ATTR", name, vars(module)[name]) for op in ("LOAD_ATTR", "LOAD_METHOD") for name in used.get(op, ()) if name in vars(module)]
                named += [("DEREF", *c) for c in _closed(x)]
        else:
            todo.append(type(x))
        for kind, name, value in named:
            todo.append(value)
            constants.add((kind, name, f"{x.__qualname__}: {name} = {_text(value)}"))
    lines |= {text for kind, name, text in constants if (kind, name) not in assigned}
    return hashlib.sha256("\n".join([*sorted(lines), repr(settings)]).encode()).hexdigest() if lines else ""


def _codes(code):
    """A code object and those inside it."""
    yield code
    for k in code.co_consts:
        if isinstance(k, types.CodeType):
            yield from _codes(k)


def _text(x):
    """Code or a constant as text that is the same in every process; None of what is neither."""
    if isinstance(x, types.CodeType):
        table = getattr(x, "co_exceptiontable", b"").hex()
        return f"{x.co_code.hex()} {table} {x.co_names} {x.co_varnames} {x.co_freevars} {x.co_argcount} {x.co_kwonlyargcount} {x.co_flags} {[_text(k) for k in x.co_consts]}"
    if isinstance(x, (tuple, frozenset)):
        parts = [_text(v) for v in x]
        return None if None in parts else f"{type(x).__name__}{parts if isinstance(x, tuple) else sorted(parts)}"
    return repr(x) if x is None or x is ... or type(x) in (bool, int, float, complex, str, bytes) else None


def _of_a_library(module):
    """Whether a module, by its name, belongs to Python, to an installed package, or to this one."""
    top, file = str(module).partition(".")[0], getattr(sys.modules.get(module), "__file__", None)
    if not file:
        return top in sys.builtin_module_names or top in sys.stdlib_module_names
    return top in ("scalewm", "torch", "numpy") or file.startswith(os.path.dirname(os.__file__) + os.sep) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)
