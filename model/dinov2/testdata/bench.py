"""Prints how many frames of 224 pixels transformers' Dinov2Model (the published
size, random weights) encodes in a second of one thread's processor time:
    python bench.py
Beside it: go test ./model/dinov2 -run xxx -bench Encode
"""
import time

import torch
from transformers import Dinov2Config, Dinov2Model

FRAMES, TIMES = 16, 5
torch.set_num_threads(1)
model = Dinov2Model(Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518)).eval()
x = torch.randn(FRAMES, 3, 224, 224)


def rate(name, f):
    best = []
    with torch.inference_mode():
        f(x)
        for _ in range(TIMES):
            begin = time.process_time()
            f(x)
            best.append(FRAMES / (time.process_time() - begin))
    print(f"{name}: median {sorted(best)[TIMES // 2]:.2f}, best {max(best):.2f} frames/s", flush=True)


def autocast(f):
    def call(x):
        with torch.autocast("cpu", torch.bfloat16):
            return f(x)
    return call


rate("fp32 eager", model)
rate("bf16 autocast", autocast(model))
rate("fp32 compiled", torch.compile(model))
rate("bf16 autocast compiled", autocast(torch.compile(model)))
