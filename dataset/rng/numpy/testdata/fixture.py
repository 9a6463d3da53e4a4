"""Draws of numpy.random.default_rng for the test of package numpy. Prints
draws.json; made with NumPy 2.4.6."""
import hashlib, json, sys
import numpy as np


def digest(x):
    """The draws themselves where few, else their SHA-256 as little-endian int64."""
    x = np.asarray(x, np.int64)
    return x.tolist() if x.size <= 12 else hashlib.sha256(x.astype("<i8").tobytes()).hexdigest()


seeds = [0, 1, 7, 101, 102, 106, 3072, 2**31, 2**32 - 1, 2**32, 2**53 + 11, 2**64 - 1]
out = {"words": [], "choice": [], "integers": [], "permutation": []}
for s in seeds:
    r = np.random.default_rng(s)
    out["words"].append({"seed": str(s), "raw": [str(v) for v in r.bit_generator.random_raw(3).tolist()], "random": r.random(3).tolist()})
    pools = [(1, 1), (5, 0), (5, 5), (100, 99), (10000, 200), (10000, 201), (10000, 10000), (10001, 200), (10001, 201), (10050, 201), (10050, 202),
             (20000, 19999), (50000, 1000), (50000, 1001), (1759999, 100), (1760000, 100), (2**31 + 5, 60), (2**32, 60), (2**32 + 1, 60), (2**32 + 2, 60),
             (3 * 2**61, 40), (2**63 - 1, 20)]
    for pool, size in pools:
        r = np.random.default_rng(s)
        c = r.choice(pool, size, replace=False)
        out["choice"].append({"seed": str(s), "pool": pool, "size": size, "choice": digest(c), "next": int(r.integers(0, 1000))})
    # one generator through bounds of every branch, so that the kept half word is tested between them
    r = np.random.default_rng(s)
    bounds = [(0, 10), (5, 6), (0, 2**32), (-3, 4), (0, 2**32 + 1), (0, 7), (0, 2**31 + 1), (-(2**62), 2**62), (0, 3), (-(2**63), 2**63 - 1), (0, 2**62 + 2**61)]
    out["integers"].append({"seed": str(s), "bounds": bounds, "draws": [int(r.integers(a, b)) for a, b in bounds]})
    for n in (0, 1, 2, 3, 10, 1000, 65536, 65537):
        out["permutation"].append({"seed": str(s), "n": n, "permutation": digest(np.random.default_rng(s).permutation(n))})
json.dump(out, sys.stdout, separators=(",", ":"))
print()
