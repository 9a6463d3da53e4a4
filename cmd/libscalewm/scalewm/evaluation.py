"""Evaluation of models in Python by the paired protocol, together with those of `scalewm train`."""

from __future__ import annotations

import contextlib
import numbers
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ._abi import Error, call
from ._abi import rules as _rules
from .identity import code_hash, is_composed, is_module, reachable, state_hash, unwrapped
from .models import Model
from .worlds import names

# The methods of each kind of model, by which the kind is recognised. Models of stable-worldmodel have
# those of the first two, hence the order.
_METHODS = {"cost": [("get_cost",)], "world": [("encode", "rollout")], "policy": [("act",), ("plan",)]}


class Observation(NamedTuple):
    """What the method act of a policy receives: E episodes, whose actions have A values. The arrays belong to the policy."""

    ids: np.ndarray  # (E,) int64: the same for an episode in all calls, and in the call of reset before the first; their values mean nothing
    frames: np.ndarray  # (E, S, S, 3) uint8: current frames
    goals: np.ndarray  # (E, S, S, 3) uint8: that of an id never changes, so its encoding can be cached by id
    step: np.ndarray  # (E,) int64: env steps taken
    left: np.ndarray  # (E,) int64: env steps left of the budget
    previous: np.ndarray  # (E, A) float64: last executed action in the task's units; zeros before the first
    previous_z: np.ndarray  # (E, A) float32: the same as z-scores
    mean: np.ndarray  # (A,) float64: an action in the task's units is mean + std * z-score
    std: np.ndarray  # (A,) float64
    low: np.ndarray  # (A,) float64: bounds of actions in the task's units
    high: np.ndarray  # (A,) float64
    noise: np.ndarray  # (E,) uint64: keys for random draws: np.random.default_rng((noise[i], step[i]))



def evaluate(model: Any, task: str | None = None, data: str | os.PathLike[str] | None = None, out: str | os.PathLike[str] | None = None, *, name: str | None = None,
             weights: str | None = None, train_seed: int = 0, kind: str | None = None, proposal: Any = None, frame_size: int | None = None, actions: Any = None,
             solver: str | Iterable[str] | None = None, tier: str | Iterable[str] | None = None, sets: str | Iterable[str] | None = None, episodes: int | None = None,
             batch: int = 0, workers: int = 0, fresh: bool = False, progress: Callable[[int, int, str], object] | None = None,
             world: Callable[[], Any] | None = None, set_state: Any = None, observe: Callable[[Any], Mapping[str, Any]] | None = None,
             frame: Callable[[Any], Any] | None = None, success: Callable[[Any, Mapping[str, Any]], bool] | None = None,
             goal: Callable[[Any, np.random.Generator], Mapping[str, Any]] | None = None, deterministic: bool = True, timeout: float = 60.0,
             **rules: Any) -> dict[str, Any]:  # fmt: skip
    """Evaluates an object on a task's data set and writes cells of `scalewm eval` to the results folder `out`.

    The kind of model follows from its methods, or from `kind` if it has several. E episodes are
    planned together, with C candidates each. A plan has H = 5 blocks of A values: the z-scored actions of
    5 env steps, concatenated. Frames are uint8, (n, S, S, 3), where S is `frame_size` or the object's
    attribute of that name.

    world   encode(frames) returns latents (n, ...). rollout(start, candidates) receives those of E
            episodes and candidates (E, C, H, A), and returns the latents after the last block, (E, C,
            ...). The cost of a plan is the squared distance of that latent from the goal's, summed.
    cost    get_cost(info, candidates), called as stable-worldmodel's solvers call it, on the model's
            device, for one episode at a time. info has "pixels" and "goal", (1, C, 1, 3, S, S) normalised by
            ImageNet's mean and deviation, "action", "id" and "step_idx". Costs are (1, C). A model whose
            encode and rollout take such infos, as stable-worldmodel's do, is of this kind: its cost is
            that of stable-worldmodel's ShootingCostEvaluator(model, GoalMSE()).
    policy  act(observation) receives an `Observation`, and returns one z-scored action for each episode, (E, values
            of an action), or k blocks, (E, k, A). It is called again when these have been executed. reset(ids), if
            there is one, is called before the first act of these episodes.
    policy  plan(frames, goals) returns plans (E, H, A), which are executed without a search.

    With `world`, the task is any gymnasium environment, which runs in this process, or in `workers`
    processes. `row` and `goal` are dicts of the data set's columns. Without `data`, an episode starts
    with reset(seed=...) of the environment.

    Args:
        model: an object of one of these kinds, or "random" for uniform random actions.
        world: a function that returns a new gymnasium.Env. `task` is then its name in tables.
        set_state: function set_state(env, row) that sets an environment to a recorded state. Entries goal_NAME
            of the row are columns of the goal. Or a list of methods to call, in the format of
            stable-worldmodel's evaluation configs. By default one of reset(options={"state": ...}),
            env.unwrapped.set_state, and _set_state and _set_goal_state.
        observe: function observe(env) that returns a dict of numbers, by default observation, info, qpos and
            qvel. The replay gate compares those that have the name of a column.
        frame: function frame(env) that returns the picture (S, S, 3) uint8, by default env.render().
        success: function success(env, goal) that says whether the state meets the goal, by default
            terminated, or success or is_success in the info.
        goal: function goal(env, rng) that returns a dict with the goal of an episode that was just
            reset, and its picture as "pixels". Without `data` only.
        deterministic: False accepts a world that answers the same actions differently, and marks the cells.
        timeout: seconds that an environment in another process may take for a step.
        proposal: an object with propose(frames, goals), whose plans (E, H, A) are the initial mean of
            the solver.
        name: name of the model in tables; required, except for random actions.
        weights: SHA-256 that identifies model and proposal; default `state_hash(model, proposal)`.
        actions: (mean, deviation) of the actions in the model's training data; default the data set's.
        solver, tier, sets: a name or a list of names; default the protocol's, or "cem", "all" and "all".
        episodes: number of each set; default the protocol's, or 100.
        progress: function progress(done, total, note), called during the evaluation.
        rules: settings of `scalewm eval`, for example protocol="strict", temperature=0.5 or
            planner_noise=1, with the defaults of the flags.

    The other arguments are the flags of `scalewm eval`. A model from `scalewm.load` provides weights,
    actions and frame size itself; a policy among them acts without a search.

    A cell is named by all of this and by a hash of the code of model and proposal. Existing cells are
    reused, and "notes" says when they were computed, unless `fresh` replaces them. After an exception of
    the model, or Ctrl-C, the same call continues.

    Returns {"cells": one entry per arm, solver and tier, "failed", "render_error", "notes"}. If
    everything failed, for example because all costs were NaN, it raises `Error`.
    """
    if unknown := rules.keys() - _rules():
        raise TypeError(f"evaluate() got an unexpected keyword argument {min(unknown)!r} (hint: settings are {', '.join(sorted(_rules()))})")
    own = {"set_state": set_state, "observe": observe, "frame": frame, "success": success, "goal": goal}
    if world is None and (given := [what for what, f in own.items() if f is not None]):
        raise TypeError(f"evaluate: {given[0]}= is for a world of yours (hint: world=, a function that returns a gymnasium.Env)")
    if out is None or world is None and (task is None or data is None):
        raise TypeError("evaluate: out is missing" if out is None else "evaluate: task or data is missing (hint: world= evaluates in any gymnasium environment)")
    says, external = _subject(model, name, kind, proposal, frame_size, actions, weights, train_seed, rules)
    integers = {"episodes": 0 if episodes is None else episodes, "batch": batch, "workers": workers}
    texts = {"task": task or "", "data": "" if data is None else data, "out": out}
    integers, texts = ({what: _argument(what, x, of) for what, x in given.items()} for given, of in ((integers, operator.index), (texts, os.fsdecode)))
    if episodes is not None and integers["episodes"] < 1:
        raise Error(f"evaluate: episodes={episodes}: a set has at least one")
    rules = {what: _argument(what, x, _word) for what, x in rules.items()}
    lists = {what: _argument(what, x, _commas) for what, x in {"solver": solver, "tier": tier, "sets": sets}.items() if x is not None}
    request = {"model": says, "rules": rules, "fresh": bool(fresh), **texts, **lists, **integers}
    with _simulated(world, integers["workers"], deterministic, timeout, own) as simulated:
        if simulated:
            request |= {"world": simulated.description(texts["task"]), "workers": 0}
        # From here on the evaluation runs in the library, and this loop answers its questions.
        handle = call("evaluate.new", 0, request)["handle"]
        try:
            while (asked := call("evaluate.next", handle))["want"] != "done":
                if asked["want"] != "progress":
                    _answer(external, simulated, asked, handle)
                elif progress:
                    progress(asked["done"], asked["total"], asked["note"])
        finally:
            call("close", handle)
    outcome = asked["outcome"]
    if outcome["failed"] and not outcome["cells"]:
        raise Error("\n".join(outcome["failed"]))
    return outcome


def _subject(model, name, kind, proposal, frame_size, actions, weights, train_seed, rules):
    """Returns what the library needs to know of a model, and the object that answers questions with it."""
    if isinstance(model, str):
        if model != "random":
            raise TypeError(f"evaluate: model={model!r} (hint: scalewm.load({model!r}), or \"random\")")
        return {"kind": "random", "name": "random"}, None
    if name is None:
        raise TypeError("evaluate: name=None (hint: the name of the model in tables)")
    model = unwrapped(model)  # DataParallel has none of the methods
    kind = _kind(model, kind)
    acts = kind == "policy" and _has(model, ("act",))
    if proposal is not None and not callable(getattr(proposal, "propose", None)):
        raise TypeError(f"the proposal {type(proposal).__name__} has no method propose(frames, goals)")
    if isinstance(model, Model):
        train_seed, actions = train_seed or model.train_seed, (model.action_mean, model.action_std) if actions is None else actions
    for x in reachable(model, proposal):
        if (x is model or x is proposal or is_module(x)) and getattr(x, "training", False) and not is_composed(x):
            raise ValueError(f"the model is in training mode, with dropout and batch statistics: {type(x).__name__} (hint: call model.eval(), and eval() of modules that the model refers to)")
    frame_size = frame_size or getattr(model, "frame_size", None)
    if frame_size is None:
        raise TypeError("the size of the model's frames is unknown (hint: frame_size=224, or an attribute of the model)")
    frame_size, train_seed = (_argument(what, x, operator.index) for what, x in {"frame_size": frame_size, "train_seed": train_seed}.items())
    name, weights = (_argument(what, x, os.fsdecode) for what, x in {"name": name, "weights": weights or state_hash(model, proposal)}.items())
    kind, external, shape = _external(kind, model, proposal, frame_size)
    mean, std = map(_floats, (None, None) if actions is None else actions)
    code = code_hash(model, proposal, frame_size=frame_size, actions=None if rules.get("protocol", "paper") == "paper" else (mean, std), **({"acts": True} if acts else {}))
    return {"name": name, "weights": weights, "code": code, "train_seed": train_seed, "kind": kind, "acts": acts, "proposal": proposal is not None,
            "frame_size": frame_size, "action_mean": mean, "action_std": std, **shape}, external  # fmt: skip


@contextlib.contextmanager
def _simulated(world, workers, deterministic, timeout, functions):
    """Yields the copies of a user's world, None without one, and closes them."""
    if world is None:
        yield None
        return
    from .world import World

    with contextlib.closing(World(world, workers=workers, deterministic=bool(deterministic), timeout=timeout, **functions)) as simulated:
        yield simulated


def _answer(external, simulated, asked, handle):
    """Calls the model or the world for a question and passes the answer to the library."""
    arrays = [np.empty(a["shape"], a["dtype"]) for a in asked["in"]]
    call("evaluate.take", handle, None, arrays)
    if asked["want"].startswith("world."):
        call("evaluate.give", handle, None, tuple(simulated.answer(asked, arrays)))
        return
    with _no_grad():
        answer = getattr(external, asked["want"])(tuple(asked["out"]), *arrays)
    call("evaluate.give", handle, None, () if answer is None else (np.ascontiguousarray(answer, np.float32),))


def _kind(model, kind):
    """Returns the kind of a model: the given one, or the first whose methods the model has."""
    if kind is not None and kind not in [*_METHODS]:
        raise ValueError(f"kind {kind!r} (hint: {', '.join(_METHODS)})")
    if kind is None and isinstance(model, Model):
        return "policy" if model.acts else "world"
    for k in [kind] if kind else _METHODS:
        if any(_has(model, methods) for methods in _METHODS[k]):
            break
    else:
        wanted = "; ".join(f"{kind}: {' or '.join(map(', '.join, methods))}" for kind, methods in _METHODS.items())
        raise TypeError(f"{type(model).__name__} is not a model{f' of kind {kind}' if kind else ''} (hint: it needs the methods of one kind: {wanted})")
    return k


def _has(model, methods):
    return all(callable(getattr(model, m, None)) for m in methods)


def _external(kind, model, proposal, frame_size):
    """Returns the kind of a model, the object that answers questions with it, and the shape of a world's latents."""
    if kind != "world":
        return kind, (_Cost if kind == "cost" else _Policy)(model, proposal), {}
    try:
        with _no_grad():
            z = model.encode(np.zeros((2, frame_size, frame_size, 3), np.uint8))
    except Exception as e:
        if "torch" in sys.modules:
            with _no_grad():
                external = _Shooting(model, proposal)
                if external.takes_infos(frame_size):
                    return "cost", external, {}
        if not isinstance(e, (IndexError, KeyError, TypeError, AttributeError)):  # those of code that expects another argument
            raise
        raise TypeError(f"{type(model).__name__}.encode accepts neither frames (n, S, S, 3) of uint8 nor an info with nothing but pixels: it raised {e!r} (hint: for a model of stable-worldmodel with "
                        "other encoders, write scalewm.evaluate(ShootingCostEvaluator(model, GoalMSE('predicted_pixels_emb', 'pixels_goal_emb')), ...), both from stable_worldmodel.planning)") from e  # fmt: skip
    z = _checked("encode", z, (2, ...))
    if z.ndim < 2:
        raise ValueError(f"encode returned shape {z.shape}, not (2, ...) with a latent for each frame")
    return kind, _World(model, proposal, z.shape[1:]), {"patches": int(np.prod(z.shape[1:-1])), "dim": z.shape[-1]}


def _argument(what, x, of):
    """Converts an argument with the function `of`, and names the argument in the error."""
    try:
        return of(x)
    except TypeError:
        raise TypeError(f"evaluate: {what}={x!r} (hint: {'an integer' if of is operator.index else 'a text, or a list of them' if of is _commas else 'a text, a number, True or False' if of is _word else 'a text or a path'})") from None


def _commas(x):
    """Converts one or several names to the command line's notation, separated by commas."""
    return os.fsdecode(x) if isinstance(x, (bytes, os.PathLike)) else ",".join(map(os.fsdecode, names(x)))


def _word(x):
    """Converts a setting to the command line's notation."""
    if isinstance(x, (bool, np.bool_)):
        return str(x).lower()
    return str(x) if isinstance(x, numbers.Real) else os.fsdecode(x)


def _floats(x):
    return None if x is None else np.asarray(x, np.float64).ravel().tolist()


def _no_grad():
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch else contextlib.nullcontext()


def _checked(what, x, shape, finite=True):
    """Checks a result of the model and returns it as an array. A shape may end with `...` for any further dimensions."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.float().numpy() if x.is_floating_point() else x.numpy()
    x = np.asarray(x)
    if x.dtype.kind not in "fiu":
        raise TypeError(f"{what} returned {x.dtype}, not numbers")
    head = shape[:-1] if shape[-1:] == (...,) else shape
    if x.shape[: len(head)] != head or (head is shape and x.ndim != len(head)):
        raise ValueError(f"{what} returned shape {x.shape}, not {shape}".replace("Ellipsis", "..."))
    if finite and not np.isfinite(x).all():
        raise ValueError(f"{what} returned a number that is not finite")
    return x


class _External:
    """Answers the questions of an evaluation, which eval/external defines, with a model. Methods are named after questions; their first argument is the shape of the answer."""

    def __init__(self, model, proposal):
        self.model, self.proposal = model, proposal

    def propose(self, shape, frames, goals):
        return _checked("propose", self.proposal.propose(frames, goals), shape)


class _World(_External):
    def __init__(self, model, proposal, latent):
        super().__init__(model, proposal)
        self.latent = latent

    def encode(self, shape, frames):
        return _checked("encode", self.model.encode(frames), (len(frames), *self.latent))

    def rollout(self, shape, start, candidates):
        last = self.model.rollout(start.reshape(-1, *self.latent), candidates)
        return _checked("rollout", last, (*candidates.shape[:2], *self.latent), finite=False)


class _Policy(_External):
    def plan(self, shape, frames, goals):
        return _checked("plan", self.model.plan(frames, goals), shape)

    def reset(self, shape, ids):
        if _has(self.model, ("reset",)):
            self.model.reset(ids)

    def act(self, shape, *fields):
        seen, (episodes, horizon, width) = Observation(*fields), shape
        z, one = _checked("act", self.model.act(seen), (...,)), seen.previous.shape
        if z.shape != one and not (z.ndim == 3 and len(z) == episodes and 1 <= z.shape[1] <= horizon and z.shape[2] == width):
            raise ValueError(f"act returned shape {z.shape} (hint: {one} for one action of each episode, or {(episodes, 'k', width)} for k blocks, k from 1 to {horizon})".replace("'", ""))
        return z


class _Cost(_External):
    """Calls get_cost for one episode at a time, which is the default of stable-worldmodel's solvers and required by some of its models.

    The infos of a plan live as long as the plan, because models cache encodings in them.
    """

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
        return np.concatenate([_checked("get_cost", self._cost_of(i, c[i : i + 1]), (1, *shape[1:]), finite=False) for i in range(len(c))])

    def _cost_of(self, i, candidates):
        try:
            return self._get_cost(self.infos[i], candidates)
        except AssertionError:  # PreJEPA keeps the encoding of one episode, and encodes another one only into an info without encodings
            self.infos[i] = self._info(i, *candidates.shape[1::2])
            return self._get_cost(self.infos[i], candidates)

    def _get_cost(self, info, candidates):
        return self.model.get_cost(info, candidates)

    def _info(self, i, candidates, width):
        """Returns what stable-worldmodel's solvers pass for episode i, repeated for each candidate. Every plan has a different `id`."""
        import torch

        self.plans += 1
        own = {"pixels": self._pixels(self.frames[i]), "goal": self._pixels(self.goals[i]), "action": torch.zeros((1, 1, width), **self.to),
               "id": torch.tensor([[self.plans - 1]]), "step_idx": torch.zeros((1, 1), dtype=torch.int64)}  # fmt: skip
        return {key: x.unsqueeze(1).expand(-1, candidates, *x.shape[1:]) for key, x in own.items()}

    def _pixels(self, frame):
        """Returns a frame normalised as by stable-worldmodel's policies, (1, 1, 3, S, S)."""
        import torch

        x = torch.from_numpy(frame[None]).to(self.to["device"]).permute(0, 3, 1, 2).to(self.to["dtype"]) / 255
        mean, std = (torch.tensor(v, **self.to).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        return ((x - mean) / std).unsqueeze(1)

    def takes_infos(self, frame_size):
        """Returns whether the model's encode takes an info with pixels and returns one with latents "emb"."""
        try:
            info = self.model.encode({"pixels": self._pixels(np.zeros((frame_size, frame_size, 3), np.uint8))})
        except Exception:  # the caller reports the exception of the first attempt
            return False
        return isinstance(info, dict) and hasattr(info.get("emb"), "detach")


class _Shooting(_Cost):
    """Plans with a model whose encode and rollout take infos: a plan costs the squared distance of its last latent from the goal's, summed."""

    def _get_cost(self, info, candidates):
        if "goal_emb" not in info:
            info["goal_emb"] = self.model.encode({"pixels": info["goal"][:, 0]})["emb"][:, None, -1]
        last = self.model.rollout(info, candidates)["predicted_emb"][:, :, -1]
        return (last - info["goal_emb"]).square().flatten(2).sum(2)
