import contextlib
import copy
import types

import gymnasium as gym
import numpy as np
from stable_worldmodel.solver.cem import CEMSolver

WIDE = build().eval()
HALF = copy.deepcopy(WIDE).bfloat16()
START, GOAL = frames(1, 1), frames(1, 1)
CONFIG = types.SimpleNamespace(horizon=5, action_block=M["frame_skip"])
SPACE = gym.spaces.Box(-1, 1, (1, M["action_dim"]), np.float32)


def plan(model, context):
    solver = CEMSolver(model, num_samples=SPEC["candidates"], n_steps=SPEC["iterations"], topk=SPEC["elites"], device=DEVICE)
    solver.configure(action_space=SPACE, n_envs=1, config=CONFIG)
    with context():
        solver.solve({"pixels": START, "goal": GOAL, "action": torch.zeros(1, 1, BLOCK)})
    finish()


def autocast():
    return torch.autocast(DEVICE.type, torch.bfloat16)


serve({"fp32": {"fp32": lambda: plan(WIDE, contextlib.nullcontext)},
       "bf16": {"autocast": lambda: plan(WIDE, autocast), "bf16_weights": lambda: plan(HALF, contextlib.nullcontext)}},
      version=VERSION, params=params(WIDE))
