"""The published sample as NumPy draws it, in sample.json:
python fixture.py > sample.json (NumPy of third_party/peers.lock).
"""
import json

import numpy as np

out = []
for lengths in ([176] * 300, [30, 55, 200, 7] * 60, [12] * 40, [90] * 3000):
    n = len(lengths)
    start = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    g = np.random.default_rng(0)
    kept = g.permutation(n)[:int(0.1 * n)]
    pool = np.concatenate([start[e] + np.arange(lengths[e]) for e in kept])
    rows = np.sort(g.choice(pool, min(1500, len(pool)), replace=False))
    shuffle = g.permutation(len(rows))
    out.append({"lengths": lengths, "rows": rows.tolist(), "shuffle": shuffle.tolist(), "next": int(g.integers(0, len(rows)))})
print(json.dumps(out, separators=(",", ":")))
