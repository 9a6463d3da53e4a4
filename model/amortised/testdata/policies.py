"""Writes OUT/{gcidm,gcbc}.h5: the original networks (idm.model.GoalConditionedIDM of
GC-IDM's repository, stable_worldmodel.wm.gcrl.module.Predictor with one token per frame)
at a tiny geometry, in float64 and without dropout, from random weights and inputs: their
actions, the mean squared error, its gradients, three steps of PyTorch's AdamW at a
constant rate, and actions in evaluation mode from a single frame.

Made with Python 3.11, torch 2.15.0, stable-worldmodel 0.1.1, h5py 3.16.0 and commit
48c45b1 of hdnndh/Latent-Geometry-Beyond-Search-Amortizing-Planning-in-World-Models:
    python policies.py reference PATH_OF_THAT_REPOSITORY
"""
import os
import sys

import h5py
import numpy as np
import torch
from stable_worldmodel.wm.gcrl.module import Predictor
from torch.nn.functional import mse_loss

sys.path.insert(0, sys.argv[2])
from idm.model import GoalConditionedIDM, IDMConfig

torch.set_default_dtype(torch.float64)
STEPS, BATCH, DIM, ACTIONS = 3, 5, 6, 2
# A horizon that is a power of two: the original divides by it in float32.
HORIZON = 8


def gcidm():
    return GoalConditionedIDM(IDMConfig(embed_dim=DIM, action_dim=ACTIONS, hidden_dim=10, n_layers=3, dropout=0.0, max_horizon=HORIZON))


def gcbc():
    return Predictor(num_patches=1, num_frames=3, dim=DIM, depth=6, heads=2, mlp_dim=9, out_dim=ACTIONS, dim_head=4)


def actions(model, z, left):
    """z holds frames and, last, the goal: (B, T, D)."""
    if isinstance(model, GoalConditionedIDM):
        return model(z[:, 0], z[:, 1], left[:, 0]).unsqueeze(1)
    return model(z[:, :-1], z[:, -1:])


def run(f, build, history):
    r = np.random.default_rng(7)
    z = r.normal(size=(STEPS, BATCH, history + 1, DIM)).astype(np.float32)
    left = r.integers(1, HORIZON + 1, (STEPS, BATCH, 1)).astype(np.float32)
    action = r.normal(size=(STEPS, BATCH, history + 1, ACTIONS)).astype(np.float32)
    write(f.create_group("input"), {"features": z, "left": left, "action": action})
    torch.manual_seed(3)
    model = build().double().train()
    with torch.no_grad():  # nothing stays at its initial zero or one
        for p in model.parameters():
            p += .05 * torch.randn_like(p)
            p.copy_(p.float())  # what files hold
    write(f.create_group("weights"), {k: v.detach().float() for k, v in model.named_parameters()})
    out = f.create_group("f64")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    losses, norms = [], []
    for n in range(STEPS):
        pred = actions(model, torch.tensor(z[n]).double(), torch.tensor(left[n]))
        loss = mse_loss(pred, torch.tensor(action[n, :, :-1]).double())
        optimizer.zero_grad()
        loss.backward()
        if n == 0:
            write(out, {"pred": pred})
            write(out.create_group("grad"), {k: p.grad for k, p in model.named_parameters()})
            with torch.no_grad():  # of the first frame alone
                write(out, {"act": actions(model.eval(), torch.tensor(z[n][:, [0, -1]]).double(), torch.tensor(left[n]))})
            model.train()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        losses.append(loss.item())
    write(out, {"loss": losses, "grad_norm": norms})
    write(out.create_group("final"), dict(model.named_parameters()))


def write(group, tensors):
    for k, v in tensors.items():
        group.create_dataset(k, data=v.detach().numpy() if torch.is_tensor(v) else np.asarray(v))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for build, history in (gcidm, 1), (gcbc, 3):
        with h5py.File(os.path.join(sys.argv[1], build.__name__ + ".h5"), "w", libver=("v108", "v110")) as f:
            run(f, build, history)
