"""Writes reference/losses_tiny/reference.h5: values and gradients of SIGReg, the
SCALE correlation and the Aux regression in float64, by PyTorch's autograd from
the formulas (SIGReg: stable_worldmodel.wm.loss.SIGReg itself, with its draw of
directions replaced by a given one).

Made with Python 3.11, torch 2.15.0, stable-worldmodel 0.1.1, h5py 3.16.0:
    python losses.py
"""
import os

import h5py
import numpy as np
import torch
from stable_worldmodel.wm.loss import SIGReg
from torch import nn

torch.set_default_dtype(torch.float64)
EPS = 1e-6
SIZES = {"b6_d5": (6, 4, 5, 3, 40, 12)}  # B, T, D, d_q, K, M
RECIPES = ("z: plain, times3 3z+1, zero, all_rows_equal z[0,0], duplicated_rows x[2*floor(b/2)], tiny 1e-5 z; "
           "q: plain, constant .7, duplicated_rows, linear_in_z .5 z, opposite_sign -2 z, nearly_constant .7+1e-4 q, near_guard .7+5e-3 q")


def variants_z(z):
    dup = z[2 * (torch.arange(len(z)) // 2)]
    return {"plain": z, "times3": 3 * z + 1, "zero": 0 * z, "all_rows_equal": z[0, 0].expand_as(z).clone(),
            "duplicated_rows": dup, "tiny": 1e-5 * z}


def variants_q(q, z):
    dup = q[2 * (torch.arange(len(q)) // 2)]
    return {"plain": q, "constant": torch.full_like(q, .7), "duplicated_rows": dup, "linear_in_z": .5 * z,
            "opposite_sign": -2 * z, "nearly_constant": .7 + 1e-4 * q, "near_guard": .7 + 5e-3 * q}


def sigreg(z, directions):
    m = SIGReg(num_proj=directions.shape[1])
    t = torch.linspace(0, 3, 17)
    phi = torch.exp(-t.square() / 2)
    w = torch.full((17,), 2 * 3 / 16)
    w[[0, -1]] = 3 / 16
    m.t, m.phi, m.weights = t, phi, w * phi  # the module's buffers are float32
    real = torch.randn
    torch.randn = lambda *a, **k: directions.clone()
    try:
        return m(z.transpose(0, 1))
    finally:
        torch.randn = real


def scale(z, q, pairs, paper):
    z, q = z.flatten(0, 1), q.flatten(0, 1)
    x = (z[pairs[0]] - z[pairs[1]]).square().sum(-1)
    y = (q[pairs[0]] - q[pairs[1]]).square().sum(-1)
    sx, sy = x.std(unbiased=not paper), y.std(unbiased=not paper)
    if sx < EPS or sy < EPS:
        return 0 * z.sum(), True
    return 1 - ((x - x.mean()) / (sx + EPS) * ((y - y.mean()) / (sy + EPS))).mean(), False


def draw_pairs(r, episode, t, k):
    b = len(episode)
    clip = r.integers(0, b, k // 2)
    within = np.array([r.choice(t, 2, replace=False) for _ in clip])
    first, second = list(clip * t + within[:, 0]), list(clip * t + within[:, 1])
    single = np.array([first, second])
    while len(first) < k:
        i, j = r.integers(0, b * t, 2)
        if episode[i // t] != episode[j // t]:
            first.append(i)
            second.append(j)
    return np.array([first, second]), single


def with_grad(f, z):
    z = z.clone().requires_grad_(True)
    v = f(z)
    v[0].backward() if isinstance(v, tuple) else v.backward()
    return v, z.grad


def write(group, size, seed):
    b, t, d, dq, k, m = size
    r = np.random.default_rng(seed)
    z, q = torch.tensor(r.normal(size=(b, t, d))), torch.tensor(r.normal(size=(b, t, dq)))
    episode = r.integers(0, b // 2, b)
    pairs, single = draw_pairs(r, episode, t, k)
    raw = torch.tensor(r.normal(size=(d, m)))
    torch.manual_seed(seed)
    head = nn.Sequential(nn.Linear(d, 256), nn.Identity(), nn.ReLU(), nn.Linear(256, dq))
    group.attrs["recipes"] = RECIPES
    for name, v in {"z": z, "q": q, "episode": episode, "pairs": pairs, "pairs_single_episode": single, "directions_raw": raw}.items():
        save(group, name, v)
    for name, p in head.named_parameters():
        save(group, f"aux_head/net.{name}", p.detach())
    for name, zz in variants_z(z).items():
        v, g = with_grad(lambda x: sigreg(x, raw), zz)
        save(group, f"sigreg/{name}/value", v.detach())
        save(group, f"sigreg/{name}/grad_z", g)
    for zname, zz in variants_z(z).items():
        for qname, qq in variants_q(q, zz).items():
            cases = {f"z_{zname}__q_{qname}": pairs}
            if zname == qname == "plain":
                cases[f"z_{zname}__q_{qname}__single_episode"] = single
            for case, ps in cases.items():
                for form in ("authors", "paper"):
                    (v, skipped), g = with_grad(lambda x: scale(x, qq, torch.tensor(ps), form == "paper"), zz)
                    base = f"scale/{case}/{form}/"
                    save(group, base + "value", v.detach())
                    save(group, base + "grad_z", g)
                    save(group, base + "skipped", np.array(skipped))
    dup = variants_z(z)["duplicated_rows"], variants_q(q, z)["duplicated_rows"]
    for name, (zz, qq) in {"plain": (z, q), "q_constant": (z, torch.full_like(q, .7)), "z_zero": (0 * z, q), "duplicated_rows": dup}.items():
        head.zero_grad()
        v, g = with_grad(lambda x: (head(x) - qq).square().mean(), zz)
        save(group, f"aux/{name}/value", v.detach())
        save(group, f"aux/{name}/grad_z", g)
        for pname, p in head.named_parameters():
            save(group, f"aux/{name}/grad_head/net.{pname}", p.grad)


def save(group, name, v):
    group.create_dataset(name, data=np.asarray(v))


def main():
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference", "losses_tiny")
    os.makedirs(out, exist_ok=True)
    with h5py.File(os.path.join(out, "reference.h5"), "w", libver=("v108", "v110")) as f:
        for i, (name, size) in enumerate(SIZES.items()):
            write(f.create_group(name), size, 100 + i)


main()
