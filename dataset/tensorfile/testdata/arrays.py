"""Writes the .pth files of the tests of ParseArray: single tensors, and what it refuses.

Made with Python 3.11 and torch 2.15.0:
    python arrays.py
"""
import os

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
base = torch.arange(24, dtype=torch.int16).reshape(4, 6)
for name, content in {"whole": base, "turned": base.t(), "part": base[1:3, 2:], "parameter": torch.nn.Parameter(torch.tensor([0.5])),
                      "empty": torch.zeros(0, 3), "dict": {"w": base}, "numpy": np.zeros(2)}.items():
    torch.save(content, os.path.join(HERE, name + ".pth"))
