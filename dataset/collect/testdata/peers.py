"""Reads a data set of ours as its users do, for peers_test.go.

    peers.py h5py FILE            with h5py alone, no plug-in
    peers.py swm FILE             with stable-worldmodel's load_dataset

Checked with h5py 3.16.0 and stable-worldmodel 0.1.1. Prints one JSON object.
"""

import hashlib
import json
import sys


def digest(a):
    import numpy as np

    return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()


def with_h5py(path):
    import h5py

    assert "hdf5plugin" not in sys.modules
    with h5py.File(path, "r") as f:
        return {
            "rows": {k: [list(f[k].shape), str(f[k].dtype)] for k in f},
            "pixels": digest(f["pixels"][:]),
            "state": digest(f["state"][:]),
            "attrs": {k: v.decode() if isinstance(v, bytes) else str(v) for k, v in f.attrs.items()},
        }


def with_swm(path):
    import numpy as np
    from stable_worldmodel.data.utils import load_dataset

    d = load_dataset(path, frameskip=5, num_steps=4)
    clips = []
    for i in range(0, len(d), max(1, len(d) // 20)):
        c = d[i]
        clips.append({
            "index": i,
            "pixels": digest(c["pixels"].permute(0, 2, 3, 1).numpy()),
            "action": digest(np.nan_to_num(c["action"].numpy().astype(np.float32), nan=0.0)),
            "state": digest(c["state"].numpy().astype(np.float32)),
            "episode": int(c["ep_idx"][0]),
        })
    return {"length": len(d), "clips": clips}


json.dump({"h5py": with_h5py, "swm": with_swm}[sys.argv[1]](sys.argv[2]), sys.stdout)
