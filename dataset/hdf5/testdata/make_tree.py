"""Writes tree.h5 and tree_latest.h5: files of other programs, with groups in groups, for tree_test.go.

Made with h5py 3.16.0 (HDF5 2.0.0) and numpy 2.4.6. Run it in this folder.
"""

import h5py
import numpy as np

for name, kw in {"tree.h5": dict(userblock_size=512), "tree_latest.h5": dict(libver=("v110", "v110"), track_order=True)}.items():
    with h5py.File(name, "w", **kw) as f:
        g = f.create_group("data/demo_0")
        g.attrs["num_samples"], g.attrs["scale"], g.attrs["note"], g.attrs["pair"] = 5, 0.25, "first", [1, 2]
        g["actions"] = np.arange(10).reshape(5, 2) / 2
        g.create_dataset("half", data=np.arange(5, dtype=np.float16), chunks=(2,), maxshape=(None,), compression="gzip")
        g["flag"] = np.arange(5) % 2 == 0
        g["big"] = np.arange(5, dtype=">i4")
        g["words"] = ["a", "b"]
        g["one"] = 7
        # Byte strings of many lengths, an empty one, and one that fills a collection of the global heap alone.
        b = g.create_dataset("bytes", (5,), dtype=h5py.vlen_dtype(np.uint8), chunks=(2,))
        for i, n in enumerate([3, 5000, 0, 1, 7]):
            b[i] = np.arange(n, dtype=np.int64).astype(np.uint8) + i
        g["floats"] = np.array([np.ones(2, np.float32)] + [None], dtype=object)[:1].astype(h5py.vlen_dtype(np.float32))
        f["soft"] = h5py.SoftLink("/data")
        f["nothing"] = h5py.SoftLink("/data/none")
        f["elsewhere"] = h5py.ExternalLink("types.h5", "/")
        g["up"] = f["data"]
        # So many entries that the newer format keeps them outside of the object header.
        for i in range(40):
            f.create_group(f"many/episode_{i}")["x"] = np.full(1, i, np.int8)
