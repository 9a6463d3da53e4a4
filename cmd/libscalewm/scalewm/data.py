"""Clips of a data set as `scalewm train` sees them, for training in Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ._abi import Handle, call
from .worlds import names

# Dataset is a subclass of torch's only if torch was imported before, since importing it is slow.
_BASE: Any = sys.modules["torch"].utils.data.Dataset if "torch" in sys.modules else object


class Dataset(Handle, _BASE):
    """Clips of `frames` frames, `skip` rows apart, of a data set in stable-worldmodel's HDF5 layout.

    It is a map-style data set for torch's DataLoader. Its method `batches` iterates over the library's
    own loader, whose threads read and decode, so DataLoader workers are not needed; spawned workers
    open the file again. With the same seed and protocol, clips, split, order and scaling are those of
    `scalewm train`.

    Items are dicts of NumPy arrays. In a batch, each has an additional first axis.
        pixels   (frames, S, S, 3) uint8, or with `normalised` (frames, 3, S, S) float32, normalised by
                 ImageNet's mean and deviation. S is `size`, to which frames are scaled once when the data
                 set is opened, as in training; None means as stored.
        action   (frames, skip * A) float32: z-scores of the actions from each frame on, in time order; NaN
                 becomes 0
        row      (frames,) int32: row indices in the file
        episode  int32: index of the episode
        and each of `columns` with its dtype in the file, (frames, width)

    Args:
        split: "train", "val" or "all".
        protocol: "paper" holds out clips, "strict" episodes.
        workers: number of threads; 0 means one per core.
        progress: function progress(done, total, note), called while the data set is opened.

    `action_mean` and `action_std`, (A,) float64, undo the scaling of actions. `close`, or the end of a
    `with` block, closes the file.
    """

    def __init__(self, path: str | os.PathLike[str], frames: int = 4, skip: int = 5, *, size: int | None = None, normalised: bool = False,
                 split: str = "train", seed: int = 3072, protocol: str = "paper", columns: str | Iterable[str] = (), workers: int = 0,
                 progress: Callable[[int, int, str], object] | None = None) -> None:  # fmt: skip
        self._source = {"path": os.path.abspath(str(path)), "frames": frames, "skip": skip, "size": size or 0, "split": split, "seed": seed, "protocol": protocol,
                       "columns": names(columns), "normalised": normalised, "workers": workers}  # fmt: skip
        self._open(progress)

    def _open(self, progress=None):
        self._handle = call("clips.new", 0, self._source)["handle"]
        while (about := call("clips.open", self._handle))["want"] != "done":
            if progress:
                progress(about["done"], about["total"], about["note"])
        self._about = about | {"changed": os.stat(self._source["path"]).st_mtime_ns}
        self.frame_size, self.episodes, self.rows = about["frame_size"], about["episodes"], about["rows"]
        self.action_mean, self.action_std = np.array(about["action_mean"]), np.array(about["action_std"])

    def __len__(self) -> int:
        return self._about["clips"]

    def __getitem__(self, i: int) -> dict[str, Any]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"clip {i} of {len(self)}")
        return {k: v[0] for k, v in self.clips([i]).items()}

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        """Returns the items of several indices, fetched together. torch's DataLoader calls it for a batch."""
        many = self.clips(indices)
        return [{k: v[j] for k, v in many.items()} for j in range(len(indices))]

    def clips(self, indices: Iterable[int]) -> dict[str, Any]:
        """Returns a batch of the clips with these indices."""
        numbers = np.asarray(indices, np.int64).reshape(-1)
        numbers = np.where(numbers < 0, numbers + len(self), numbers)
        out = self._buffers(len(numbers))
        call("clips.clip", self._handle, None, (numbers, *out.values()))
        return out

    def steps_per_epoch(self, batch_size: int) -> int:
        """Returns the number of full batches in an epoch. The remaining clips are dropped; they differ between epochs."""
        return len(self) // batch_size

    def batches(self, batch_size: int, *, start: int = 0, steps: int | None = None, tensors: bool = False, copy: bool = True) -> Iterator[dict[str, Any]]:
        """Yields the batches of training steps, from `start` on: `steps` of them, or without end, epoch after epoch.

        With `tensors`, arrays are torch tensors. With `copy=False`, two sets of arrays are used
        alternately: a batch is overwritten when the batch after the next is requested.
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

    def _words(self):
        w = self._source
        return f"{w['path']!r}: {len(self)} clips of {w['frames']} frames, {w['skip']} rows apart, {self.frame_size} px, split {w['split']}"

    def _buffers(self, n):
        w, s = self._source, self.frame_size
        t = w["frames"]
        pixels = np.empty((n, t, 3, s, s), np.float32) if w["normalised"] else np.empty((n, t, s, s, 3), np.uint8)
        out = {"pixels": pixels, "action": np.empty((n, t, w["skip"] * self._about["actions"]), np.float32),
               "row": np.empty((n, t), np.int32), "episode": np.empty(n, np.int32)}  # fmt: skip
        for c in self._about["columns"]:
            out[c["name"]] = np.empty((n, t, c["width"]), c["dtype"])
        return out
