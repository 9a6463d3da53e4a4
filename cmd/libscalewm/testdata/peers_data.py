"""scalewm.Dataset in torch's DataLoader, and beside stable-worldmodel's own on the same file. TestPeersData runs this.

    peers_data.py DATA.h5
"""

import sys

import numpy as np
import stable_worldmodel.data
import torch
from torch.utils.data import DataLoader

import scalewm

T, K = 3, 5


def main(path):
    ds = scalewm.Dataset(path, T, K, split="all", columns=["proprio"])
    assert isinstance(ds, torch.utils.data.Dataset)
    theirs = stable_worldmodel.data.HDF5Dataset(path=path, frameskip=K, num_steps=T, keys_to_load=["pixels", "action", "proprio"])
    assert len(ds) == len(theirs)
    for i in range(0, len(ds), 17):
        a, b = ds[i], theirs[i]
        np.testing.assert_array_equal(a["pixels"], b["pixels"].permute(0, 2, 3, 1).numpy())
        np.testing.assert_array_equal(a["proprio"], b["proprio"].numpy())
        scaled = (b["action"].reshape(T * K, -1).numpy() - ds.action_mean) / ds.action_std
        np.testing.assert_allclose(a["action"].reshape(T * K, -1), np.nan_to_num(scaled), atol=1e-5)
    for kwargs in ({}, {"num_workers": 2, "multiprocessing_context": "spawn"}):
        seen = [batch for batch in DataLoader(ds, 4, **kwargs)]
        assert sum(len(b["row"]) for b in seen) == len(ds)
        assert seen[0]["pixels"].shape == (4, T, 224, 224, 3) and seen[0]["pixels"].dtype == torch.uint8
        np.testing.assert_array_equal(torch.cat([b["row"] for b in seen]).numpy(), ds.clips(range(len(ds)))["row"])
    try:
        next(iter(DataLoader(ds, 4, num_workers=1, multiprocessing_context="fork")))
        raise AssertionError("a forked worker was let in")
    except RuntimeError as e:
        assert "spawn" in str(e), e
    batch = next(ds.batches(4, tensors=True))
    assert torch.is_tensor(batch["pixels"]) and batch["action"].dtype == torch.float32


if __name__ == "__main__":
    main(*sys.argv[1:])
