"""Worlds of scalewm for Python, and its evaluation.

The five tasks are registered with gymnasium as soon as both packages are imported; this one does not import
gymnasium, which takes longer than all of it. The library behind them is opened when the first world is used, so
that a process may fork before that.
"""

import sys

from ._abi import Error, tasks, versions
from .evaluation import evaluate
from .identity import state_hash
from .models import Model, load
from .worlds import Worlds

__all__ = ["IDS", "Dataset", "Env", "Error", "Model", "VectorEnv", "Worlds", "evaluate", "load", "register", "state_hash", "tasks", "versions"]

# Ids, tasks and the longest collected episode of each (a test holds them to the library's own).
IDS = {
    "scalewm/TwoRoom-v0": ("tworoom", 100),
    "scalewm/PushT-v0": ("pusht", 246),
    "scalewm/PointMaze-v0": ("pointmaze", 99),
    "scalewm/Reacher-v0": ("reacher", 200),
    "scalewm/Cube-v0": ("cube", 200),
}


def register():
    """Registers the tasks with gymnasium, except those that are registered already."""
    from gymnasium.envs.registration import register, registry

    for name, (task, steps) in IDS.items():
        if name not in registry:
            register(name, entry_point="scalewm.gym:Env", vector_entry_point="scalewm.gym:VectorEnv",
                     max_episode_steps=steps, kwargs={"task": task})  # fmt: skip


def __getattr__(name):
    """The environments, which import gymnasium, and the data set, which is one of torch's if torch was imported."""
    if name == "Dataset":
        from .data import Dataset

        return Dataset
    if name in ("Env", "VectorEnv"):
        from . import gym

        return getattr(gym, name)
    raise AttributeError(f"module 'scalewm' has no attribute {name!r}")


class _Registering:
    """An import hook that registers the tasks as soon as gymnasium is imported; gymnasium reads no entry points. It stays until then,
    since a program may look for gymnasium's spec and not import it."""

    def find_spec(self, name, path, target=None):
        if name != "gymnasium":
            return None
        finders = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next((s for f in finders if (s := f.find_spec(name, path, target))), None)
        if spec and spec.loader:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), self.done())
        return spec

    def done(self):
        register()
        if self in sys.meta_path:
            sys.meta_path.remove(self)


if "gymnasium" in sys.modules:
    register()
else:
    sys.meta_path.insert(0, _Registering())
