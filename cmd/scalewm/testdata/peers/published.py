"""Rewrites a Push-T data set of ours as the published one is laid out, for given_test.go.

    published.py OURS OUT

stable-worldmodel's own writer writes the columns of the published set (pixels, action,
proprio, state), without attributes. As there, the last action of an episode is NaN.
Checked with h5py 3.16.0 and stable-worldmodel 0.1.1.
"""

import sys

import h5py
import numpy as np
from stable_worldmodel.data.formats.hdf5 import HDF5Writer

with h5py.File(sys.argv[1], "r") as ours, HDF5Writer(sys.argv[2], mode="overwrite") as out:
    for offset, length in zip(ours["ep_offset"][:], ours["ep_len"][:]):
        episode = {name: list(ours[name][offset : offset + length]) for name in ("pixels", "action", "proprio", "state")}
        episode["action"][-1] = np.full_like(episode["action"][-1], np.nan)
        out.write_episode(episode)
