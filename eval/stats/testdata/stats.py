"""Makes reference/stats_small/reference.json, the layout of the family `stats`,
from SciPy and NumPy: python testdata/stats.py [SEED] > reference.json
Made with SciPy 1.17.1 and NumPy 2.4.6. null stands for NaN."""
import itertools, json, math, sys
import numpy as np
from scipy import stats

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 3
rng = np.random.default_rng(seed)


def enumerated(signed):
    """Share of sign vectors whose sum is at least as far from 0."""
    w = np.abs(np.asarray(signed, float))
    if len(w) == 0:
        return 1.0
    sums = np.zeros(1)
    for v in w:
        sums = np.concatenate([sums + v, sums - v])
    return float(np.mean(np.abs(sums) >= abs(np.sum(signed)) - 1e-9))


def paired(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    d = np.round(a - b, 9)
    out = {"a": a, "b": b, "difference_a_minus_b_rounded": d}
    for zero in ("wilcox", "pratt", "zsplit"):
        for alt in ("two-sided", "greater", "less"):
            for name, kw in ((f"{zero}/exact/{alt}", dict(method="exact")), (f"{zero}/approx/{alt}", dict(method="asymptotic", correction=False)),
                             (f"{zero}/approx/corrected/{alt}", dict(method="asymptotic", correction=True))):
                r = stats.wilcoxon(d, zero_method=zero, alternative=alt, **kw)
                out[name] = {"statistic": r.statistic, "p": r.pvalue}
                if "approx" in name:
                    out[name]["z"] = r.zstatistic
    nz = d[d != 0]
    ranks = stats.rankdata(abs(nz))
    out["signed_rank_enumerated_two_sided_zeros_dropped"] = enumerated(ranks * np.sign(nz))
    out["signed_rank_enumerated_two_sided_pratt"] = enumerated((stats.rankdata(abs(d)) * np.sign(d))[d != 0])
    out["signflip_sum_exact_two_sided"] = enumerated(d)
    out["w_plus"], out["w_minus"] = ranks[nz > 0].sum(), ranks[nz < 0].sum()
    t = stats.ttest_1samp(d, 0)
    ci = t.confidence_interval(0.95)
    out["paired_t"] = {"t": t.statistic, "df": t.df, "p": t.pvalue, "ci95": [ci.low, ci.high], "mean": d.mean(), "sd_ddof1": d.std(ddof=1)}
    return out


def ranks(x, y):
    out = {"x": x, "y": y, "ranks_x": stats.rankdata(x)}
    for name, f in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall_tau_b", stats.kendalltau)):
        r = f(x, y)
        out[name] = {"value": r.statistic, "p": r.pvalue}
    out["kendall_tau_c"] = stats.kendalltau(x, y, variant="c").statistic
    return out


def bootstrap():
    a, b = (rng.random((6, 20)) < 0.7).astype(int), (rng.random((6, 20)) < 0.55).astype(int)
    idx = rng.integers(0, 20, (400, 6, 20))
    d = (a - b).astype(float)
    reps = np.array([np.take_along_axis(d, i, 1).mean() for i in idx])
    return {"a": a, "b": b, "resample_index": idx, "observed": d.mean(), "replicates_first_20": reps[:20], "replicate_sum": reps.sum(),
            "se_ddof1": reps.std(ddof=1), "percentile_95_linear": np.percentile(reps, [2.5, 97.5]), "percentile_90_linear": np.percentile(reps, [5, 95])}


def mcnemar(b, c):
    n, k = b + c, min(b, c)
    tail = 2 * stats.binom.cdf(k, n, 0.5) if n else 2.0
    point = stats.binom.pmf(k, n, 0.5) if n else 1.0
    return {"b": b, "c": c, "exact": min(1, tail), "midp": min(1, tail - point), "binomtest": stats.binomtest(b, n, 0.5).pvalue if n else 1.0}


def wilson(k, n):
    t = stats.binomtest(k, n)
    w, c = t.proportion_ci(0.95, "wilson"), t.proportion_ci(0.95, "exact")
    return {"k": k, "n": n, "ci95": [w.low, w.high], "clopper_pearson": [c.low, c.high]}


def holm(p):
    order, out, worst = np.argsort(p, kind="stable"), np.empty(len(p)), 0.0
    for k, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - k) * p[i]))
        out[i] = worst
    return out


def centred_gram_eig(z):
    c = z - z.mean(0)
    w, v = np.linalg.eigh(c @ c.T)
    w, v = w[::-1], v[:, ::-1]
    keep = w > w[0] * 1e-10
    return w[keep], v[:, keep] * np.sqrt(w[keep])


def ridge(s, y):
    h = len(s) // 2
    m, ym = s[:h].mean(0), y[:h].mean(0)
    x = s[:h] - m
    w = np.linalg.solve(x.T @ x + 1e-2 * np.eye(s.shape[1]), x.T @ (y[:h] - ym))
    e = y[h:] - ((s[h:] - m) @ w + ym)
    return 1 - (e**2).sum(0) / ((y[h:] - y[h:].mean(0)) ** 2).sum(0)


def distances(x):
    return ((x[:, None] - x[None]) ** 2).sum(-1)[np.triu_indices(len(x), 1)]


def embeddings():
    q = rng.standard_normal((120, 4)).round(3)
    z = (q @ rng.standard_normal((4, 24)) + rng.standard_normal((120, 24)) * np.linspace(0.2, 2, 24)).round(3)
    w, s = centred_gram_eig(z)
    lam = w / (len(z) - 1)
    p = lam / lam.sum()
    sh = rng.permutation(120)
    qs = (q - q.mean(0)) / q.std(0)
    dz, dq = distances(z), distances(qs)
    out = {"z": z, "q": q, "shuffle": sh, "kept_components": len(lam), "eigenvalues_ddof1": lam, "normalised_spectrum": p,
           "participation_ratio": lam.sum() ** 2 / (lam**2).sum(), "effective_rank_exp_entropy": math.exp(-(p * np.log(p)).sum()),
           "ridge_r2_per_dim_topk": {str(k): ridge(s[sh][:, :k], qs[sh]) for k in (1, 2, 4, 8, 24)},
           "distance_pearson": np.corrcoef(dz, dq)[0, 1], "distance_spearman": stats.spearmanr(dz, dq).statistic, "pairs": len(dz)}
    norms = np.linalg.norm(z, axis=1)
    health = {"eff_rank": out["effective_rank_exp_entropy"], "z_norm_mean": norms.mean(), "z_norm_std_ddof1": norms.std(ddof=1)}
    wide = rng.standard_normal((10, 30)).round(3)
    ww, _ = centred_gram_eig(wide)
    return out, {"z": wide, "kept_components": len(ww), "eigenvalues_ddof1": ww / 9}, health


def rank_metrics():
    b = rng.gamma(2.0, 1.0, 64)
    a = b + rng.standard_normal(64)
    k, n = 6, 64
    ai, bi = np.argsort(a), np.argsort(b)
    true = np.empty(n)
    true[bi] = np.arange(n)
    return {"a": a, "b": b, "k_elite": k, "tau": stats.kendalltau(a, b).statistic, "regret": true[ai[0]] / (n - 1),
            "overlap": len(set(ai[:k]) & set(bi[:k])) / k, "elite_regret": true[ai[:k]].mean() / (n - 1), "value_regret": (b[ai[0]] - b.min()) / (b.mean() - b.min())}


def plain(o):
    if isinstance(o, dict):
        return {k: plain(v) for k, v in o.items()}
    if isinstance(o, (list, tuple, np.ndarray)):
        return [plain(v) for v in (o.tolist() if isinstance(o, np.ndarray) else o)]
    if isinstance(o, np.generic):
        o = o.item()
    return None if isinstance(o, float) and not math.isfinite(o) else o


pa, pb = rng.normal(60, 5, 18), rng.normal(58, 5, 18)
x, y = rng.standard_normal(40), rng.standard_normal(40)
emb, wide, health = embeddings()
np.seterr(all="ignore")
out = {
    "wilcoxon_and_t": {
        "published_per_set_scale_lewm": paired([66.0, 72.0, 67.5, 68.5, 72.2, 69.2], [62.5, 68.8, 64.5, 62.2, 68.1, 64.7]),
        "one_zero": paired([10, 10.6, 13.6, 17.0, 15.4, 13.6], [10] * 6),
        "five_same_sign": paired([1.5, 2, 3.25, 4, 5], [1, 1, 1, 1, 1]),
        "normal": paired(pa, pb),
        "ties_and_zeros": paired(rng.integers(0, 8, 15), rng.integers(0, 8, 15)),
        "long": paired(rng.normal(0.3, 1, 60)[:20], np.zeros(20)),
        "all_zero": paired([1, 2, 3], [1, 2, 3]),
    },
    "rank_correlation": {
        "independent": ranks(x, y), "related": ranks(x, x + y / 3), "short_exact": ranks(x[:9], y[:9] + x[:9]), "monotone": ranks(x[:12], np.exp(x[:12])),
        "ties": ranks(rng.integers(0, 5, 30), rng.integers(0, 4, 30)), "binary": ranks(rng.integers(0, 2, 50), rng.integers(0, 2, 50)),
        "constant": ranks(np.ones(6), x[:6]), "one_swap_of_many": ranks(np.arange(50.0), np.array([1, 0, *range(2, 50)], float)),
    },
    "bootstrap": bootstrap(),
    "mcnemar": [mcnemar(b, c) for b, c in ((7, 1), (8, 1), (12, 8), (52, 34), (0, 0), (5, 5), (0, 9), (1, 0), (300, 250))],
    "wilson": [wilson(k, n) for k, n in ((0, 10), (10, 10), (3, 10), (83, 100), (1, 600), (599, 600), (300, 600))],
    "multiplicity": (lambda p: {"p": p, "holm": holm(p), "benjamini_hochberg": stats.false_discovery_control(p)})(np.array([0.01, 0.04, 0.03, 0.005, 0.04, 0.9, 1.0, 0.2])),
    "embedding_analyses": emb, "wide_pca": wide, "latent_health": health, "rank_metrics": rank_metrics(),
}
json.dump(plain(out), sys.stdout, separators=(",", ":"), allow_nan=False)
print()
