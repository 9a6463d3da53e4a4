"""Writes tree.h5: arrays of every kind of number in nested groups, and
attributes. Made with Python 3.11, h5py 3.16.0, numpy 2.4."""
import os

import h5py
import numpy as np

with h5py.File(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tree.h5"), "w", libver=("v108", "v110")) as f:
    f["a/half"] = np.array([[1, -0.5, 65504]], np.float16)
    f["a/single"] = np.array([1 / 3], np.float32)
    f["a/deep/double"] = np.arange(24.0).reshape(2, 3, 4)
    f["bytes"] = np.array([0, 255], np.uint8)
    f["flags"] = np.array([True, False, True])
    f["long"] = np.array([-2**40], np.int64)
    f["scalar"] = 7.5
    f["none"] = np.zeros((0, 3))
    f["words"] = np.array([b"abc"])
    f["a"].attrs["lr"] = 5e-5
    f["a"].attrs["steps"] = np.int64(12)
    f["a"].attrs["on"] = True
    f["a"].attrs["recipe"] = "z: plain; q: 3z + é"
    f["a"].attrs["fixed"] = np.bytes_(b"fixed")
    f["a"].attrs["list"] = np.arange(3.0)
