"""Simulated worlds of scalewm for Python, its trained models, data sets and evaluation.

    import gymnasium, scalewm
    env = gymnasium.make("scalewm/TwoRoom-v0")    # one world
    envs = gymnasium.make_vec("scalewm/TwoRoom-v0", num_envs=64)    # many worlds, one call per step

    model = scalewm.load("runs/scale")            # encode, rollout, cost
    scalewm.evaluate(model, "tworoom", "data.h5", "results", name="mine")

    scalewm.collect(lambda: gymnasium.make("Pendulum-v1", render_mode="rgb_array"), None, 100, "pendulum.h5")

The five tasks are registered with gymnasium as soon as both packages have been imported. This
package does not import gymnasium itself, which would take longer than the rest of the import.
The C library is opened when it is first used, so a process may fork before that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ._abi import Error, tasks, versions
from .evaluation import Observation, evaluate
from .identity import state_hash
from .models import Model, load
from .recording import collect
from .worlds import Worlds

if TYPE_CHECKING:
    from .data import Dataset
    from .gym import Env, VectorEnv

    __version__: str

__all__ = ["IDS", "Dataset", "Env", "Error", "Model", "Observation", "VectorEnv", "Worlds", "__version__", "collect", "evaluate", "load", "register", "state_hash", "tasks", "versions"]

# Ids, task names, and the maximum length of a collected episode. A test compares them with the
# library's. They are written here so that importing the package does not open the library.
IDS = {
    "scalewm/TwoRoom-v0": ("tworoom", 100),
    "scalewm/PushT-v0": ("pusht", 246),
    "scalewm/PointMaze-v0": ("pointmaze", 99),
    "scalewm/Reacher-v0": ("reacher", 200),
    "scalewm/Cube-v0": ("cube", 200),
}


def register() -> None:
    """Registers the tasks with gymnasium, except those that are registered already."""
    from gymnasium.envs.registration import register, registry

    for name, (task, steps) in IDS.items():
        if name not in registry:
            register(name, entry_point="scalewm.gym:Env", vector_entry_point="scalewm.gym:VectorEnv",
                     max_episode_steps=steps, kwargs={"task": task})  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Imports on first use, to keep the import of this package fast: the environments need gymnasium, and Dataset derives from torch's if torch has been imported by then."""
    if name == "Dataset":
        from .data import Dataset

        return Dataset
    if name in ("Env", "VectorEnv"):
        from . import gym

        return getattr(gym, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("scalewm")
    raise AttributeError(f"module 'scalewm' has no attribute {name!r}")


class _Registering:
    """An import hook that registers the tasks when gymnasium is imported.

    gymnasium does not read entry points of installed packages. The hook stays installed until
    then, because a program may look for gymnasium's spec without importing it.
    """

    def find_spec(self, name, path, target=None):
        if name != "gymnasium":
            return None
        # The real finders find the module; only its execution is extended.
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
