import torch
from stable_worldmodel.data.formats.hdf5 import HDF5Dataset

torch.set_num_threads(SPEC["threads"])
LEAD_IN, COUNTED = 5, 4  # each worker prefetches two batches


def forever(workers):
    data = HDF5Dataset(path=SPEC["path"], frameskip=SPEC["skip"], num_steps=SPEC["frames"], keys_to_load=["pixels", "action"])
    loader = torch.utils.data.DataLoader(data, batch_size=SPEC["batch"], shuffle=True, drop_last=True, num_workers=workers,
                                         persistent_workers=workers > 0)
    while True:
        yield from loader


STREAMS = {}


def batch(workers):
    """Returns the milliseconds of a batch, after those that were prefetched."""
    it = STREAMS.setdefault(workers, forever(workers))
    for _ in range(LEAD_IN if workers else 1):
        next(it)
    began = time.perf_counter()
    for _ in range(COUNTED):
        next(it)
    return (time.perf_counter() - began) * 1e3 / COUNTED


serve({"stored": {"in_process": lambda: batch(0), f"workers_{SPEC['threads']}": lambda: batch(SPEC["threads"])}},
      version=f"torch {torch.__version__}")
