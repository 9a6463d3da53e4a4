"""Writes reference/evalsets_small/reference.json: evaluation sets drawn by NumPy.

Made with NumPy 2.4.6 (numpy.random.default_rng) and zlib; run it with any
Python that has NumPy:  python evalsets.py
"""

import json
import pathlib
import zlib

import numpy as np

OFFSET = 25


def draw(ep_len, seed, n, minus_one):
    """The published generator: valid rows in file order, choice without replacement, sorted."""
    episode = np.concatenate([np.full(max(length - OFFSET, 0), i) for i, length in enumerate(ep_len)])
    start = np.concatenate([np.arange(max(length - OFFSET, 0)) for length in ep_len])
    pool = len(start) - (1 if minus_one else 0)
    index = np.sort(np.random.default_rng(seed).choice(pool, size=n, replace=False))
    return {"episode": episode[index].tolist(), "start": start[index].tolist()}


def data_set(ep_len, seeds, n):
    return {
        "ep_len": ep_len,
        "valid_starts": int(sum(max(length - OFFSET, 0) for length in ep_len)),
        "seeds": {
            str(s): {"fork_pool_minus_one": draw(ep_len, s, n, True), "head_full_pool": draw(ep_len, s, n, False)}
            for s in seeds
        },
    }


def planner_seed(index, tier):
    text = f"{index}|{tier}"
    crc = zlib.crc32(text.encode())
    return {"index": index, "tier": tier, "text": text, "seed": crc & 0x7FFFFFFF, "crc32_unmasked": crc}


def raw_choice(seed, pool, size):
    r = np.random.default_rng(seed)
    choice = r.choice(pool, size, replace=False)
    return {"seed": seed, "pool": pool, "size": size, "choice": choice.tolist(), "next_integers_0_1000": r.integers(0, 1000, 3).tolist()}


def generator_words():
    fresh = lambda: np.random.default_rng(101)
    return {
        "random_raw_uint64": [str(v) for v in fresh().bit_generator.random_raw(5)],
        "random": fresh().random(5).tolist(),
        "integers_0_10": fresh().integers(0, 10, 20).tolist(),
    }


mixed = np.random.default_rng(7).integers(10, 120, size=60).tolist()
out = {
    "goal_offset": OFFSET,
    "data_sets": {
        # one NumPy algorithm each: Floyd's sampling, and the tail shuffle of a
        # large pool of which more than 1/50 is drawn
        "mixed_lengths": data_set(mixed, [42, 101, 102, 106], 20),
        "short_episodes": data_set([26, 25, 27, 5, 30], [101, 105], 6),
        "large_draw": data_set([201] * 60, [103], 300),
    },
    "raw_choice": [raw_choice(s, p, n) for s in (0, 101) for p, n in ((1, 1), (50, 50), (10000, 201), (10001, 200), (10001, 201), (1759999, 100))],
    "generator_words_seed101": generator_words(),
    "planner_seeds": [planner_seed(i, t) for t in ("T1", "T2", "T3", "T4", "T5") for i in (0, 1, 9, 99)],
    "elites": {str(n): max(round(0.1 * n), 2) for n in (300, 150, 100, 50, 25, 20, 10)},
}
path = pathlib.Path(__file__).parent / "reference" / "evalsets_small" / "reference.json"
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text(json.dumps(out) + "\n")
