"""Writes reference/lewm_small_CASE/{config.json,reference.h5,autocast.json}: a few
training steps of the original modules (stable_worldmodel.wm.lewm, Hugging Face's
ViT) at a tiny geometry, in float64 and without dropout, with given pairs and
SIGReg directions; and the errors of the same modules' gradients in float32 under
autocast to bf16, over BATCHES other batches.

Made with Python 3.11, torch 2.15.0, transformers 4.57.6, stable-worldmodel
0.1.1, h5py 3.16.0:
    python lewm_small.py tiny
    python lewm_small.py odd
    python lewm_small.py wide
and, with transformers 5.23.0,
    python lewm_small.py narrow
"""
import functools
import json
import math
import os
import re
import sys

import h5py
import numpy as np
import torch
from stable_worldmodel.wm.lewm.lewm import LeWM
from stable_worldmodel.wm.lewm.module import MLP, Embedder, Predictor
from torch import nn
from transformers import ViTConfig, ViTModel

torch.set_default_dtype(torch.float64)
CASE = sys.argv[1]
if CASE == "tiny":
    N, B, H, SIZE, DQ, K, M, A = 3, 5, 3, 16, 3, 40, 12, 10
    WIDTH, LAYERS, HEADS, FFN, PATCH, D, HIDDEN, DEPTH, PHEADS, DIM_HEAD, PMLP = 12, 2, 3, 20, 8, 6, 14, 2, 2, 6, 18
    INSIDE, PRED_HIDDEN = D, HIDDEN
elif CASE == "narrow":  # an Aux head of another width, and pixels that are normalised in float32, which the file keeps
    N, B, H, SIZE, DQ, K, M, A = 2, 5, 3, 16, 3, 40, 12, 10
    WIDTH, LAYERS, HEADS, FFN, PATCH, D, HIDDEN, DEPTH, PHEADS, DIM_HEAD, PMLP = 12, 1, 3, 20, 8, 6, 14, 1, 2, 6, 18
    INSIDE, PRED_HIDDEN = D, HIDDEN
elif CASE == "wide":  # published widths; 250 MB, for SCALEWM_REFERENCE_DIR
    N, B, H, SIZE, DQ, K, M, A = 2, 16, 3, 32, 6, 200, 64, 10
    WIDTH, LAYERS, HEADS, FFN, PATCH, D, HIDDEN, DEPTH, PHEADS, DIM_HEAD, PMLP = 192, 2, 3, 768, 8, 192, 2048, 2, 16, 64, 2048
    INSIDE, PRED_HIDDEN = D, HIDDEN
else:  # another history, an edge that the patch does not divide, one layer of each, a wider predictor, names of transformers 5
    N, B, H, SIZE, DQ, K, M, A = 2, 9, 2, 13, 1, 30, 9, 7
    WIDTH, LAYERS, HEADS, FFN, PATCH, D, HIDDEN, DEPTH, PHEADS, DIM_HEAD, PMLP = 10, 1, 2, 11, 4, 5, 9, 1, 3, 4, 7
    INSIDE, PRED_HIDDEN = 8, 12
T = H + 1
BATCHES = 40
HEAD = 12 if CASE == "narrow" else 256
PRED = {"num_frames": H, "input_dim": D, "hidden_dim": INSIDE, "output_dim": D, "depth": DEPTH, "heads": PHEADS, "mlp_dim": PMLP,
        "dim_head": DIM_HEAD, "dropout": 0.0, "emb_dropout": 0.0}
RUNS = {"lewm": (1e-4, 400), "scale": (1e-4, 400), "aux": (1e-4, 400), "lewm_hot": (5e-3, 8)}
WEIGHTS = {"scale": .1, "aux": .3}


class DoubleEmbedder(Embedder):
    """The original casts its input to float32."""

    def forward(self, x):
        x = self.patch_embed(x.permute(0, 2, 1)).permute(0, 2, 1)
        return self.embed(x)


def build(seed):
    torch.manual_seed(seed)
    vit = ViTModel(ViTConfig(hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FFN,
                             image_size=SIZE, patch_size=PATCH, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
                   add_pooling_layer=False, use_mask_token=False)
    mlp = functools.partial(MLP, output_dim=D, norm_fn=nn.BatchNorm1d)
    model = LeWM(vit, Predictor(**PRED), DoubleEmbedder(input_dim=A, emb_dim=D),
                 mlp(WIDTH, HIDDEN), mlp(D, PRED_HIDDEN)).double()
    head = MLP(D, HEAD, DQ, norm_fn=None, act_fn=nn.ReLU).double()
    with torch.no_grad():  # nothing stays zero, so that no gradient hides
        for p in model.parameters():
            p += .05 * torch.randn_like(p)
    return model.train(), head.train()


def inputs(seed, N):
    r = np.random.default_rng(seed)
    x = {"pixels": r.integers(0, 256, (N, B, T, SIZE, SIZE, 3), np.uint8), "action": r.normal(size=(N, B, T, A)).astype(np.float32),
         "q": r.normal(size=(N, B, T, DQ)).astype(np.float32), "episode": r.integers(0, 4, (N, B)),
         "sigreg_directions_raw": r.normal(size=(N, D, M)).astype(np.float32)}
    x["action"][0, 1, 2, 3] = x["action"][N - 1, B - 1, T - 1, :] = np.nan
    x["pairs"] = np.stack([r.permutation(B * T)[:2] for _ in range(N * K)]).reshape(N, K, 2).transpose(0, 2, 1)
    return x


def sigreg(z, raw):
    a = raw / raw.norm(p=2, dim=0)
    t = torch.linspace(0, 3, 17, dtype=z.dtype)
    phi = torch.exp(-t.square() / 2)
    w = torch.full((17,), 2 * 3 / 16, dtype=z.dtype)
    w[[0, -1]] = 3 / 16
    x = (z.transpose(0, 1) @ a).unsqueeze(-1) * t
    err = (x.cos().mean(-3) - phi).square() + x.sin().mean(-3).square()
    return ((err @ (w * phi)) * z.size(0)).mean()


def scale(z, q, pairs):
    z, q = z.flatten(0, 1), q.flatten(0, 1)
    x = (z[pairs[0]] - z[pairs[1]]).square().sum(-1)
    y = (q[pairs[0]] - q[pairs[1]]).square().sum(-1)
    return 1 - ((x - x.mean()) / (x.std() + 1e-6) * ((y - y.mean()) / (y.std() + 1e-6))).mean()


FIVE = {"attention.attention.query": "attention.q_proj", "attention.attention.key": "attention.k_proj",
        "attention.attention.value": "attention.v_proj", "attention.output.dense": "attention.o_proj",
        "intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2"}


def spell(name):
    """A tensor's name in the file."""
    if CASE != "odd" or "encoder.encoder.layer." not in name:
        return name
    for four, five in FIVE.items():
        name = re.sub(rf"(layer\.\d+)\.{four}\.", rf"\1.{five}.", name)
    return name.replace("encoder.encoder.layer.", "encoder.layers.")


def normalised(x):
    kind = torch.float32 if CASE == "narrow" else torch.float64
    mean, std = (torch.tensor(v, dtype=kind).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))
    return (torch.tensor(x["pixels"]).transpose(-1, -2).transpose(-2, -3).to(kind) / 255 - mean) / std


def forward(model, x, n):
    kind = next(model.parameters()).dtype
    info = model.encode({"pixels": normalised(x)[n].to(kind), "action": torch.nan_to_num(torch.tensor(x["action"][n]).to(kind))})
    emb, act = info["emb"], info["act_emb"]
    return emb, act, model.predict(emb[:, :H], act[:, :H])


EXTRA = {"scale": "obj_loss", "aux": "aux_loss"}


def objective(method, head, x, n, emb, pred):
    """The loss, and its terms by name."""
    q = torch.tensor(x["q"][n]).to(emb.dtype)
    terms = {"pred_loss": (pred - emb[:, 1:]).square().mean(), "sigreg_loss": sigreg(emb, torch.tensor(x["sigreg_directions_raw"][n]).to(emb.dtype))}
    if method == "scale":
        terms["obj_loss"] = scale(emb, q, torch.tensor(x["pairs"][n]))
    if method == "aux":
        terms["aux_loss"] = (head(emb.flatten(0, 1)) - q.flatten(0, 1)).square().mean()
    return terms["pred_loss"] + .09 * terms["sigreg_loss"] + (WEIGHTS[method] * terms[EXTRA[method]] if method in EXTRA else 0), terms


def parameters(model, head, method):
    params = dict(model.named_parameters())
    if method == "aux":
        params |= {f"aux_head.{k}": p for k, p in head.named_parameters()}
    return params


def autocast(method):
    """The relative L2 errors of autocast's gradients at the initial weights: of each tensor
    the root mean square over batches, of all tensors together and of the norm by batch."""
    x = inputs(6, BATCHES)
    by_tensor, whole, norms = {}, [], []
    for n in range(BATCHES):
        exact, rounded = {}, {}
        for grads, single in ((exact, False), (rounded, True)):
            model, head = build(1)
            if single:
                model, head = model.float(), head.float()
            # The authors' trainer computes the losses under autocast too.
            with torch.autocast("cpu", torch.bfloat16, enabled=single):
                emb, _, pred = forward(model, x, n)
                loss, _ = objective(method, head, x, n, emb, pred)
            loss.backward()
            for k, p in parameters(model, head, method).items():
                grads[spell(k)] = p.grad.double()
        off = {k: (rounded[k] - g).norm() for k, g in exact.items()}
        total, size = (torch.stack([v.norm() for v in g.values()]).norm() for g in (rounded, exact))
        for k, g in exact.items():
            # A gradient that is zero by its formula has no relative error.
            if g.norm() > 1e-9 * size:
                by_tensor.setdefault(k, []).append(float(off[k] / g.norm()))
        whole.append(float(torch.stack(list(off.values())).norm() / size))
        norms.append(float((total - size).abs() / size))
    return {"grad_rms": {k: float(np.sqrt(np.mean(np.square(v)))) for k, v in by_tensor.items()}, "grad_norm": norms, "whole": whole}


def rate(lr, n, total):
    w = max(1, int(.01 * total))
    return lr * n / w if n < w else lr / 2 * (1 + math.cos(math.pi * (n - w) / (total - w)))


def run(f, name, x):
    lr, total = RUNS[name]
    method = name.split("_")[0]
    model, head = build(1)
    g = f.create_group(f"{name}/f64")
    g.attrs["lr"], g.attrs["total_steps"] = lr, total
    params = parameters(model, head, method)
    opt = torch.optim.AdamW(params.values(), lr=lr, weight_decay=1e-3)
    steps = {k: [] for k in ("loss", "pred_loss", "sigreg_loss", "lr", "grad_norm")}
    if method in EXTRA:
        steps[EXTRA[method]] = []
    for n in range(N):
        emb, act, pred = forward(model, x, n)
        if n == 0:
            for k, v in {"emb": emb, "act_emb": act, "pred": pred}.items():
                g[f"first_forward/{k}"] = v.detach().numpy()
            for k, v in model.named_buffers():
                g[f"bn_after_first_forward/{k}"] = v.detach().numpy()
        loss, losses = objective(method, head, x, n, emb, pred)
        opt.zero_grad()
        loss.backward()
        if n == 0:
            for k, p in params.items():
                g[f"grad_step0/{spell(k)}"] = p.grad.numpy().astype(np.float32)
        norm = torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        opt.param_groups[0]["lr"] = rate(lr, n, total)
        opt.step()
        for k, v in {"loss": loss, "lr": rate(lr, n, total), "grad_norm": norm, **losses}.items():
            steps[k].append(float(v))
    for k, v in steps.items():
        g[f"by_step/{k}"] = np.array(v)
    for k, v in [*params.items(), *model.named_buffers()]:
        g[f"final/{spell(k)}"] = v.detach().numpy().astype(np.float32)


def main():
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference", "lewm_small_" + CASE)
    os.makedirs(out, exist_ok=True)
    x = inputs(5, N)
    with h5py.File(os.path.join(out, "reference.h5"), "w", libver=("v108", "v110")) as f:
        for k, v in x.items():
            f.create_dataset(f"input/{k}", data=v, compression="gzip", shuffle=True)
        if CASE == "narrow":
            f.create_dataset("input/pixels_normalised_float32", data=normalised(x).numpy(), compression="gzip", shuffle=True)
        model, head = build(1)
        for k, v in model.state_dict().items():
            f[f"weights/{spell(k)}"] = v.numpy()
        for k, v in head.state_dict().items():
            f[f"weights/aux_head.{k}"] = v.numpy()
        for name in RUNS:
            run(f, name, x)
    with open(os.path.join(out, "autocast.json"), "w") as f:
        json.dump({method: autocast(method) for method in ("lewm", "scale", "aux")}, f, indent=1)
    mlp = {"_target_": "stable_worldmodel.wm.lewm.module.MLP", "output_dim": D,
           "norm_fn": {"_target_": "torch.nn.BatchNorm1d", "_partial_": True}}
    config = {"_target_": "stable_worldmodel.wm.lewm.LeWM",
              "encoder": {"patch_size": PATCH, "image_size": SIZE, "pretrained": False, "use_mask_token": False,
                          "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": FFN},
              "predictor": PRED, "action_encoder": {"input_dim": A, "emb_dim": D},
              "projector": {"input_dim": WIDTH, "hidden_dim": HIDDEN, **mlp}, "pred_proj": {"input_dim": D, "hidden_dim": PRED_HIDDEN, **mlp}}
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(config, f, indent=1)


main()
