"""Writes the .pt files of the tests of the reader, and what they hold as
expected.json: {FILE: {NAME: {"dtype", "shape", "values"}}} (row-major).

Made with Python 3.11 and torch 2.15.0:
    python pt.py
"""
import collections
import json
import os

import torch

torch.manual_seed(0)
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}

base = torch.randn(4, 6)
plain = collections.OrderedDict(
    f32=torch.randn(2, 3), f64=torch.randn(3, dtype=torch.float64), f16=torch.randn(5).half(), bf16=torch.randn(5).bfloat16(),
    i64=torch.tensor([-1, 2 ** 40]), scalar=torch.tensor(1234), empty=torch.zeros(0, 5),
    # One storage under four tensors: transposed, every other column, a row, the whole.
    turned=base.t(), columns=base[:, 1::2], row=base[2], whole=base)
plain._metadata = collections.OrderedDict(version=1)
FILES = {"plain.pt": plain, "parameters.pt": {"w": torch.nn.Parameter(torch.randn(2, 2)), "b": torch.nn.Parameter(torch.randn(2), False)},
         "wrapped.pt": {"epoch": 3, "lr": 1e-4, "done": False, "names": ["a", None, (1, 2, 3, 4)], "big": 2 ** 40,
                        "state_dict": collections.OrderedDict(w=torch.randn(2))}}

expected = {}
for file, content in FILES.items():
    for protocol in (2, 4):
        name = file if protocol == 2 else "protocol4_" + file
        torch.save(content, os.path.join(HERE, name), pickle_protocol=protocol)
        expected[name] = {k: {"dtype": NAMES[v.dtype], "shape": list(v.shape), "values": v.detach().double().flatten().tolist()}
                          for k, v in content.get("state_dict", content).items()}
torch.save(torch.nn.Linear(2, 1), os.path.join(HERE, "module.pt"))  # a whole module: refused
torch.save({"w": torch.zeros(1).expand(1000)}, os.path.join(HERE, "expanded.pt"))  # larger than its storage: refused
torch.save([torch.zeros(1)], os.path.join(HERE, "list.pt"))  # no dict: refused
torch.save({"w": torch.zeros(1), "n": 3}, os.path.join(HERE, "number.pt"))  # not all tensors: refused
torch.save({"w": torch.zeros(1)}, os.path.join(HERE, "legacy.pt"), _use_new_zipfile_serialization=False)  # before 1.6: refused
with open(os.path.join(HERE, "expected.json"), "w") as f:
    json.dump(expected, f, indent=1)
