"""Worlds of scalewm for Python.

Importing this package registers the five tasks with gymnasium. The library behind it is
opened when the first world is made, so that a process may fork before that.
"""

from ._abi import Error, tasks, versions
from .gym import IDS, Env, VectorEnv, register
from .worlds import Worlds

__all__ = ["IDS", "Env", "Error", "VectorEnv", "Worlds", "tasks", "versions"]

register()
