"""Env steps and frames a second through Python, beside the originals' gymnasium environments.

    bench.py [TASK...]

Run with the Python of make setup-peers and PYTHONPATH at an unpacked wheel, on one core
(taskset -c 0, one thread for PyTorch). Ours: 64 worlds of make_vec. Theirs: the environment that gymnasium.make
gives, alone, since their vector environments step one after the other. Both in turns, five rounds of a second each;
the medians are printed with what the library draws without Python, and with processor time in mind: run it on a quiet machine.
"""

import os
import sys
import time

os.environ.setdefault("MUJOCO_GL", "egl")

import gymnasium
import gymnasium_robotics
import numpy as np
import scalewm
import stable_worldmodel.envs  # noqa: F401  before a frame: Mesa shows its LLVM to all, and Triton's own then crashes
import torch

torch.set_num_threads(1)

N, ROUNDS, SECONDS = 64, 5, 1.0
FRAMES = 16  # worlds that OpenGL draws, so that a round ends
THEIRS = {
    "tworoom": ("swm/TwoRoom-v1", {}),
    "pusht": ("swm/PushT-v1", {}),
    "pointmaze": ("PointMaze_UMaze-v3", {}),
    "reacher": ("swm/ReacherDMControl-v0", {"task": "qpos_match"}),
    "cube": ("swm/OGBCube-v0", {"mode": "data_collection", "ob_type": "states", "multiview": False, "visualize_info": False, "terminate_at_goal": True}),
}


def rate(work, seconds=SECONDS):
    """Calls of work a second."""
    work()
    n, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        work()
        n += 1
    return n / spent


def ours(name, n, **kwargs):
    env = gymnasium.make_vec(name, num_envs=n, **kwargs)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(8)]
    turn = iter(range(10**12))
    return lambda: env.step(actions[next(turn) % 8])


def theirs(task):
    name, kwargs = THEIRS[task]
    gymnasium.register_envs(gymnasium_robotics)  # DINO-WM's maze is not in stable-worldmodel; this is D4RL's, which it was made of
    env = gymnasium.make(name, max_episode_steps=10**9, render_mode="rgb_array", **kwargs).unwrapped
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(8)]
    turn = iter(range(10**12))
    return lambda: env.step(actions[next(turn) % 8]), env.render


def main(tasks):
    print(f"{'task':10} {'steps/s ours':>14} {'theirs':>10} {'ratio':>7} {'frames/s ours':>14} {'theirs':>9} {'library':>9} {'of it':>6}")
    for name, (task, _) in scalewm.IDS.items():
        if tasks and task not in tasks:
            continue
        n = N if task in ("tworoom", "pusht", "pointmaze") else FRAMES
        step, observe = ours(name, N), ours(name, n, obs="pixels", copy=False)
        worlds = scalewm.Worlds(task, n)
        worlds.reset(np.arange(n))
        buffer = worlds.frames()
        their_step, their_frame = theirs(task)
        rounds = [[rate(step) * N, rate(their_step), rate(observe) * n, rate(their_frame), rate(lambda: worlds.frames(buffer)) * n] for _ in range(ROUNDS)]
        a, b, c, d, e = np.median(rounds, axis=0)
        print(f"{task:10} {a:14.0f} {b:10.0f} {a / b:7.1f} {c:14.0f} {d:9.0f} {e:9.0f} {c / e:6.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
