"""Writes files of torch.save as trainers write them, with objects and tensors that no
state dict needs, and what they hold as trainers.json: {FILE: {"states": {PATH: {NAME:
values}}, "rest": paths of other containers of large tensors next to the first state}}.

Made with Python 3.11, torch 2.15.0, NumPy 2.4 and omegaconf 2.3:
    python trainers.py
"""
import argparse
import collections
import enum
import functools
import json
import os
import pathlib

import numpy as np
import torch
from omegaconf import OmegaConf

HERE = os.path.dirname(os.path.abspath(__file__))


class Mode(enum.Enum):
    FAST = 1


class Table(dict):
    pass


Point = collections.namedtuple("Point", "x y")
model = collections.OrderedDict(a=torch.arange(4.0), b=torch.tensor(7))
model._metadata = collections.OrderedDict(version=1)
ema = {"a": torch.arange(4.0) / 2, "b": torch.tensor(8)}
loop = [1]
loop.append(loop)
looped = (loop, {})
looped[1]["self"] = looped
quartet = (1, 2, 3, [])
quartet[3].append(quartet)
marked = torch.nn.Parameter(torch.ones(2))
marked.note = "extra"
objects = {
    "hyper_parameters": OmegaConf.create({"lr": 5e-5, "betas": [0.9, 0.95], "name": "${lr}"}), "defaults": collections.defaultdict(list, a=[1]),
    "counter": collections.Counter("aab"), "deque": collections.deque([1, 2]), "enum": Mode.FAST, "point": Point(1, 2), "table": Table(a=1),
    "args": argparse.Namespace(lr=1e-3), "path": pathlib.PurePosixPath("/data"), "partial": functools.partial(int, base=2), "type": torch.nn.Linear,
    "set": {1, 2}, "frozen": frozenset([3]), "short": b"ab", "bytes": b"ab" * 200, "array": bytearray(b"xyz"), "complex": 1j, "big": 2 ** 100,
    "negative": -2 ** 90, "huge": 1 << 2100, "text": "é" * 200, "loop": loop, "looped": looped, "quartet": quartet, "many": list(range(300)),
    "numpy": np.arange(6.0), "scalar": np.float32(1.5), "dtype": np.dtype("int8"), "device": torch.device("cpu"), "size": torch.Size([1, 2]),
    "loss": torch.nn.MSELoss(),
}
tensors = {
    "sparse": torch.eye(3).to_sparse(), "complex": torch.zeros(2, dtype=torch.complex64), "expanded": torch.zeros(1).expand(1000),
    "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "u16": torch.zeros(2, dtype=torch.uint16),
    "f8": torch.zeros(2).to(torch.float8_e4m3fn), "meta": torch.zeros(5, device="meta"), "marked": marked,
}
numbers = {k: v.double().flatten().tolist() for k, v in model.items()}
halves = {k: v.double().flatten().tolist() for k, v in ema.items()}
parameter = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.AdamW([parameter])
parameter.grad = torch.ones(3)
optimizer.step()
FILES = {"trainer": ({"epoch": 3, **objects, "state_dict": model, "optimizer_states": [optimizer.state_dict()], "optim": {"m": torch.zeros(3)},
                      "callbacks": {"best": {"best_model_score": torch.tensor(0.5)}}}, {"state_dict": numbers}, [], (2, 3, 4, 5)),
         "several": ({"others": tensors, "ckpt": {"model": model, "ema": ema}, "shadow": {"params": list(ema.values())}, "scale": {"s": torch.tensor([1.0])}},
                     {"ckpt.model": numbers, "ckpt.ema": halves}, ["others", "ckpt.ema", "shadow.params"], (2,)),
         "own_tensors": ({"model": model, "rng": torch.zeros(3)}, {"model": numbers}, ["tensors of the outermost dict"], (2,)),
         "twice": ({"model": model, "net": model}, {"model": numbers}, [], (2,))}
expected = {}
for name, (content, states, rest, protocols) in FILES.items():
    for protocol in protocols:
        file = f"{name}_{protocol}.ckpt"
        torch.save(content, os.path.join(HERE, file), pickle_protocol=protocol)
        expected[file] = {"states": states, "rest": rest}
torch.save({"args": Point(1, 2), "net": torch.nn.Linear(2, 1), "step": 3}, os.path.join(HERE, "module_in_dict.pt"))
torch.save({"w": torch.zeros(1), "mode": Mode.FAST}, os.path.join(HERE, "object.pt"))
torch.save({"w": torch.zeros(2, dtype=torch.complex64)}, os.path.join(HERE, "complex.pt"))
with open(os.path.join(HERE, "trainers.json"), "w") as f:
    json.dump(expected, f, indent=1)
