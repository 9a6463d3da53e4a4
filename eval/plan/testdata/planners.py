"""Writes FOLDER/planners_*/reference.h5: plans of the original CEM, iCEM, MPPI and gradient solvers.

Made with stable-worldmodel 0.1.1, torch 2.15.0, h5py 3.16.0 and NumPy 2.4.6:
    python planners.py               the small cases of reference/
    python planners.py FOLDER SEED   sixty larger ones with other numbers
The solvers are the original's own. Only torch.randn is replaced: its draws are
rounded to float16, so that the files stay small, and recorded; torch.topk and
the cost are watched.
"""

import pathlib
import sys

import gymnasium as gym
import h5py
import numpy as np
import torch
from stable_worldmodel.policy import PlanConfig
from stable_worldmodel.solver.cem import CEMSolver
from stable_worldmodel.solver.gd import GradientSolver
from stable_worldmodel.solver.icem import ICEMSolver
from stable_worldmodel.solver.mppi import MPPISolver

torch.set_num_threads(1)
plain_randn, plain_topk = torch.randn, torch.topk
NAMES = ("elite_index", "elite_cost", "mean", "std")


class Cost:
    """sum w (c - target)^2 + amp sum (1 - cos(freq_d c + phase_h)) + 0.1 sum_h (sum_d c)^2, in float64, rounded once."""

    def __init__(self, w, freq, amp):
        self.w, self.freq, self.amp, self.seen = w, freq, amp, []

    def get_cost(self, info, candidates):
        c = candidates.double()
        target, phase = info["target"].double(), info["phase"].double()
        cost = (self.w * (c - target) ** 2).sum((-1, -2))
        cost = cost + self.amp * (1 - torch.cos(self.freq * c + phase.unsqueeze(-1))).sum((-1, -2))
        cost = (cost + 0.1 * (c.sum(-1) ** 2).sum(-1)).float()
        self.seen.append((candidates.detach().numpy().copy(), cost.detach().numpy().copy()))
        return cost


class Recorder:
    """The draws, and what each iteration made of them, in the order of the callbacks."""

    output_key = "recorder"

    def __init__(self):
        self.noise, self.rows, self.picked, self.history = [], [], [], []

    def randn(self, *shape, **kw):
        z = plain_randn(*shape, **kw).half()
        self.noise.append(z.numpy())
        return z.float()

    def topk(self, *args, **kw):
        out = plain_topk(*args, **kw)
        self.picked.append([x.numpy().copy() for x in (out[1], out[0])])
        return out

    def reset(self):
        pass

    start_batch = end_batch = end_solve = reset

    def __call__(self, *, topk_vals=None, topk_inds=None, mean=None, var=None, **_):
        if topk_vals is not None:
            self.rows.append([x.numpy().copy() for x in (topk_inds, topk_vals, mean, var)])


def mppi_rows(recorder, cost, final, iterations, std):
    """MPPI has no callbacks: the mean after an iteration is the next one's candidate 0, or the result."""
    rows, e = [], 0
    for i, (_, costs) in enumerate(cost.seen):
        last = i % iterations == iterations - 1
        mean = final[e : e + len(costs)] if last else cost.seen[i + 1][0][:, 0]
        e += len(costs) if last else 0
        if recorder.picked:
            picked = recorder.picked[i]
        else:
            order = np.argsort(costs, 1, kind="stable")
            picked = [order, np.take_along_axis(costs, order, 1)]
        rows.append([*picked, mean, np.full_like(mean, std)])
    return rows


def make(kind, cost, envs, batch, samples, iterations, elites, recorder, extra):
    common = dict(batch_size=batch, num_samples=samples, n_steps=iterations, seed=1234)
    extra = dict(extra)
    if kind == "gd":
        extra.setdefault("var_scale", 1)
        return GradientSolver(cost, optimizer_cls=torch.optim.AdamW, optimizer_kwargs={"lr": extra.pop("lr", 0.1)}, **common, **extra)
    if kind == "mppi":
        return MPPISolver(cost, topk=elites, **common, **extra)
    return {"cem": CEMSolver, "icem": ICEMSolver}[kind](cost, topk=elites, callbacks=[recorder], **common, **extra)


def run(file, name, rng, *, kind, horizon=5, action_dim=2, block=5, samples=10, iterations=3, elites=2, envs=2, batch=1,
        receding=None, plans=1, low=None, high=None, scale=1.0, **extra):
    """One configuration; extra are the solver's own options, attributes only where given. scale multiplies the cost."""
    group, d, receding = file.create_group(name), action_dim * block, receding or horizon
    group.attrs.update(dict(kind=kind, horizon=horizon, action_dim=action_dim, action_block=block, samples=samples,
                            iterations=iterations, receding=receding, environments=envs, solver_batch=batch), **extra)
    if elites:
        group.attrs["elites"] = elites
    low, high = (np.asarray(x, np.float32) for x in (low or [-1] * action_dim, high or [1] * action_dim))
    group["action_low"], group["action_high"] = low, high
    cost = Cost(torch.tensor(scale * rng.uniform(0.5, 2, d)), torch.tensor(rng.uniform(1, 4, d)), 0.3 * scale)
    group["cost/w"], group["cost/freq"] = cost.w.numpy(), cost.freq.numpy()
    group["cost"].attrs["amp"] = cost.amp
    recorder = Recorder()
    solver = make(kind, cost, envs, batch, samples, iterations, elites, recorder, extra)
    space = gym.spaces.Box(np.tile(low, (envs, 1)), np.tile(high, (envs, 1)), (envs, action_dim), np.float32)
    solver.configure(action_space=space, n_envs=envs, config=PlanConfig(horizon=horizon, receding_horizon=receding, action_block=block))
    init = None
    for p in range(plans):
        target = torch.tensor(rng.normal(0, 1, (envs, horizon, d)), dtype=torch.float32)
        phase = torch.tensor(rng.uniform(0, 6, (envs, horizon)), dtype=torch.float32)
        recorder.noise, recorder.rows, recorder.picked, cost.seen = [], [], [], []
        torch.randn = recorder.randn
        if kind == "mppi":
            torch.topk = recorder.topk
        try:
            out = solver.solve({"target": target, "phase": phase}, init)
        finally:
            torch.randn, torch.topk = plain_randn, plain_topk
        write(group.create_group(f"plan{p}"), kind, recorder, cost, out, iterations, dict(target=target, phase=phase, init=init),
              extra.get("var_scale", 1))
        init = out["actions"][:, receding:] if receding < horizon else None


def write(g, kind, recorder, cost, out, iterations, inputs, std):
    def stack(slices):  # (slices x iterations) of (batch, ...) -> (iterations, envs, ...)
        return np.stack([np.concatenate(slices[i::iterations]) for i in range(iterations)])

    packed = dict(compression="gzip", shuffle=True)
    g["target"], g["phase"] = inputs["target"].numpy(), inputs["phase"].numpy()
    if inputs["init"] is not None:
        g["init_action"] = inputs["init"].numpy()
    g["final_actions"] = out["actions"].numpy()
    if kind == "gd":  # sample 0 is not drawn; all environments are drawn at once
        noise = recorder.noise[0]
        g.create_dataset("noise", data=np.concatenate([np.zeros_like(noise[:, :1]), noise], 1)[None], **packed)
        costs = stack([c for _, c in cost.seen])
        g["costs"], g["reported_cost"] = costs, costs[-1].min(1)
        return
    rows = recorder.rows if kind != "mppi" else mppi_rows(recorder, cost, out["actions"].numpy(), iterations, std)
    g.create_dataset("noise", data=stack(recorder.noise), **packed)
    for i, name in enumerate(NAMES):
        g[name] = stack([r[i] for r in rows])
    g["reported_cost"] = np.array(out["costs"], np.float32)


def small(file, rng):
    run(file, "cem_t3", rng, kind="cem", samples=50, iterations=10, elites=5)
    run(file, "cem_t5", rng, kind="cem", batch=2)
    run(file, "cem_warm", rng, kind="cem", horizon=4, action_dim=3, block=2, samples=40, iterations=6, elites=8, receding=1, plans=3, var_scale=0.7)
    run(file, "icem_t5", rng, kind="icem", batch=2)
    run(file, "icem_t4", rng, kind="icem", samples=20, iterations=5, plans=2)
    run(file, "icem_warm", rng, kind="icem", horizon=4, action_dim=3, block=2, samples=30, iterations=5, elites=6, receding=2, plans=2,
        low=[-1, -0.8, -1.5], high=[1, 0.8, 0.4], var_scale=0.7, alpha=0.3, noise_beta=1.0, n_elite_keep=3)
    run(file, "icem_elite", rng, kind="icem", horizon=2, block=3, samples=24, iterations=4, elites=4, alpha=0.0, n_elite_keep=0, return_mean=False)
    run(file, "icem_flat", rng, kind="icem", horizon=3, block=1, samples=12, iterations=4, elites=3, envs=3, noise_beta=0.0, n_elite_keep=9)
    run(file, "mppi_t5", rng, kind="mppi", batch=2)
    run(file, "mppi_warm", rng, kind="mppi", horizon=4, action_dim=3, block=2, samples=40, iterations=5, elites=10, receding=1, plans=2,
        var_scale=0.7, temperature=4.0)
    run(file, "mppi_all", rng, kind="mppi", horizon=3, block=2, samples=24, iterations=4, elites=None, temperature=32.0, scale=8.0)
    run(file, "gd_t5", rng, kind="gd", batch=2)
    run(file, "gd_warm", rng, kind="gd", horizon=3, block=2, samples=6, iterations=20, receding=1, plans=2, var_scale=0.5, lr=0.05)


def many(file, rng):
    def pick(*x):
        return rng.choice(x).item()

    for i in range(60):
        kind = ("cem", "icem", "icem", "mppi", "mppi")[i % 5]
        samples = pick(10, 20, 50, 150, 300)
        a, horizon = pick(2, 5, 1), pick(2, 3, 5, 6, 7) if kind == "icem" else pick(1, 2, 3, 5, 6)
        extra = dict(var_scale=pick(0.5, 1.0, 2.0)) if pick(0, 1) else {}
        if kind == "icem" and pick(0, 1):
            extra.update(alpha=pick(0.0, 0.1, 0.6), noise_beta=pick(0.0, 0.5, 2.0, 3.5), n_elite_keep=pick(0, 1, 5), return_mean=bool(pick(0, 1)))
        if kind == "mppi":
            extra.update(temperature=pick(0.5, 2.0, 32.0, 256.0))
        high = [pick(0.5, 1.0, 2.0) for _ in range(a)]
        run(file, f"{kind}_{i:02d}", rng, kind=kind, horizon=horizon, action_dim=a, block=pick(1, 2, 5), samples=samples, iterations=pick(3, 5, 15),
            elites=None if kind == "mppi" and pick(0, 0, 1) else max(round(0.1 * samples), 2), envs=pick(1, 2, 5), batch=pick(1, 2),
            receding=pick(1, horizon), plans=pick(1, 2), low=[-x for x in high], high=high, scale=pick(1.0, 10.0), **extra)


def filters(file):
    """The factors of the original's filter, in its own steps."""
    for h in (2, 3, 4, 5, 10):
        for beta in (0.0, 0.5, 2.0, 3.5):
            f = torch.fft.rfftfreq(h).to(torch.float32)
            f[0] = 1.0
            f = f.pow(-beta / 2)
            f[0] = f[1]
            file[f"icem_filter/H{h}_beta{beta}"] = f.numpy()


folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "reference"
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 3
path = folder / ("planners_small" if len(sys.argv) < 2 else f"planners_many{seed}") / "reference.h5"
path.parent.mkdir(parents=True, exist_ok=True)
with h5py.File(path, "w", libver=("v108", "v110")) as f:
    (small if len(sys.argv) < 2 else many)(f, np.random.default_rng(seed))
    filters(f)
