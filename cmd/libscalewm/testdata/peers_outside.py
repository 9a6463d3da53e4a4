"""python peers_outside.py TASK RUN DATA OUT: a checkpoint of TASK plans in our port and in stable-worldmodel's own world, in this process
and in two others. TestPeersOutside runs it."""

import json
import sys
import time
from pathlib import Path

import gymnasium

import scalewm

task, run, data, out = sys.argv[1:]


def make():
    import stable_worldmodel  # noqa: F401  registers the ids

    return gymnasium.make({"pusht": "swm/PushT-v1", "tworoom": "swm/TwoRoom-v1"}[task], render_mode="rgb_array", max_episode_steps=None)


def rows(folder):
    (path,) = (p for p in (Path(out) / folder / "cells").glob("*.json") if not p.name.endswith(".run.json"))
    return json.loads(path.read_text())["result"]


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)  # Two-Room draws with torch
    model = scalewm.load(run)
    k = {"name": "mine", "tier": "T3", "sets": "s101", "episodes": 100, "goal_offset": 15}
    for folder, world in (("ours", {"task": task}), ("theirs", {"world": make}), ("processes", {"world": make, "workers": 2})):
        began = time.perf_counter()
        scalewm.evaluate(model, data=data, out=f"{out}/{folder}", **k, **world)
        print(f"{task} {folder}: {time.perf_counter() - began:.1f} s")
    ours, theirs, processes = map(rows, ("ours", "theirs", "processes"))
    assert theirs == processes
    pairs = list(zip(ours["rows"], theirs["rows"]))
    solved, differ, steps = sum(a["success"] for a, _ in pairs), sum(a["success"] != b["success"] for a, b in pairs), sum(a["steps"] != b["steps"] for a, b in pairs)
    print(f"{task}: {solved} of {len(pairs)} solved in ours, {differ} end otherwise in theirs, {steps} after other steps; replay gate {theirs['replayed']}")
    assert len(pairs) == 100 and solved > 0 and differ <= 2 and all(abs(a["plan_cost"] - b["plan_cost"]) <= 1e-6 * a["plan_cost"] for a, b in pairs)
    assert theirs["replayed"]["passed"] == 20 or task == "pusht"  # whose _set_state takes a physics step
