"""Writes results/: small results with the keys and types that CLEAR-LeWM's runner writes
(clear_lewm/runner.py at ab8849c for version 1, at 0c9d94d for version 2), on the manifests
of reference/protocols. The outcomes are ours.

    python results.py

Files of the same names are replaced.
"""

import hashlib
import json
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE / "results"
OUT.mkdir(exist_ok=True)

CHECKPOINT = {
    "policy_id": "mine/tworoom/weights.pt", "runtime_file": "weights.pt", "runtime_sha256": "ab" * 32,
    "source": {"repository": "someone/mine", "revision": "1"}, "state_dict_audit": {"available": True}, "target_audit": {"available": True, "targets": []},
}
SOLVER = {"batch_size": 1, "n_steps": 30, "num_samples": 300, "topk": 30}
INFERENCE = {
    "actor_warmstart_effective": None, "actor_warmstart_requested": False, "direct_solver": None, "direct_target_mode": None,
    "mode": "cem", "solver_target": "stable_worldmodel.solver.CEMSolver",
}


def result(manifest, policy, outcomes, **more):
    text = (HERE / "reference" / "protocols" / f"manifest_{manifest}.json").read_bytes()
    m = json.loads(text)
    assert len(m["pairs"]) == len(outcomes)
    rate = 100.0 * sum(outcomes) / len(outcomes)
    return {
        "schema_version": "clear-lewm-result-v1", "task": m["task"], "protocol": m["protocol"], "policy": policy, "checkpoint": None,
        "policy_seed": m["policy_seed"], "dataset_name": "tworoom", "dataset_file": m["dataset"]["name"], "dataset_fingerprint": m["dataset"]["fingerprint"],
        "manifest": f"manifests/v0.5/tworoom/{manifest}.json", "manifest_sha256": hashlib.sha256(text).hexdigest(),
        "criterion": {"sustained_steps": 1, "tworoom_distance_threshold": 16.0}, "solver": SOLVER, "inference": INFERENCE,
        "metrics": {"episodes": len(outcomes), "success_rate_percent": rate, "success_rate_ci95_percent": [0.0, 100.0]},
        "episode_successes": outcomes, "raw_world_metrics": {"episode_successes": outcomes, "seeds": None, "success_rate": rate},
        "topology": {"episodes": [{"env_index": i, "positions": [[30.0, 40.5]], "route_valid": True} for i in range(len(outcomes))], "invalid_routes": 0},
        "environment": {k + "_fingerprint": "cd" * 32 for k in ("physics", "numerics", "execution")},
        "versions": {"stable_worldmodel": "0.1.0", "torch": "2.6.0+cu124"}, "runtime": {"evaluation_seconds": 1.5},
    } | more


def without(r, *keys):
    return {k: v for k, v in r.items() if k not in keys}


FILES = {
    "search": result("moderate", "mine", [True, True, False, True, True], checkpoint=CHECKPOINT, benchmark_version="v0.8"),
    "random": result("moderate", "random", [False, False, False, True, False]),
    "early": without(result("moderate", "random", [False, True, False, False, False]), "checkpoint", "dataset_file", "dataset_fingerprint", "environment", "inference", "runtime", "topology"),
    "direct": result(
        "v2_rest", "mine", [True] * 4, checkpoint=CHECKPOINT, schema_version="clear-lewm-result-v2", benchmark_version="v0.9",
        inference=INFERENCE | {"mode": "direct", "direct_target_mode": "goal", "solver_target": None}, solver=dict.fromkeys(SOLVER),
        initialization={
            "mode": "rest-start", "velocity_field": None, "zeroed_pairs": 0, "history_source": "executed-rollout", "history_len": 3, "history_stride": 5,
            "policy_history_applied": False, "max_history_frames": 1,
        },
    ),
}
for name, value in FILES.items():
    (OUT / f"{name}.json").write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
