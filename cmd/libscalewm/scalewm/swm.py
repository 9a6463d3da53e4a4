"""Worlds under the ids of stable-worldmodel's environments, for use by its World class.

    import scalewm.swm
    scalewm.swm.register()
    world = stable_worldmodel.World("swm/TwoRoom-v1", num_envs=4, image_shape=(224, 224))

Ids, observations, keys of infos, reset options and the methods that evaluation configs call are those
of stable-worldmodel 0.1.1. Random numbers differ: the same seed gives a different episode.
"""

import gymnasium
import numpy as np
import stable_worldmodel.envs  # noqa: F401  registers the ids that register() replaces
from stable_worldmodel import spaces

from . import gym
from ._abi import tasks
from .worlds import Worlds

# What stable-worldmodel's environments observe, what is in their infos, and the columns that contain
# the values that a reset drew for factors without a column.
_OBSERVED = {"pusht": ("proprio", "state"), "pointmaze": ("state",)}
_INFO = {
    "tworoom": ["proprio", "state", "goal_state", "distance_to_target"],
    "pusht": ["pos_agent", "vel_agent", "block_pose", "goal_pose", "goal_state", "goal_proprio", "n_contacts"],
    "pointmaze": ["pos"],
    "reacher": ["qpos", "qvel", "target_pos", "finger_pos"],
    "cube": ["qpos", "qvel", "sim_ctrl", "time"],
}
_DRAWN = {
    "tworoom": {"agent.position": ("state", slice(2)), "target.position": ("goal_state", slice(2))},
    "pusht": {"agent.start_position": ("state", slice(2)), "block.start_position": ("state", slice(2, 4)), "block.angle": ("state", 4)},
    "cube": {
        "cube.start_position": ("privileged_block_0_pos", slice(2)),
        "cube.start_yaw": ("privileged_block_0_yaw", slice(1)),
        "cube.goal_position": ("privileged_target_block_pos", slice(2)),
        "cube.goal_yaw": ("privileged_target_block_yaw", slice(1)),
    },
}
# Arguments of stable-worldmodel's constructors, with the values that are supported here.
_ARGUMENTS = {
    "tworoom": {"render_target": (False,)},
    "pusht": {"with_target": (True,), "resolution": (224,), "relative": (True,), "render_action": (False,)},
    "reacher": {"task": ("hard", "qpos_match")},
    "cube": {"env_type": ("single",), "ob_type": ("states",), "multiview": (False,), "height": (224,), "width": (224,), "mode": ("data_collection",), "visualize_info": (False,), "terminate_at_goal": (True,)},
}


def register() -> None:
    """Replaces the ids of stable-worldmodel's environments in gymnasium's registry of this process."""
    for task, about in tasks().items():
        gymnasium.registry.pop(about["id"], None)
        gymnasium.register(about["id"], entry_point="scalewm.swm:Env", kwargs={"world": task})


class Env(gym.Env):
    """One world of a task with the interface of stable-worldmodel's environment."""

    def __init__(self, world, *, render_mode="rgb_array", options=None, **arguments):
        known = _ARGUMENTS.get(world, {})
        for name, value in arguments.items():
            if name not in known or value not in known[name]:
                raise ValueError(f"{world} does not support {name}={value!r} (hint: supported are {known or 'no arguments'}, and options= with scalewm's switches and factors)")
        about = tasks()[world]
        self.env_name, self.columns = about["title"].replace("-", ""), list(_INFO[world])
        if world == "cube":
            self.columns += [c["name"] for c in about["columns"] if c["name"].startswith(("proprio_", "privileged_"))]
        self.varied = [f["name"] for f in about["factors"] if f["name"] not in _DRAWN.get(world, {})]
        super().__init__(world, obs=_OBSERVED.get(world), info=self.columns + [f"variation.{n}" for n in self.varied],
                         options=options, render_mode=render_mode)  # fmt: skip
        self.task, self.score, self.goal = world, 0.0, None
        self.variation_space = _nested({f["name"]: _space(f) for f in about["factors"]})
        self.painter = Worlds(world, options=options, _later=True) if world == "pusht" else None  # draws the image of the goal

    def reset(self, *, seed=None, options=None):
        options = dict(options or {})
        # stable-worldmodel's names of the options, and ours.
        ours = {key: options.pop(theirs) for theirs, key in
                [("state", "state"), ("goal_state", "goal"), ("target_state", "goal"), ("target_qpos", "goal")]
                if options.get(theirs) is not None}  # fmt: skip
        names, values = options.pop("variation", None), options.pop("variation_values", {})
        # In stable-worldmodel a reset with variation draws only the named factors; sampled factors that
        # are not named have their initial value.
        if names is not None:
            drawn = self.view.variation(names)
            fixed = {f["name"]: f["init"] for f in self.worlds.about["factors"] if f["sampled"] and f["name"] not in drawn}
            values = {**fixed, **drawn, **values}
        if values:
            ours["variation"] = values
        self.score, self.goal = 0.0, None
        observation, info = super().reset(seed=seed, options={**ours, **options})
        for name, (column, part) in _DRAWN.get(self.task, {}).items():
            _find(self.variation_space, name)._value = self._column(observation, info, column)[part]
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.score += reward
        if self.task == "reacher":
            info["score"] = self.score / 1000
        return observation, reward, terminated, truncated, info

    def _one(self, out):
        observation, shown = super()._one(out)
        for name in self.varied:
            value = shown.pop(f"variation.{name}")
            space = _find(self.variation_space, name)
            space._value = value.item() if isinstance(space, spaces.Discrete) else value
        for name in ("distance_to_target", "n_contacts"):
            if name in shown:
                shown[name] = shown[name].item()  # Python numbers in stable-worldmodel
        info = {"env_name": self.env_name, **{_their(self.task, name): v for name, v in shown.items()}}
        if self.task == "reacher":
            info.update(success=float("nan"), score=0.0)
        if self.task == "cube":
            info["success"] = bool(np.linalg.norm(info["privileged/block_0_pos"] - info["privileged/target_block_pos"]) <= 0.04)
        if self.painter:
            info["goal"] = self._goal_picture(info["goal_state"])
        return observation, info

    def _goal_picture(self, state):
        """Returns the frame of a world in the goal state. It is drawn once per episode."""
        if self.goal is None:
            self.painter.reset([0])
            self.painter.set("state", {"state": state})
            self.goal = self.painter.frames()[0]
        return self.goal

    def _column(self, observation, info, column):
        return observation[column] if isinstance(observation, dict) and column in observation else info[_their(self.task, column)]

    # Methods that evaluation configs of stable-worldmodel call.

    def _set_state(self, state):
        gym.Env.set_state(self, state)

    def _set_goal_state(self, goal_state):
        self.set_goal(goal_state)

    def set_state(self, qpos, qvel):
        gym.Env.set_state(self, {"qpos": qpos, "qvel": qvel})

    def set_target_qpos(self, target_qpos):
        self.set_goal({"qpos": target_qpos})

    def set_target_pos(self, cube_id, target_pos, target_quat=None):
        if cube_id != 0:
            raise ValueError("there is one cube, number 0")
        self.set_goal({"privileged_block_0_pos": target_pos})

    @property
    def wall_pos(self):
        """Coordinate of Two-Room's wall, which stable-worldmodel's expert reads."""
        return 112.0


def _their(task, column):
    """Returns the key of a column in stable-worldmodel's infos."""
    if task != "cube":
        return column
    return "control" if column == "sim_ctrl" else column.replace("proprio_", "proprio/").replace("privileged_", "privileged/")


def _space(factor):
    """Returns a factor of variation as a stable-worldmodel space."""
    init, low, high = np.array(factor["init"], factor["dtype"]), factor["low"], factor["high"]
    if factor["dtype"] == "int64":
        low, count = int(low), int(high) - int(low) + 1
        if len(init) == 1:
            return spaces.Discrete(count, start=low, init_value=int(init[0]))
        return spaces.MultiDiscrete([count] * len(init), start=[low] * len(init), init_value=init)
    if ranges := factor.get("ranges"):
        low, high = (np.array(end, factor["dtype"]) for end in zip(*ranges))
    return spaces.Box(low, high, init.shape, init_value=init, dtype=init.dtype)


def _nested(by_name):
    """Returns spaces with dotted names as a Dict of Dicts."""
    groups = {}
    for name, space in by_name.items():
        group, _, leaf = name.partition(".")
        groups.setdefault(group, {})[leaf] = space
    return spaces.Dict({group: spaces.Dict(leaves) for group, leaves in groups.items()})


def _find(space, name):
    """Returns a space by its dotted name."""
    for part in name.split("."):
        space = space[part]
    return space
