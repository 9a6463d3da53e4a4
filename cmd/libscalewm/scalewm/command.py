"""The command `python -m scalewm eval --world MODULE:FUNCTION ...`: `scalewm.evaluate` in a user's gymnasium environment."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from typing import Any

from ._abi import Error, rules
from .evaluation import evaluate
from .models import load

# Flags that name a function, and those with a value for the keyword of the same name.
_FUNCTIONS = {"world": "returns a new gymnasium.Env", "set-state": "set_state(env, row)", "observe": "observe(env)", "frame": "frame(env)", "success": "success(env, goal)", "goal": "goal(env, rng)"}
_VALUES = {"task": str, "data": str, "out": str, "name": str, "solver": str, "tier": str, "sets": str, "episodes": int, "batch": int, "workers": int, "timeout": float}


def main(args: list[str]) -> int:
    """Runs the command with the arguments after `eval` and returns its exit code, those of `scalewm eval`."""
    parser = argparse.ArgumentParser(prog="python -m scalewm eval", description="Evaluate a model in any gymnasium environment.", allow_abbrev=False)
    parser.add_argument("--weights", metavar="DIR|MODULE:OBJECT", help="a checkpoint of `scalewm train` or PyTorch, or a Python model; without it, uniform random actions")
    for flag, text in _FUNCTIONS.items():
        parser.add_argument("--" + flag, metavar="MODULE:FUNCTION", help=text)
    for flag, of in _VALUES.items():
        parser.add_argument("--" + flag, type=of)
    parser.add_argument("--nondeterministic", action="store_true", help="accept a world that answers the same actions differently")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    for rule, default in rules().items():
        switch = {"nargs": "?", "const": "true"} if default == "false" else {}
        parser.add_argument("--" + rule.replace("_", "-"), **switch, help=f"default {default or 'the protocol’s'}")
    given = {k: v for k, v in vars(parser.parse_args(args)).items() if v is not None}
    weights, as_json = given.pop("weights", None), given.pop("json")
    try:
        sys.path.insert(0, os.getcwd())  # as `python -m` does for modules of the user
        functions = {flag.replace("-", "_"): _found(given.pop(flag.replace("-", "_"))) for flag in _FUNCTIONS if flag.replace("-", "_") in given}
        model = "random" if weights is None else _model(weights)
        if "out" not in given:
            parser.error("--out is required")
        if model != "random":
            given.setdefault("name", getattr(model, "method", None) and f"{model.method}-model" or type(model).__name__)
        out = evaluate(model, given.pop("task", None), given.pop("data", None), given.pop("out"), deterministic=not given.pop("nondeterministic"),
                       progress=_progress if sys.stderr.isatty() else None, **functions, **given)  # fmt: skip
    except (ImportError, TypeError, ValueError) as e:
        print(f"scalewm: {e}", file=sys.stderr)
        return 2
    except (Error, OSError) as e:
        print(f"scalewm: {e}", file=sys.stderr)
        return 1
    for note in out["notes"]:
        print(f"scalewm: {note}", file=sys.stderr)
    if as_json:
        print(json.dumps(out))
    else:
        print("task  method  seed  solver  tier  sets  episodes  success %")
        for c in out["cells"]:
            print("  ".join(str(x) for x in (c["task"], c["method"], c["seed"], c["solver"] or "-", c["tier"] or "-", c["sets"], c["n"], f"{c['mean']:.1f}")) + (f"  ({c['note']})" if c.get("note") else ""))
    for text in out["failed"]:
        print(f"scalewm: {text}", file=sys.stderr)
    return 3 if out["failed"] else 0


def _found(name: str) -> Any:
    """Returns the object of a name MODULE:OBJECT."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(f"{name!r} (hint: MODULE:FUNCTION, such as my_world:make)")
    x = importlib.import_module(module)
    for part in attribute.split("."):
        x = getattr(x, part, None)
    if x is None:
        raise ValueError(f"{name!r}: the module {module} has no {attribute}")
    return x


def _model(weights: str) -> Any:
    return load(weights) if os.path.exists(weights) or ":" not in weights else _found(weights)


def _progress(done: int, total: int, note: str) -> None:
    print(f"\r\033[K{note} {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
