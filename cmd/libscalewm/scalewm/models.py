"""Trained models, ours or PyTorch's files, as objects with encode, rollout and cost."""

import math
import os
import sys

import numpy as np

from ._abi import Held, call


def load(path, *, threads=0):
    """The model of a checkpoint: the folder that `scalewm train` wrote, or PyTorch's with weights.pt and config.json."""
    return Model(path, threads)


class Model(Held):
    """A world model in evaluation mode on the processor, in float32.

    Latents are float32 of shape `latent`, (D,) or (P, D) with P patches. Actions are z-scores, in blocks of `action_width` numbers: the
    actions of `frame_skip` env steps one behind the other; `action_mean` and `action_std` are those of the training
    (None where PyTorch's files do not say). Arrays are NumPy's or torch's on the CPU, whose memory is used as it is where
    type and layout fit; what is given back is of the same kind. `scalewm.evaluate` takes such a model as it is.
    Copies and pickles load the checkpoint again, and fail where it has changed.
    """

    def __init__(self, path, threads=0):
        self._wants = {"path": os.path.abspath(str(path)), "threads": threads}
        self._open()

    def _open(self):
        about = call("model.load", 0, self._wants)
        self._handle, self._about = about.pop("handle"), about
        info = about["info"]
        self.path, self.kind, self.method, self.task = self._wants["path"], info["kind"], about["method"], about["task"]
        self.train_seed, self.weights = about["train_seed"], about["weights"]
        self.frame_size, self.frame_skip, self.action_width, self.history = info["frame_size"], info["frame_skip"], info["action_width"], info["history"]
        self.latent = (info["dim"],) if info["patches"] == 1 else (info["patches"], info["dim"])
        self.action_mean = np.array(about["action_mean"]) if about["action_mean"] else None
        self.action_std = np.array(about["action_std"]) if about["action_std"] else None

    def encode(self, frames):
        """Latents (..., *latent) of frames (..., S, S, 3), uint8, S = frame_size."""
        a = _numpy(frames)
        s = self.frame_size
        if a.dtype != np.uint8 or a.shape[-3:] != (s, s, 3):
            raise ValueError(f"encode wants frames (..., {s}, {s}, 3) of uint8, not {a.shape} of {a.dtype}")
        out = np.empty((*a.shape[:-3], *self.latent), np.float32)
        if a.size:
            call("model.encode", self._handle, None, (np.ascontiguousarray(a), out))
        return _like(frames, out)

    def rollout(self, start, candidates):
        """Latents (E, C, *latent) after the last block of candidates (E, C, H, A), from those of E episodes, (E, *latent)."""
        return self._predict(start, None, candidates)

    def cost(self, start, goals, candidates):
        """What planning minimises, (E, C): the squared distance of the last latent from the goal's (E, *latent), summed; DINO-WM's is a mean."""
        return self._predict(start, goals, candidates)

    def _predict(self, start, goals, candidates):
        c = _numpy(candidates)
        if c.ndim != 4 or c.shape[-1] != self.action_width or not c.size:
            raise ValueError(f"candidates are (E, C, H, {self.action_width}), not {c.shape}")
        episodes, n, blocks, _ = c.shape
        given = [("start", start)] + ([] if goals is None else [("goals", goals)])
        latents = []
        for what, x in given:
            x = _numpy(x)
            if x.shape != (episodes, *self.latent):
                raise ValueError(f"{what} is {(episodes, *self.latent)}, not {x.shape}")
            latents.append(_float32(what, x))
        out = np.empty((episodes, n) if goals is not None else (episodes, n, *self.latent), np.float32)
        arrays = (latents[0], _float32("candidates", c), *latents[1:], out)
        call("model.rollout", self._handle, {"episodes": episodes, "candidates": n, "blocks": blocks}, arrays)
        return _like(candidates, out)

    def __repr__(self):
        return f"<scalewm model {self.method} of {self.task or 'a task that is not said'}, latents {math.prod(self.latent)}, frames of {self.frame_size} px>"


def _numpy(x):
    if hasattr(x, "detach"):
        x = x.detach()
        if x.device.type != "cpu":
            raise ValueError(f"the tensor is on {x.device} (hint: .cpu())")
        return x.numpy()
    return np.asarray(x)


def _float32(what, x):
    if x.dtype.kind not in "fiu":
        raise TypeError(f"{what} is of {x.dtype}, not of numbers")
    return np.ascontiguousarray(x, np.float32)


def _like(given, out):
    return sys.modules["torch"].from_numpy(out) if hasattr(given, "detach") else out
