"""Records what OGBench's oracles do, for oracle_test.go.

Made with ogbench 1.2.1, stable-worldmodel 0.1.1, dm_control 1.0.44, mujoco 3.11.0,
numpy 2.4.6 and scipy 1.17.1: python make_oracles.py oracles.bin.gz

The oracles act in the real Cube of stable-worldmodel (mode data_collection), a new
target each time they are done, and then see made-up scenes. What they see is rounded to
float32, and what they draw comes from a generator that the test has too, so that the
file holds sights and actions only.

The file is a run of events, little-endian. Each is a byte, then what belongs to it:
  's' a new oracle: byte 'p' or 'm', seed of its draws (uint32)
  'b' begin at a sight (15 float32: time, hand x y z, block, target, yaw of hand, block,
      target, opening, contact)
  'n' next at a sight: 15 float32, then the action (5 float64) and done (byte)
"""
import gzip
import struct
import sys

import numpy as np
from ogbench.manipspace.oracles.markov.cube_markov import CubeMarkovOracle
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle
from stable_worldmodel.envs.ogbench.cube_env import CubeEnv

EPISODES, STEPS = 3, 200
SCENES, LOOKS = 120, 5
MASK = 2**64 - 1


class Dice:
    """SplitMix64; a normal number is the sum of twelve uniform ones, minus six."""

    def __init__(self, seed):
        self.state = seed

    def unit(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) / 2**53

    def uniform(self, low=0.0, high=1.0, size=None):
        low, high = np.asarray(low, float), np.asarray(high, float)
        u = np.array([self.unit() for _ in range(low.size)]).reshape(low.shape)
        return low + (high - low) * u

    def normal(self, loc, scale, size):
        flat = []
        for _ in range(int(np.prod(size))):
            total = 0.0
            for _ in range(12):
                total += self.unit()
            flat.append(total - 6)
        return loc + scale * np.array(flat).reshape(size)


KEYS = [("time", 1), ("proprio/effector_pos", 3), ("privileged/block_0_pos", 3), ("privileged/target_block_pos", 3),
        ("proprio/effector_yaw", 1), ("privileged/block_0_yaw", 1), ("privileged/target_block_yaw", 1),
        ("proprio/gripper_opening", 1), ("proprio/gripper_contact", 1)]


def rounded(info):
    seen = {k: np.asarray(info[k], np.float64).reshape(w).astype(np.float32).astype(np.float64) for k, w in KEYS}
    seen["privileged/target_block"] = 0
    return seen


def sight(seen):
    return np.concatenate([seen[k] for k, _ in KEYS]).astype("<f4").tobytes()


class Recorder:
    def __init__(self, env, kind, seed, out):
        dice = Dice(seed)
        np.random.uniform, np.random.normal = dice.uniform, dice.normal
        self.oracle = (CubePlanOracle(env=env) if kind == "p" else CubeMarkovOracle(env=env, min_norm=0.4))
        self.out = out
        out.append(b"s" + kind.encode() + struct.pack("<I", seed))

    def begin(self, info):
        seen = rounded(info)
        self.oracle.reset(None, seen)
        self.out.append(b"b" + sight(seen))

    def next(self, info):
        seen = rounded(info)
        action = np.asarray(self.oracle.select_action(None, seen), np.float64)
        self.out.append(b"n" + sight(seen) + action.astype("<f8").tobytes() + bytes([self.oracle.done]))
        return action


def episode(env, kind, seed, out, rng):
    real_uniform, real_normal = np.random.uniform, np.random.normal
    _, info = env.reset()
    r = Recorder(env, kind, seed, out)
    r.begin(info)
    noise = rng.uniform(0, 0.1) * np.array([1, 1, 1, 3, 10.0])
    for _ in range(STEPS):
        action = r.next(info)
        if kind == "m":
            action = np.clip(action + rng.normal(0, noise), -1, 1)
        if r.oracle.done:
            env.variation_space["cube"]["goal_position"].sample()
            env.variation_space["cube"]["goal_yaw"].sample()
            _, info = env.set_new_target()
            r.begin(info)
        _, _, _, _, info = env.step(action.astype(np.float32))
    np.random.uniform, np.random.normal = real_uniform, real_normal


def made_up(rng):
    """A scene; hand, block and target are near one another in some, for all phases."""
    place = rng.uniform([0.3, -0.3, 0.02], [0.55, 0.3, 0.3])
    near = lambda: place + rng.uniform(-1, 1, 3) * rng.choice([0.01, 0.03, 0.3])
    yaw = lambda: [rng.uniform(-np.pi, np.pi)]
    return {"time": [0], "proprio/effector_pos": near(), "privileged/block_0_pos": near(), "privileged/target_block_pos": near(),
            "proprio/effector_yaw": yaw(), "privileged/block_0_yaw": yaw(), "privileged/target_block_yaw": yaw(),
            "proprio/gripper_opening": [rng.uniform()], "proprio/gripper_contact": [rng.uniform()]}


def main(path):
    rng = np.random.default_rng(1)
    env = CubeEnv(mode="data_collection", terminate_at_goal=False, visualize_info=False)
    out = []
    for kind in "pm":
        for i in range(EPISODES):
            episode(env, kind, 1 + i, out, rng)
        for i in range(SCENES):
            r = Recorder(env, kind, 100 + i, out)
            r.begin(made_up(rng))
            for t in sorted(rng.uniform(0, 5, LOOKS)):
                r.next(made_up(rng) | {"time": [t]})
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, 0) as z:
        z.write(b"".join(out))


main(sys.argv[1])
