import contextlib
import copy
import types

import gymnasium as gym
import numpy as np
from stable_worldmodel.solver.cem import CEMSolver

WIDE = build().eval()
# The published cost accepts one episode at a time, since its goals lack the axis of candidates.
WIDE.criterion = lambda info: LeWM.criterion(WIDE, {**info, "goal_emb": info["goal_emb"].unsqueeze(1)})
HALF = copy.deepcopy(WIDE).bfloat16()
CONFIG = types.SimpleNamespace(horizon=5, action_block=M["frame_skip"])
SPACE = gym.spaces.Box(-1, 1, (1, M["action_dim"]), np.float32)
WORLDS = {n: {"pixels": frames(n, 1), "goal": frames(n, 1), "action": torch.zeros(n, 1, BLOCK)} for n in {1, SPEC["side"]} - {0}}


def plan(model, context=contextlib.nullcontext, n=1):
    """Returns the milliseconds of a plan if n are made in one batch."""
    began = time.perf_counter()
    solver = CEMSolver(model, batch_size=n, num_samples=SPEC["candidates"], n_steps=SPEC["iterations"], topk=SPEC["elites"], device=DEVICE)
    solver.configure(action_space=SPACE, n_envs=n, config=CONFIG)
    with context():
        solver.solve(dict(WORLDS[n]))
    finish()
    return (time.perf_counter() - began) * 1e3 / n


def autocast():
    return torch.autocast(DEVICE.type, torch.bfloat16)


def compiled(model):
    """Returns a copy of the model with a compiled predictor. On a GPU that uses CUDA graphs, whose results the next
    call overwrites, hence the clone."""
    model = copy.deepcopy(model)
    predict = compiles(model.predict, mode="reduce-overhead", dynamic=False)
    model.predict = lambda *a: predict(*a).clone()
    return model


FAST_WIDE, FAST_HALF = compiled(WIDE), compiled(HALF)
FP32 = {"fp32": lambda: plan(WIDE)}
BF16 = {"autocast": lambda: plan(WIDE, autocast), "bf16_weights": lambda: plan(HALF), "compile_bf16_weights": lambda: plan(FAST_HALF)}
SIDE = {}
if DEVICE.type == "cpu":  # on a GPU bf16 is faster, and compiling takes a minute per variant
    FP32["compile"] = lambda: plan(FAST_WIDE)
elif n := SPEC["side"]:  # on a CPU one plan already uses all cores
    SIDE = {"side_autocast": lambda: plan(WIDE, autocast, n), "side_bf16_weights": lambda: plan(HALF, n=n),
            "side_compile_bf16_weights": lambda: plan(FAST_HALF, n=n)}
serve({"fp32": FP32, "bf16": in_bf16(BF16), "side": SIDE}, version=VERSION, params=params(WIDE))
