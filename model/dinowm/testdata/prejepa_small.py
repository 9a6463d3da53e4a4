"""Writes OUT/prejepa_small_NAME/{config.json,reference.h5}: the original classes
(stable_worldmodel.wm.prejepa, Hugging Face's Dinov2Model) at a tiny geometry, in
float64 and without dropout, from random weights and inputs: what they encode,
predict, plan and lose, the loss's gradients, and ten steps of PyTorch's AdamW.

Made with Python 3.11, torch 2.15.0, transformers 5.23.0, stable-worldmodel
0.1.1, h5py 3.16.0:
    python prejepa_small.py reference tiny
"""
import json
import math
import os
import sys

import h5py
import numpy as np
import torch
from stable_worldmodel.wm.prejepa.module import CausalPredictor, Embedder
from stable_worldmodel.wm.prejepa.prejepa import PreJEPA
from torch.nn.functional import mse_loss
from transformers import Dinov2Config, Dinov2Model

torch.set_default_dtype(torch.float64)
TINY = {"image": 14, "patch": 7, "table": 21, "width": 12, "layers": 2, "heads": 3, "ratio": 2, "emb": 3, "depth": 2, "pheads": 2, "head_dim": 5, "pmlp": 9,
        "b": 3, "t": 4, "s": 4, "horizon": 5, "block": 10, "proprio": 4, "steps": 10, "lr": 1e-3, "total": 400}
CASES = {"tiny": TINY}
HISTORY = 3
# The authors': positions for a frame more than a prediction sees, and no proprioception.
GROUPS = {"action_only": ({"action": "block"}, 4), "proprio_action": ({"proprio": "proprio", "action": "block"}, 3)}


class Model(PreJEPA):
    """encode casts pixels and extra inputs to float32, which float64 modules refuse."""

    def encode(self, info, **kwargs):
        return super().encode({k: Double(v) if torch.is_tensor(v) else v for k, v in info.items()}, **kwargs)


class Double(torch.Tensor):
    def float(self):
        return self.double().as_subclass(torch.Tensor)


def build(c, keys, frames):
    backbone = Dinov2Model(Dinov2Config(hidden_size=c["width"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"], mlp_ratio=c["ratio"],
                                        image_size=c["table"], patch_size=c["patch"]))
    width = c["width"] + len(keys) * c["emb"]
    predictor = CausalPredictor(num_patches=(c["image"] // c["patch"])**2, num_frames=frames, dim=width, depth=c["depth"], heads=c["pheads"],
                                mlp_dim=c["pmlp"], dim_head=c["head_dim"])
    extra = torch.nn.ModuleDict({k: Embedder(in_chans=c[n], emb_dim=c["emb"]) for k, n in keys.items()})
    model = Model(backbone, predictor, extra, history_size=HISTORY).double().train()
    model.backbone.eval()
    with torch.no_grad():  # nothing stays at its initial zero or one
        for name, p in model.named_parameters():
            p += (.5 if name.startswith("backbone") else .05) * torch.randn_like(p)
            p.copy_(p.float())  # what files hold
    for p in model.backbone.parameters():
        p.requires_grad = False
    return model


def inputs(c):
    r = np.random.default_rng(7)
    n, b, t, edge = c["steps"], c["b"], c["t"], c["image"]
    x = {"pixels": r.integers(0, 256, (n, b, t, edge, edge, 3), np.uint8), "goal": r.integers(0, 256, (b, 1, edge, edge, 3), np.uint8),
         "action": r.normal(size=(n, b, t, c["block"])).astype(np.float32), "proprio": r.normal(size=(n, b, t, c["proprio"])).astype(np.float32),
         "goal_proprio": r.normal(size=(b, 1, c["proprio"])).astype(np.float32),
         "candidates": r.normal(size=(b, c["s"], c["horizon"], c["block"])).astype(np.float32)}
    x["action"][0, 1, 2, 3] = x["action"][n - 1, b - 1, t - 1, :] = x["candidates"][1, 2, 4, 0] = np.nan  # they become 0
    return x


def normalised(v):
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))
    return (torch.tensor(v).movedim(-1, -3).double() / 255 - mean) / std


def numbers(v):
    return torch.nan_to_num(torch.tensor(v).double())


def forward(model, x, n):
    info = {"pixels": normalised(x["pixels"][n])} | {k: numbers(x[k][n]) for k in model.extra_encoders}
    emb = model.encode(info)["emb"]
    pred = model.predict(emb[:, :HISTORY])
    state = emb.shape[-1] - model.extra_encoders["action"].emb_dim  # the action comes last
    return emb, pred, mse_loss(pred[..., :state], emb[:, 1:, :, :state].detach())


@torch.no_grad()
def plan(model, x):
    goal_emb, predicted, cost = [], [], []
    candidates = numbers(x["candidates"])
    for b in range(len(candidates)):
        def repeated(v):
            return v[b:b + 1].unsqueeze(1).expand(-1, candidates.shape[1], *[-1] * (v.ndim - 1))
        info = {"pixels": repeated(normalised(x["pixels"][0])[:, :1]), "goal": repeated(normalised(x["goal"])), "action": candidates[b:b + 1, :, :1],
                "id": torch.full((1, candidates.shape[1]), b), "step_idx": torch.zeros(1, candidates.shape[1])}
        if "proprio" in model.extra_encoders:
            info |= {"proprio": repeated(numbers(x["proprio"][0])[:, :1]), "goal_proprio": repeated(numbers(x["goal_proprio"]))}
        cost.append(model.get_cost(info, candidates[b:b + 1]))
        goal_emb.append(info["goal_emb"][:, 0])
        predicted.append(info["predicted_embedding"])
    return {"goal_emb": torch.cat(goal_emb), "predicted_emb": torch.cat(predicted), "cost": torch.cat(cost)}


def rate(lr, n, total):
    w = max(1, int(.01 * total))
    return lr * n / w if n < w else lr / 2 * (1 + math.cos(math.pi * (n - w) / (total - w)))


def write(group, tensors):
    for k, v in tensors.items():
        v = v.detach().numpy() if torch.is_tensor(v) else np.asarray(v)
        group.create_dataset(k, data=v, **({"compression": "gzip", "shuffle": True} if v.ndim else {}))


def run(f, name, c, x):
    torch.manual_seed(3)
    model = build(c, *GROUPS[name])
    g = f.create_group(name)
    write(g.create_group("weights"), {k: v.float() for k, v in model.state_dict().items()})
    emb, pred, loss = forward(model, x, 0)
    loss.backward()
    learnt = {k: p for k, p in model.named_parameters() if p.requires_grad}
    out = g.create_group("f64")
    write(out, {"emb": emb, "predict": pred, "loss": loss} | plan(model, x))
    write(out.create_group("grad"), {k: p.grad for k, p in learnt.items()})
    out.attrs["lr"], out.attrs["total_steps"] = c["lr"], c["total"]
    with torch.no_grad():  # of all steps' frames: what the backbone makes never changes
        write(out, {"features": torch.stack([forward(model, x, n)[0][..., :c["width"]] for n in range(c["steps"])])})
    opt = torch.optim.AdamW(learnt.values(), lr=c["lr"], weight_decay=1e-3)
    steps = {"loss": [], "lr": [], "grad_norm": []}
    for n in range(c["steps"]):
        opt.param_groups[0]["lr"] = rate(c["lr"], n, c["total"])
        opt.zero_grad()
        loss = forward(model, x, n)[2]
        loss.backward()
        steps["grad_norm"].append(torch.nn.utils.clip_grad_norm_(learnt.values(), 1.0).item())
        steps["loss"].append(loss.item())
        steps["lr"].append(opt.param_groups[0]["lr"])
        opt.step()
    write(out.create_group("by_step"), steps)
    write(out.create_group("final"), learnt)


def main(out, names):
    for name in names:
        c, folder = CASES[name], os.path.join(out, "prejepa_small_" + name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({"backbone": {"hidden_size": c["width"], "num_hidden_layers": c["layers"], "num_attention_heads": c["heads"], "mlp_ratio": c["ratio"],
                                    "image_size": c["table"], "patch_size": c["patch"]}, "image_size": c["image"], "history_size": HISTORY,
                       "predictor": {"depth": c["depth"], "heads": c["pheads"], "dim_head": c["head_dim"], "mlp_dim": c["pmlp"]}}, f, indent=1)
        with h5py.File(os.path.join(folder, "reference.h5"), "w", libver=("v108", "v110")) as f:
            x = inputs(c)
            write(f.create_group("input"), x)
            for group in GROUPS:
                run(f, group, c, x)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
