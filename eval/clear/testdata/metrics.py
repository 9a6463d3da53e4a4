"""Writes metrics.json: outcomes and metrics of published results of CLEAR-LeWM (github.com/DavidSunok/CLEAR-LeWM
at ab8849c, MIT license), some next to those of random actions on the same manifest.

    python metrics.py CLEAR-LeWM
"""

import json
import sys
from pathlib import Path

ROOT = Path(sys.argv[1]) / "results" / "v0.5"
CASES = [
    ("pusht-moderate-official-lewm-seed42-n100", "pusht-moderate-random-seed42-n100"),
    ("cube-moderate-official-lewm-seed1-n100", "cube-moderate-random-seed1-n100"),
    ("reacher-strict-official-lewm-seed0-n100", "reacher-strict-random-seed0-n100"),
    ("tworoom-strict-official-lewm-seed42-n100", "tworoom-strict-random-seed42-n100"),
    ("cube-moderate-random-seed1-n100", None),
]


def read(name):
    return json.loads((ROOT / f"{name}.json").read_text())


def bits(result):
    return "".join("01"[x] for x in result["episode_successes"])


out = []
for name, random in CASES:
    result = read(name)
    out.append({"name": name, "seed": result["policy_seed"], "outcomes": bits(result), "random": bits(read(random)) if random else None, "metrics": result["metrics"]})
Path(__file__).with_name("metrics.json").write_text(json.dumps(out, indent=1) + "\n")
