"""Trained models, from `scalewm train` or PyTorch's files, with encode, rollout and cost."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import numpy as np

from ._abi import Handle, call


def load(path: str | os.PathLike[str], *, threads: int = 0, key: str | None = None) -> Model:
    """Loads a checkpoint: the folder written by `scalewm train`, or a PyTorch checkpoint's with weights.pt and config.json.

    `threads` is the number of threads; 0 means one per core. `key` names the model in a file with several,
    such as "ema_state_dict". A warning says what else is in such a file, and which tensors are not the
    model's. Returns a `Model`.
    """
    model = Model(path, threads, key)
    for note in model._about["notes"]:
        warnings.warn(f"{model.path}: {note}", stacklevel=2)
    return model


class Model(Handle):
    """A world model in evaluation mode on the CPU, in float32, or a policy on the latents of one.

    Attributes:
        acts: whether it is a policy, with the method act. encode, rollout and cost are those of the world model.
        latent: shape of a latent: (D,), or (P, D) for P patches.
        action_width: values in a block of actions: `frame_skip` env steps' actions, concatenated.
        action_mean, action_std: moments by which actions are z-scored, per action component, or
            None if a PyTorch checkpoint does not have them.
        frame_size: width and height S of the frames in pixels.

    Actions are z-scores. Arrays may be NumPy's or torch's on the CPU. Their memory is used without a
    copy if dtype and layout fit, and results are of the same kind as the argument. `scalewm.evaluate`
    accepts such a model. Copies and pickles load the checkpoint again, and fail if it has changed.
    `close`, or the end of a `with` block, frees it.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int = 0, key: str | None = None) -> None:
        self._source = {"path": os.path.abspath(str(path)), "key": key or "", "threads": threads}
        self._open()

    def _open(self) -> None:
        about = call("model.load", 0, self._source)
        self._handle, self._about = about.pop("handle"), about
        info = about["info"]
        self.path, self.kind, self.method, self.task = self._source["path"], info["kind"], about["method"], about["task"]
        self.train_seed, self.weights, self.acts = about["train_seed"], about["weights"], about["policy"]
        self.frame_size, self.frame_skip, self.action_width, self.history = info["frame_size"], info["frame_skip"], info["action_width"], info["history"]
        self.latent: tuple[int, ...] = (info["dim"],) if info["patches"] == 1 else (info["patches"], info["dim"])
        self.action_mean = np.array(about["action_mean"]) if about["action_mean"] else None
        self.action_std = np.array(about["action_std"]) if about["action_std"] else None

    def encode(self, frames: Any) -> Any:
        """Returns the latents (..., *latent) float32 of frames (..., S, S, 3) uint8."""
        a = _numpy(frames)
        s = self.frame_size
        if a.dtype != np.uint8 or a.shape[-3:] != (s, s, 3):
            raise ValueError(f"encode needs frames (..., {s}, {s}, 3) of uint8, not {a.shape} of {a.dtype}")
        out = np.empty((*a.shape[:-3], *self.latent), np.float32)
        if a.size:
            call("model.encode", self._handle, None, (np.ascontiguousarray(a), out))
        return _like(frames, out)

    def act(self, observation: Any) -> np.ndarray:
        """Returns the z-scored actions (E, A) of a policy for an `Observation`, of which it reads frames, goals and left."""
        frames, goals = (np.ascontiguousarray(x, np.uint8) for x in (observation.frames, observation.goals))
        out = np.empty((len(frames), self.action_width // self.frame_skip), np.float32)
        call("model.act", self._handle, None, (frames, goals, np.ascontiguousarray(observation.left, np.int64), out))
        return out

    def rollout(self, start: Any, candidates: Any) -> Any:
        """Returns the latents (E, C, *latent) after the last block of candidates (E, C, H, A), from start latents (E, *latent)."""
        return self._predict(start, None, candidates)

    def cost(self, start: Any, goals: Any, candidates: Any) -> Any:
        """Returns the cost (E, C) that planning minimises: the squared distance of the last latent from the goal's, (E, *latent), summed, or, for DINO-WM, averaged."""
        return self._predict(start, goals, candidates)

    def _predict(self, start, goals, candidates):
        c = _numpy(candidates)
        if c.ndim != 4 or c.shape[-1] != self.action_width or not c.size:
            raise ValueError(f"candidates must have shape (E, C, H, {self.action_width}), not {c.shape}")
        episodes, n, blocks, _ = c.shape
        given = [("start", start)] + ([] if goals is None else [("goals", goals)])
        latents = []
        for what, x in given:
            x = _numpy(x)
            if x.shape != (episodes, *self.latent):
                raise ValueError(f"{what} must have shape {(episodes, *self.latent)}, not {x.shape}")
            latents.append(_float32(what, x))
        out = np.empty((episodes, n) if goals is not None else (episodes, n, *self.latent), np.float32)
        arrays = (latents[0], _float32("candidates", c), *latents[1:], out)
        call("model.rollout", self._handle, {"episodes": episodes, "candidates": n, "blocks": blocks}, arrays)
        return _like(candidates, out)

    def _words(self):
        return f"{self.path!r}: {self.method} of {self.task or 'an unknown task'}, latents {self.latent}, frames of {self.frame_size} px"


def _numpy(x):
    """Returns x as a NumPy array, sharing memory if x is a CPU tensor."""
    if hasattr(x, "detach"):
        x = x.detach()
        if x.device.type != "cpu":
            raise ValueError(f"the tensor is on {x.device} (hint: .cpu())")
        return x.numpy()
    return np.asarray(x)


def _float32(what, x):
    # The library reads contiguous float32; other numeric dtypes are converted.
    if x.dtype.kind not in "fiu":
        raise TypeError(f"{what} is {x.dtype}, not of numbers")
    return np.ascontiguousarray(x, np.float32)


def _like(given, out):
    """Returns out as a tensor if given is one."""
    return sys.modules["torch"].from_numpy(out) if hasattr(given, "detach") else out
