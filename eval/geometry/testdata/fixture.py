"""What SciPy, scikit-learn and PyTorch say of small latents, in reference.json:
python fixture.py > reference.json (SciPy, scikit-learn and PyTorch of third_party/peers.lock).

Inputs are rounded to float32, which JSON holds exactly.
"""
import json

import numpy as np
import torch
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score


def standardise(q):
    sd = q.std(0)
    return (q - q.mean(0)) / np.where(sd > 0, sd, 1)


def components(z):
    c = z - z.mean(0)
    w, v = np.linalg.eigh(c @ c.T)
    w, v = w[::-1], v[:, ::-1]
    keep = w > 1e-10 * w[0]
    scores = v[:, keep] * np.sqrt(w[keep])
    far = np.abs(scores).argmax(0)  # the sign of a component is a convention: its farthest sample is positive
    return w[keep] / (len(z) - 1), scores * np.sign(scores[far, range(scores.shape[1])])


def plain(x):
    return [None if not np.isfinite(v) else float(v) for v in np.atleast_1d(x)]


def r2(y, guess):
    return plain([r2_score(y[:, j], guess[:, j]) if y[:, j].std() > 0 else np.nan for j in range(y.shape[1])])


def ridge(x, y, order):
    half = len(order) // 2
    fit, score = order[:half], order[half:]
    model = Ridge(alpha=1e-2).fit(x[fit], y[fit])
    return r2(y[score], model.predict(x[score]).reshape(len(score), -1))


def mlp(x, y, order):
    half = len(order) // 2
    fit, score = order[:half], order[half:]
    x = torch.tensor(x / x[fit].std(), dtype=torch.float32)
    y32 = torch.tensor(y, dtype=torch.float32)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 256), torch.nn.ReLU(), torch.nn.Linear(256, y.shape[1]))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(30):
        opt.zero_grad()
        torch.nn.functional.mse_loss(net(x[fit]), y32[fit]).backward()
        opt.step()
    with torch.no_grad():
        return r2(y[score], net(x[score]).double().numpy())


def case(name, z, q):
    z, q = z.astype(np.float32).astype(np.float64), q.astype(np.float32).astype(np.float64)
    n = len(z)
    order = np.random.default_rng(5).permutation(n)
    qs = standardise(q)
    dz, dq = pdist(z, "sqeuclidean"), pdist(qs, "sqeuclidean")
    e, scores = components(z)
    p = e / e.sum()
    out = {"name": name, "z": z.tolist(), "q": q.tolist(), "order": order.tolist(),
           "spearman": float(spearmanr(dz, dq)[0]), "pearson": float(pearsonr(dz, dq)[0]),
           "eigenvalues": plain(e), "participation_ratio": float(e.sum() ** 2 / (e ** 2).sum()),
           "effective_rank": float(np.exp(-(p * np.log(p)).sum())), "ridge": {}, "ridge_last": {}}
    for k in (1, 2, 4, 8, len(e), len(e) + 7):
        out["ridge"][str(k)] = ridge(scores[:, :k], qs, order)
        out["ridge_last"][str(k)] = ridge(scores[:, max(0, len(e) - k):], qs, order)
    out["mlp"] = mlp(scores, qs, order)
    return out


g = np.random.default_rng(20261122)
n = 90
q = g.normal(size=(n, 3))
mixed = np.tanh(q @ g.normal(size=(3, 16))) + 0.3 * g.normal(size=(n, 16))
cases = [case("mixed", mixed, q)]
cases.append(case("ties", g.integers(0, 3, (n, 6)), g.integers(0, 2, (n, 2))))
cases.append(case("rank deficient", q @ g.normal(size=(3, 20)), q + 0.1 * g.normal(size=(n, 3))))
z = mixed.copy()
z[:, 3] = 0.5
cases.append(case("constant column of z", z, q))
qc = q.copy()
qc[:, 1] = 2
cases.append(case("constant column of q", mixed, qc))
cases.append(case("wide", np.repeat(mixed[:40], 10, axis=1) * g.normal(size=(40, 160)), q[:40]))
print(json.dumps(cases))
