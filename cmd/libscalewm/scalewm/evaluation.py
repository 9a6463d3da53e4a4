"""Models in Python, evaluated by the paired protocol beside those of `scalewm train`."""

import contextlib
import numbers
import operator
import os
import sys

import numpy as np

from ._abi import Error, call
from ._abi import rules as _rules
from .identity import code_hash, held, is_module, state_hash
from .models import Model

# What an object has of each kind, by which it is known; stable-worldmodel's models have all of the first two.
_METHODS = {"cost": ("get_cost",), "world": ("encode", "rollout"), "policy": ("plan",)}


def evaluate(model, task, data, out, *, name, weights=None, train_seed=0, kind=None, proposal=None, frame_size=None,
             actions=None, solver="cem", tier="all", sets="all", episodes=100, batch=0, workers=0, fresh=False, progress=None, **rules):  # fmt: skip
    """Evaluates any object on a task's data set and writes the cells of `scalewm eval` into the results folder `out`.

    What the model is, its methods say (or `kind`, where it has several). E episodes are planned side by side, C candidates
    of H = 5 blocks each, A numbers a block: 5 actions one behind the other, as z-scores. Frames are uint8, (n, S, S, 3)
    with S = `frame_size` (or the object's attribute of that name).

    world   encode(frames) gives latents (n, ...); rollout(start, candidates) takes those of E episodes and
            (E, C, H, A), and gives the latents after the last block, (E, C, ...). The cost of a plan is the squared
            distance, summed, of that latent from the goal's.
    cost    get_cost(info, candidates) as stable-worldmodel's solvers call it, on the model's device: info has
            "pixels" and "goal", (1, C, 1, 3, S, S) normalised by ImageNet's mean and deviation, "action", "id" and "step_idx"; costs are
            (1, C). One episode at a time is asked for.
    policy  plan(frames, goals) gives plans (E, H, A), which are executed without a search.

    `proposal` is an object with propose(frames, goals), whose plans (E, H, A) are the first mean of the solver.
    `name` is the model's in tables; `weights` a SHA-256 that tells it and its proposal from others, by default `state_hash(model, proposal)`;
    `actions` are (mean, deviation) of its training's actions, by default the data set's. What `scalewm.load` gives says all three.
    The other arguments are the flags of `scalewm eval`; `solver`, `tier` and `sets` may be lists. `rules` are its settings, as protocol="strict",
    temperature=0.5 or planner_noise=1, with the flags' defaults. `progress(done, total, note)` is called as it goes.

    A cell is named by all of this and by a hash of the code of the model and its proposal. Existing cells are reused, and "notes" says when
    they were made, unless `fresh` replaces them: after an exception of the model's, or Ctrl-C, the same call continues.
    Gives {"cells": one line for each arm, solver and tier, "failed", "render_error", "notes"}. If everything failed, as with a model whose costs
    are all NaN, that is an `Error`.
    """
    if unknown := rules.keys() - _rules():
        raise TypeError(f"evaluate() got an unexpected keyword argument {min(unknown)!r} (hint: settings are {', '.join(sorted(_rules()))})")
    kind = _kind(model, kind)
    if proposal is not None and not callable(getattr(proposal, "propose", None)):
        raise TypeError(f"the proposal {type(proposal).__name__} has no method propose(frames, goals)")
    if isinstance(model, Model):
        train_seed, actions = train_seed or model.train_seed, actions or (model.action_mean, model.action_std)
    for x in held(model, proposal):
        if (x is model or x is proposal or is_module(x)) and getattr(x, "training", False):
            raise ValueError(f"the model is in training mode, with dropout and norms by batch: {type(x).__name__} is (hint: model.eval(), and the same of modules that the model holds)")
    frame_size = frame_size or getattr(model, "frame_size", None)
    if frame_size is None:
        raise TypeError("nothing says how large the model's frames are (hint: frame_size=224, or an attribute of the model)")
    whole = {"train_seed": train_seed, "frame_size": frame_size, "episodes": episodes, "batch": batch, "workers": workers}
    texts = {"name": name, "task": task, "data": data, "out": out, "weights": weights or state_hash(model, proposal)}
    whole, texts = ({what: _argument(what, x, of) for what, x in given.items()} for given, of in ((whole, operator.index), (texts, os.fsdecode)))
    rules = {what: _argument(what, x, _word) for what, x in rules.items()}
    lists = {what: _argument(what, x, _commas) for what, x in {"solver": solver, "tier": tier, "sets": sets}.items()}
    external = {"world": _World, "cost": _Cost, "policy": _Policy}[kind](model, proposal)
    mean, std = map(_floats, actions or (None, None))
    code = code_hash(model, proposal, frame_size=whole["frame_size"], actions=(mean, std) if rules.get("protocol") == "strict" else None)
    says = {"name": texts.pop("name"), "weights": texts.pop("weights"), "code": code, "train_seed": whole.pop("train_seed"), "kind": kind,
            "proposal": proposal is not None, "frame_size": whole["frame_size"], "action_mean": mean, "action_std": std,
            **external.probe(whole.pop("frame_size"))}  # fmt: skip
    handle = call("evaluate.new", 0, {"model": says, "rules": rules, "fresh": bool(fresh), **texts, **lists, **whole})["handle"]
    try:
        while (asked := call("evaluate.next", handle))["want"] != "done":
            if asked["want"] != "progress":
                _answer(external, asked, handle)
            elif progress:
                progress(asked["done"], asked["total"], asked["note"])
        outcome = asked["outcome"]
        if outcome["failed"] and not outcome["cells"]:
            raise Error("\n".join(outcome["failed"]))
        return outcome
    finally:
        call("close", handle)


def _answer(external, asked, handle):
    arrays = [np.empty(a["shape"], a["dtype"]) for a in asked["in"]]
    call("evaluate.take", handle, None, arrays)
    with _no_grad():
        answer = getattr(external, asked["want"])(tuple(asked["out"]), *arrays)
    call("evaluate.give", handle, None, () if answer is None else (np.ascontiguousarray(answer, np.float32),))


def _kind(model, kind):
    """The kind of a model: the one that is given, or the first whose methods it has."""
    if kind is not None and kind not in [*_METHODS]:
        raise ValueError(f"kind {kind!r} (hint: {', '.join(_METHODS)})")
    for k in [kind] if kind else _METHODS:
        if all(callable(getattr(model, m, None)) for m in _METHODS[k]):
            break
    else:
        wanted = "; ".join(f"{kind}: {', '.join(methods)}" for kind, methods in _METHODS.items())
        raise TypeError(f"{type(model).__name__} is no model{f' of kind {kind}' if kind else ''} (hint: it needs the methods of one kind: {wanted})")
    return k


def _argument(what, x, of):
    try:
        return of(x)
    except TypeError:
        raise TypeError(f"evaluate: {what}={x!r} (hint: {'a whole number' if of is operator.index else 'a text, or a list of them' if of is _commas else 'a text, a number, True or False' if of is _word else 'a text or a path'})") from None


def _commas(x):
    """Names as the command line has them, with commas, of one text or several."""
    return ",".join(map(os.fsdecode, x)) if isinstance(x, (list, tuple)) else os.fsdecode(x)


def _word(x):
    """A setting as the command line has it."""
    if isinstance(x, (bool, np.bool_)):
        return str(x).lower()
    return str(x) if isinstance(x, numbers.Real) else os.fsdecode(x)


def _floats(x):
    return None if x is None else np.asarray(x, np.float64).ravel().tolist()


def _no_grad():
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch else contextlib.nullcontext()


def _checked(what, x, shape, finite=True):
    """What a model gave, as an array of a shape; `...` stands for any dimensions."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.float().numpy() if x.is_floating_point() else x.numpy()
    x = np.asarray(x)
    if x.dtype.kind not in "fiu":
        raise TypeError(f"{what} gave {x.dtype}, not numbers")
    head = shape[:-1] if shape[-1:] == (...,) else shape
    if x.shape[: len(head)] != head or (head is shape and x.ndim != len(head)):
        raise ValueError(f"{what} gave shape {x.shape}, not {shape}".replace("Ellipsis", "..."))
    if finite and not np.isfinite(x).all():
        raise ValueError(f"{what} gave a number that is not finite")
    return x


class _External:
    """Answers questions to a model, eval/external has what they mean. The first argument is the shape of the answer."""

    def __init__(self, model, proposal):
        self.model, self.proposal = model, proposal

    def probe(self, frame_size):
        """What is to be known of the model before it is asked."""
        return {}

    def propose(self, shape, frames, goals):
        return _checked("propose", self.proposal.propose(frames, goals), shape)


class _World(_External):
    def probe(self, frame_size):
        try:
            with _no_grad():
                z = self.model.encode(np.zeros((2, frame_size, frame_size, 3), np.uint8))
        except (IndexError, KeyError, TypeError, AttributeError) as e:  # what code raises that looks for something else in an array
            raise TypeError(f"{type(self.model).__name__}.encode does not take frames (n, S, S, 3) of uint8, as that of kind world does: it raised {e!r} (hint: models of stable-worldmodel "
                            "take infos there; evaluate an object with their get_cost(info, candidates), or one whose encode and rollout call them)") from e  # fmt: skip
        z = _checked("encode", z, (2, ...))
        self.latent = z.shape[1:]
        if not self.latent:
            raise ValueError(f"encode gave shape {z.shape}, not (2, ...) with a latent for each frame")
        return {"patches": int(np.prod(self.latent[:-1])), "dim": self.latent[-1]}

    def encode(self, shape, frames):
        return _checked("encode", self.model.encode(frames), (len(frames), *self.latent))

    def rollout(self, shape, start, candidates):
        last = self.model.rollout(start.reshape(-1, *self.latent), candidates)
        return _checked("rollout", last, (*candidates.shape[:2], *self.latent), finite=False)


class _Policy(_External):
    def plan(self, shape, frames, goals):
        return _checked("plan", self.model.plan(frames, goals), shape)


class _Cost(_External):
    """One episode at a time, as stable-worldmodel's solvers do unless they are told otherwise and some of its models need.
    The infos of one plan live as long as it does, since models keep what they encoded in them."""

    def __init__(self, model, proposal):
        super().__init__(model, proposal)
        import torch

        like = next(iter(model.parameters()), torch.zeros(())) if hasattr(model, "parameters") else torch.zeros(())
        self.to, self.plans = {"device": like.device, "dtype": like.dtype}, 0

    def begin(self, shape, frames, goals):
        self.frames, self.goals, self.infos = frames, goals, None

    def cost(self, shape, candidates):
        import torch

        c = torch.from_numpy(candidates).to(**self.to)
        if self.infos is None:
            self.infos = [self._info(i, *c.shape[1::2]) for i in range(len(c))]
        return np.concatenate([_checked("get_cost", self.model.get_cost(info, c[i : i + 1]), (1, *shape[1:]), finite=False) for i, info in enumerate(self.infos)])

    def _info(self, i, candidates, width):
        """What the field's solvers hand over for episode i, repeated for each candidate. No two plans have the same `id`."""
        import torch

        self.plans += 1
        own = {"pixels": self._pixels(self.frames[i]), "goal": self._pixels(self.goals[i]), "action": torch.zeros((1, 1, width), **self.to),
               "id": torch.tensor([[self.plans - 1]]), "step_idx": torch.zeros((1, 1), dtype=torch.int64)}  # fmt: skip
        return {key: x.unsqueeze(1).expand(-1, candidates, *x.shape[1:]) for key, x in own.items()}

    def _pixels(self, frame):
        """A frame as the field's policies normalise it, (1, 1, 3, S, S)."""
        import torch

        x = torch.from_numpy(frame[None]).to(self.to["device"]).permute(0, 3, 1, 2).to(self.to["dtype"]) / 255
        mean, std = (torch.tensor(v, **self.to).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        return ((x - mean) / std).unsqueeze(1)
