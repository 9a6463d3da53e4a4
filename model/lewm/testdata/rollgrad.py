"""Writes rollgrad/NAME.h5 from reference/lewm_paper_NAME: costs and their
gradients in the candidates, by PyTorch's autograd through the original's
predictor, action encoder and pred_proj in evaluation mode and float64.

Made with Python 3.11, torch 2.15.0, transformers 5.23, stable-worldmodel 0.1.1,
h5py 3.16.0:
    python rollgrad.py tiny one
"""
import pathlib
import sys

import h5py
import torch
from lewm_paper import CASES, build

here = pathlib.Path(__file__).parent
for name in sys.argv[1:]:
    folder, frames = here / "reference" / f"lewm_paper_{name}", CASES[name]["frames"]
    model = build(CASES[name]).double()
    weights = torch.load(folder / "weights.pt")
    missing, unknown = model.load_state_dict({k: v for k, v in weights.items() if not k.startswith("encoder.")}, strict=False)
    assert not unknown and all(k.startswith("encoder.") for k in missing)
    with h5py.File(folder / "reference.h5") as f:
        start, goal = (torch.tensor(f[k][()]).double()[:, :1] for k in ("f64/emb", "f64/goal_emb"))
        plans = torch.nan_to_num(torch.tensor(f["input/candidates"][()]).double()).requires_grad_()
        want = torch.tensor(f["f64/cost"][()])
    b, s, h, _ = plans.shape
    act = model.action_encoder(plans.flatten(0, 1))
    z = start.repeat_interleave(s, 0)
    for t in range(h):
        z = torch.cat([z, model.predict(z[:, -frames:], act[:, : t + 1][:, -frames:])[:, -1:]], 1)
    cost = (z[:, -1] - goal.repeat_interleave(s, 0)[:, 0]).pow(2).sum(-1).view(b, s)
    assert (cost - want).abs().max() < 1e-9, (cost - want).abs().max()
    cost.sum().backward()
    (here / "rollgrad").mkdir(exist_ok=True)
    with h5py.File(here / "rollgrad" / f"{name}.h5", "w", libver=("v108", "v110")) as f:
        f["grad"] = plans.grad.numpy()
    print(name, plans.grad.abs().max())
