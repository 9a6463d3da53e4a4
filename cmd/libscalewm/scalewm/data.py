"""Clips of a data set, as `scalewm train` sees them, for those who train in Python."""

import os
import sys

import numpy as np

from ._abi import Held, call

_BASE = sys.modules["torch"].utils.data.Dataset if "torch" in sys.modules else object


class Dataset(Held, _BASE):
    """Clips of `frames` frames, `skip` rows apart, of a data set in the field's HDF5 layout.

    A map-style data set for torch's DataLoader, and with `batches` an iterator over the program's own loader, whose
    threads read and decode (so that DataLoader's workers are needless; those that are spawned open the file anew). With
    the same seed and protocol, clips, split, order and scaling are those of `scalewm train`.

    Items are dicts of NumPy arrays; a batch has a first axis more:
        pixels   (frames, S, S, 3) uint8; with `normalised` (frames, 3, S, S) float32 by ImageNet's mean and deviation.
                 S is `size`, to which frames are scaled once when the set is opened, as in training; None: as stored
        action   (frames, skip * A) float32: z-scores of the actions that leave each frame, in time order, NaN as 0
        row      (frames,) int32, rows of the file; episode: int32
        and each of `columns` as the file has it, (frames, width)

    `split` is "train", "val" or "all"; protocol "paper" holds out clips, "strict" episodes.
    `action_mean` and `action_std` undo the scaling. `workers` is the number of threads, 0 for one a core.
    """

    def __init__(self, path, frames=4, skip=5, *, size=None, normalised=False, split="train", seed=3072, protocol="paper",
                 columns=(), workers=0, progress=None):  # fmt: skip
        self._wants = {"path": os.path.abspath(str(path)), "frames": frames, "skip": skip, "size": size or 0, "split": split, "seed": seed, "protocol": protocol,
                       "columns": list(columns), "normalised": normalised, "workers": workers}  # fmt: skip
        self._open(progress)

    def _open(self, progress=None):
        self._handle = call("clips.new", 0, self._wants)["handle"]
        while (about := call("clips.open", self._handle))["want"] != "done":
            if progress:
                progress(about["done"], about["total"], about["note"])
        self._about = about | {"changed": os.stat(self._wants["path"]).st_mtime_ns}
        self.frame_size, self.episodes, self.rows = about["frame_size"], about["episodes"], about["rows"]
        self.action_mean, self.action_std = np.array(about["action_mean"]), np.array(about["action_std"])

    def __len__(self):
        return self._about["clips"]

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(f"clip {i} of {len(self)}")
        return {k: v[0] for k, v in self.clips([i]).items()}

    def __getitems__(self, indices):
        """Items by their numbers, fetched together: what torch's DataLoader asks for."""
        many = self.clips(indices)
        return [{k: v[j] for k, v in many.items()} for j in range(len(indices))]

    def clips(self, indices):
        """A batch of the clips of these numbers."""
        numbers = np.asarray(indices, np.int64).reshape(-1)
        numbers = np.where(numbers < 0, numbers + len(self), numbers)
        out = self._buffers(len(numbers))
        call("clips.clip", self._handle, None, (numbers, *out.values()))
        return out

    def steps_per_epoch(self, batch_size):
        """Full batches of an epoch; other clips are left over each time."""
        return len(self) // batch_size

    def batches(self, batch_size, *, start=0, steps=None, tensors=False, copy=True):
        """Batches of training steps from `start` on, `steps` of them or without end; the epochs follow one another.

        With `tensors` they are torch's. With `copy=False` two sets of arrays take turns, and a batch holds until the
        next but one is taken.
        """
        ring = [self._buffers(batch_size) for _ in range(2)] if not copy else None
        if tensors:
            import torch
        step = start
        while steps is None or step < start + steps:
            out = ring[step % 2] if ring else self._buffers(batch_size)
            call("clips.step", self._handle, {"batch": batch_size, "step": step}, tuple(out.values()))
            yield {k: torch.from_numpy(v) for k, v in out.items()} if tensors else out
            step += 1

    def _buffers(self, n):
        w, s = self._wants, self.frame_size
        t = w["frames"]
        pixels = np.empty((n, t, 3, s, s), np.float32) if w["normalised"] else np.empty((n, t, s, s, 3), np.uint8)
        out = {"pixels": pixels, "action": np.empty((n, t, w["skip"] * self._about["actions"]), np.float32),
               "row": np.empty((n, t), np.int32), "episode": np.empty(n, np.int32)}  # fmt: skip
        for c in self._about["columns"]:
            out[c["name"]] = np.empty((n, t, c["width"]), c["dtype"])
        return out
