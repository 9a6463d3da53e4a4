"""Clips a second into torch tensors, beside stable-worldmodel's HDF5 loader.

    bench_data.py DATA.h5 [WORKERS...]

Run with the Python of make setup-peers and PYTHONPATH at an unpacked wheel. Clips of 4 frames 5 rows apart at the
stored size, random order, batches of 32, as uint8 and as float32 by ImageNet's mean and deviation. Ours: Dataset.batches with so
many threads. Theirs: a DataLoader with so many processes over HDF5Dataset, started before the clock. In turns, five rounds; medians.
"""

import sys
import time

import numpy as np
import scalewm.data
import stable_worldmodel.data
import torch
from torch.utils.data import DataLoader

BATCH, STEPS, ROUNDS, T, K = 32, 8, 5, 4, 5
MEAN, STD = (torch.tensor(v).view(1, 3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))


def normalise(steps):
    return {**steps, "pixels": (steps["pixels"].float() / 255 - MEAN) / STD}


def ours(path, workers, normalised):
    ds = scalewm.data.Dataset(path, T, K, split="all", workers=workers, normalised=normalised)
    return ds.batches(BATCH, tensors=True, copy=False)


def theirs(path, workers, normalised):
    ds = stable_worldmodel.data.HDF5Dataset(path=path, frameskip=K, num_steps=T, keys_to_load=["pixels", "action"], transform=normalise if normalised else None)
    while True:
        yield from DataLoader(ds, BATCH, shuffle=True, drop_last=True, num_workers=workers, multiprocessing_context="spawn", persistent_workers=True)


def main(path, *workers):
    torch.set_num_threads(1)
    for n in map(int, workers or ["1", "2"]):
        for normalised in (False, True):
            both = [ours(path, n, normalised), theirs(path, n, normalised)]
            rates = [[], []]
            for batches in both:
                for _ in range(2 * n + 1):  # those that were fetched ahead
                    next(batches)
            for _ in range(ROUNDS):
                for batches, found in zip(both, rates):
                    start = time.perf_counter()
                    for _ in range(STEPS):
                        next(batches)
                    found.append(BATCH * STEPS / (time.perf_counter() - start))
            a, b = map(np.median, rates)
            print(f"{n} workers, {'float32' if normalised else 'uint8'}: ours {a:.0f} clips/s, theirs {b:.0f}, ratio {a / b:.1f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
