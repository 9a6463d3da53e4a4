"""Writes reference/planners_small/reference.h5: plans of the original CEM solver.

Made with stable-worldmodel 0.1.1, torch 2.15.0, h5py 3.16.0 and NumPy 2.4.6:  python planners.py
The solver is the original's own, torch.randn apart, whose draws are rounded to
float16 so that the file stays small, and recorded.
"""

import pathlib

import gymnasium as gym
import h5py
import numpy as np
import torch
from stable_worldmodel.policy import PlanConfig
from stable_worldmodel.solver.cem import CEMSolver

torch.set_num_threads(1)
plain_randn = torch.randn


class Cost:
    """sum w (c - target)^2 + amp sum (1 - cos(freq_d c + phase_h)) + 0.1 sum_h (sum_d c)^2, in float64, rounded once."""

    def __init__(self, w, freq, amp):
        self.w, self.freq, self.amp = w, freq, amp

    def get_cost(self, info, candidates):
        c = candidates.double()
        target, phase = info["target"].double(), info["phase"].double()
        cost = (self.w * (c - target) ** 2).sum((-1, -2))
        cost = cost + self.amp * (1 - torch.cos(self.freq * c + phase.unsqueeze(-1))).sum((-1, -2))
        return (cost + 0.1 * (c.sum(-1) ** 2).sum(-1)).float()


class Recorder:
    """The draws and what each iteration made of them, in the order of the callbacks."""

    output_key = "recorder"

    def __init__(self):
        self.noise, self.rows, self.history = [], [], []

    def randn(self, *shape, **kw):
        z = plain_randn(*shape, **kw).half()
        self.noise.append(z.numpy())
        return z.float()

    def reset(self):
        pass

    start_batch = end_batch = end_solve = reset

    def __call__(self, *, topk_vals, topk_inds, mean, var, **_):
        self.rows.append([x.numpy().copy() for x in (topk_inds, topk_vals, mean, var)])


def run(group, rng, *, horizon, action_dim, block, samples, iterations, elites, envs, batch, receding, plans, var_scale=None):
    d = action_dim * block
    attrs = dict(kind="cem", horizon=horizon, action_dim=action_dim, action_block=block, samples=samples, iterations=iterations,
                 elites=elites, receding=receding, environments=envs, solver_batch=batch)
    if var_scale is not None:
        attrs["var_scale"] = var_scale
    group.attrs.update(attrs)
    cost = Cost(torch.tensor(rng.uniform(0.5, 2, d)), torch.tensor(rng.uniform(1, 4, d)), 0.3)
    group["cost/w"], group["cost/freq"] = cost.w.numpy(), cost.freq.numpy()
    group["cost"].attrs["amp"] = cost.amp
    recorder = Recorder()
    solver = CEMSolver(cost, batch_size=batch, num_samples=samples, var_scale=1 if var_scale is None else var_scale,
                       n_steps=iterations, topk=elites, seed=1234, callbacks=[recorder])
    space = gym.spaces.Box(-1, 1, (envs, action_dim), np.float32)
    config = PlanConfig(horizon=horizon, receding_horizon=receding, action_block=block)
    solver.configure(action_space=space, n_envs=envs, config=config)
    init = None
    for p in range(plans):
        target = torch.tensor(rng.normal(0, 1, (envs, horizon, d)), dtype=torch.float32)
        phase = torch.tensor(rng.uniform(0, 6, (envs, horizon)), dtype=torch.float32)
        recorder.noise, recorder.rows = [], []
        torch.randn = recorder.randn
        out = solver.solve({"target": target, "phase": phase}, init)
        torch.randn = plain_randn

        def stack(slices):  # (slices x iterations) of (batch, ...) -> (iterations, envs, ...)
            return np.stack([np.concatenate(slices[i::iterations]) for i in range(iterations)])

        g = group.create_group(f"plan{p}")
        zip_ = dict(compression="gzip", shuffle=True)
        g["target"], g["phase"] = target.numpy(), phase.numpy()
        g.create_dataset("noise", data=stack(recorder.noise), **zip_)
        for i, name in enumerate(("elite_index", "elite_cost", "mean", "std")):
            g.create_dataset(name, data=stack([r[i] for r in recorder.rows]), **zip_)
        if init is not None:
            g["init_action"] = init.numpy()
        g["final_actions"], g["reported_cost"] = out["actions"].numpy(), np.array(out["costs"], np.float32)
        init = out["actions"][:, receding:] if receding < horizon else None


rng = np.random.default_rng(3)
path = pathlib.Path(__file__).parent / "reference" / "planners_small" / "reference.h5"
path.parent.mkdir(parents=True, exist_ok=True)
with h5py.File(path, "w") as f:
    run(f.create_group("cem_t3"), rng, horizon=5, action_dim=2, block=5, samples=50, iterations=10, elites=5, envs=2, batch=1, receding=5, plans=1)
    run(f.create_group("cem_t5"), rng, horizon=5, action_dim=2, block=5, samples=10, iterations=3, elites=2, envs=2, batch=2, receding=5, plans=1)
    run(f.create_group("cem_warm"), rng, horizon=4, action_dim=3, block=2, samples=40, iterations=6, elites=8, envs=2, batch=1, receding=1, plans=3, var_scale=0.7)
