"""Writes reference/protocols/: draws, fingerprints, manifests and data sets with what
CLEAR-LeWM makes of them, in the layout of its reference cases (see reference_test.go).

    python reference.py CLEAR

CLEAR is a checkout of DavidSunok/CLEAR-LeWM at ab8849c. Needs NumPy 2.4 and h5py 3.16.
Files of the same names are replaced. The HDF5 files differ in no byte between runs.
"""

import copy
import hashlib
import json
import sys
from pathlib import Path

import h5py
import numpy as np

sys.path.insert(0, sys.argv[1])
from clear_lewm import datasets, manifests, protocols, topology  # noqa: E402

OUT = Path(__file__).parent / "reference" / "protocols"
OUT.mkdir(parents=True, exist_ok=True)
BY = {"source": "DavidSunok/CLEAR-LeWM ab8849c (package 0.5.1)", "numpy": np.__version__}


def write(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=False) + "\n")


# Draws and splits.


def columns(ep_len, ep_id):
    ids = np.repeat(np.asarray(ep_id, dtype=np.int64), ep_len)
    return {"ep_idx": ids, "step_idx": np.concatenate([np.arange(n) for n in ep_len])}


def draw(data, offset, mode, pool, seed, n, excluded=None, split=None):
    starts, _, ids, _ = datasets.valid_pairs(data, offset)
    out = {"mode": mode, "pool": pool, "seed": seed, "n": n}
    try:
        if split:
            out["split"] = {"fraction": split[0], "side": split[1]}
            train, held = datasets.split_episode_ids(ids, split[0], seed)
            starts = starts[np.isin(ids[starts], held if split[1] == "held-out" else train)]
        if excluded:
            out["excluded"] = excluded[0]
            starts = starts[~np.isin(starts, excluded[1])]
        if pool == "minus-one":
            starts = starts[:-1]
        out["candidates"] = len(starts)
        rows = datasets.sample_rows(starts, ids, n, seed, mode).tolist()
        out["rows"] = rows
        if len(set(rows)) < n:
            out["repeats"] = True
    except ValueError:
        out["error"] = True
    return out


def sampler():
    rng = np.random.default_rng(5)
    sets = {}
    for name, (count, offset, ids) in {
        "unsorted ids": (12, 25, "shuffled"),
        "offset 1": (7, 1, None),
        "large ids": (9, 10, "large"),
        "equal ids": (6, 5, "equal"),
        "many": (150, 75, None),
    }.items():
        ep_len = [int(n) for n in rng.integers(1 if offset < 20 else 10, 3 * offset + 12, count)]
        ep_id = list(range(count))
        if ids == "shuffled":
            ep_id = [int(v) for v in rng.permutation(100)[:count]]
        if ids == "large":
            ep_id = [int(v) for v in rng.integers(-(2**40), 2**40, count)]
        if ids == "equal":
            ep_id = [3, 1, 3, 2, 1, 0]
        data = columns(ep_len, ep_id)
        starts, _, _, _ = datasets.valid_pairs(data, offset)
        groups = len(np.unique(data["ep_idx"][starts]))
        excluded = ("some", [int(r) for r in starts[rng.random(len(starts)) < 0.7]])
        draws = []
        for seed in (101, 2**32, 2**64 - 1):
            for n in (1, groups, groups + 1, 3 * groups, len(starts), len(starts) + 1, 0):
                for mode in ("row-uniform", "episode-balanced"):
                    if n > 300:
                        continue
                    draws.append(draw(data, offset, mode, "full", seed, n))
                    draws.append(draw(data, offset, mode, "minus-one", seed, min(n, 60)))
            for fraction, side in ((0.2, "held-out"), (0.5, "train"), (0.01, "held-out"), (0.0, "held-out"), (1.0, "train")):
                for mode in ("row-uniform", "episode-balanced"):
                    draws.append(draw(data, offset, mode, "full", seed, 5, excluded, (fraction, side)))
            draws.append(draw(data, offset, "episode-balanced", "minus-one", seed, 6, excluded))
        entry = {"ep_len": ep_len, "goal_offset": offset, "valid": len(starts), "valid_row_sum": int(starts.sum()), "excluded": {"some": excluded[1]}, "draws": draws}
        if ids:
            entry["ep_id"] = ep_id
        sets[name] = entry
    splits = []
    for ids, fraction, seed in (
        (list(range(25)), 0.1, 0),
        (list(range(15)), 0.1, 2**64 - 1),
        (list(range(35)), 0.1, 1),
        ([9, -4, 9, 1000000007, 3, 3], 0.5, 2**63),
        ([5], 0.01, 3),
        ([], 0.5, 3),
        (list(range(2000, 0, -3)), 0.375, 42),
        ([1, 2, 3], 0.0, 42),
    ):
        held = datasets.split_episode_ids(np.asarray(ids, dtype=np.int64), fraction, seed)[1]
        splits.append({"ids": ids, "fraction": fraction, "seed": seed, "held_out": held.tolist()})
    write("sampler_own.json", {"family": "sampler", **BY, "data_sets": sets, "splits": splits})


# Fingerprints of files that need not exist as such.


def fingerprint():
    text, odd = h5py.string_dtype(), {"a\"b\\c": "i1", "tab\tnew\nline\x7f": "u2", "größe": ">f8", "\U0001f600 <&>": "f2", "\u2028": "S1"}
    cases = []
    record = {"c": "c8", "r": [("a", "f4"), ("b", "S3")], "v": "V5"}
    path = Path("case.h5")
    for types, shape in (({}, ()), ({"x": ">f4", "name": "S12", "note": text, "done": bool}, (2**33, 1)), (odd, ()), (odd, (0, 3, 2)), (record, (4,))):
        with h5py.File(path, "w") as f:
            for key, dtype in types.items():
                f.create_dataset(key, shape, dtype, chunks=(64, 1) if len(shape) == 2 else None)
            f.create_group("left out")["x"] = np.zeros(3)
            schema = [{"key": k, "dtype": str(d.dtype), "shape": list(d.shape)} for k, d in f.items() if isinstance(d, h5py.Dataset)]
        cases.append({"schema": schema[::-1], "size_bytes": path.stat().st_size, "sha256": datasets.metadata_fingerprint(path)})
        path.unlink()
    write("fingerprint_own.json", {"family": "fingerprint", **BY, "cases": cases})


# Data sets of Two-Room.


def walk(rng, length):
    """Places of an agent that goes to the other room and back, by the rule with walls
    in most episodes and through them in others."""
    floor = topology.canonical_tworoom_geometry()
    place = np.array([rng.uniform(60, 100), rng.uniform(30, 70)])
    through = rng.random() < 0.3
    places, target = [], np.array([rng.uniform(124, 190), rng.uniform(30, 90)])
    via = np.array([112.0, 49.0])
    for _ in range(length):
        places.append(place)
        if (place[0] < 112) == (target[0] < 112):
            aim = target
        else:
            aim = via + [12 if target[0] > 112 else -12, 0] if np.hypot(*(place - via)) < 12 else via
        if np.hypot(*(place - target)) < 4:
            target = np.array([rng.uniform(30, 100) if place[0] > 112 else rng.uniform(124, 190), rng.uniform(30, 90)])
        step = (aim - place) / max(1e-9, np.hypot(*(aim - place))) * rng.uniform(1, 5) + rng.normal(0, 1, 2)
        if through and rng.random() < 0.2:
            step = step + [0, rng.normal(0, 12)]
            place = np.clip(place + step, 15, 209)
        else:
            place = np.asarray(topology.resolve_motion(floor, place, place + step).position)
    return np.asarray(places)


def data_set(name, seed, ep_len, ep_id, big=False, extra=False):
    rng = np.random.default_rng(seed)
    places = np.concatenate([walk(rng, n) for n in ep_len]).astype(">f4" if big else "f4")
    rows = len(places)
    with h5py.File(OUT / f"manifest_{name}.h5", "w") as f:
        f["proprio"], f["state"] = places, places
        f["action"] = rng.uniform(-1, 1, (rows, 2)).astype("f4")
        f["ep_idx"] = np.repeat(np.asarray(ep_id, dtype=">i8" if big else "i4"), ep_len)
        f["step_idx"] = np.concatenate([np.arange(n) for n in ep_len]).astype("i4")
        f["ep_len"] = np.asarray(ep_len, dtype="i4")
        f["ep_offset"] = np.cumsum([0, *ep_len[:-1]]).astype("i8")
        f["terminated"] = np.zeros(rows, dtype=bool)
        if extra:
            f["größe <&>"] = np.zeros((rows, 1), dtype=">f8")
            f["label"] = np.full(rows, b"abc", dtype="S12")
            f.create_dataset("note", rows, h5py.string_dtype())
            f["half"] = np.zeros((rows, 2), dtype="f2")
            f.create_group("group")["inner"] = np.zeros(3)
            f["scalar"] = np.int16(7)
            f.create_dataset("colour", rows, h5py.enum_dtype({"RED": 0, "BLUE": 1}, "u1"))
    return describe(name, ep_len, ep_id)


def other_task(name, task, seed, ep_len, ep_id):
    """A data set of another task: random walks whose steps differ by episode, so that a
    part of the starts is solved."""
    rng = np.random.default_rng(seed)
    rows, scale = sum(ep_len), np.repeat(rng.choice([0.05, 0.3, 1, 3], len(ep_len)), ep_len)[:, None]

    def walk_of(width, step):
        return np.cumsum(rng.normal(0, step, (rows, width)) * scale, axis=0)

    with h5py.File(OUT / f"manifest_{name}.h5", "w") as f:
        if task == "pusht":
            state = walk_of(7, 2.0)
            state[:, 4] = np.mod(walk_of(1, 0.03)[:, 0], 2 * np.pi)
            f["state"] = state.astype("f4")
        elif task == "reacher":
            f["qpos"] = walk_of(2, 0.02) + [6.2, 0]
            f["finger_pos"] = walk_of(2, 0.003)
        else:
            f["privileged_block_0_pos"] = walk_of(3, 0.008)
            turns = walk_of(4, 0.02) + [1, 0, 0, 0]
            f["privileged_block_0_quat"] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
        f["action"] = rng.uniform(-1, 1, (rows, 2)).astype("f4")
        f["episode_idx" if task == "pusht" else "ep_idx"] = np.repeat(np.asarray(ep_id), ep_len)
        f["step_idx"] = np.concatenate([np.arange(n) for n in ep_len])
        f["ep_len"] = np.asarray(ep_len, dtype="i4")
        f["ep_offset"] = np.cumsum([0, *ep_len[:-1]]).astype("i8")
    return describe(name, ep_len, ep_id, task)


def describe(name, ep_len, ep_id, task="tworoom"):
    path = OUT / f"manifest_{name}.h5"
    with h5py.File(path) as f:
        schema = [{"key": k, "dtype": str(f[k].dtype), "shape": list(f[k].shape)} for k in f if isinstance(f[k], h5py.Dataset)]
    return {
        "file": path.name, "task": task, "ep_len": ep_len, "ep_id": ep_id, "schema": schema, "size_bytes": path.stat().st_size,
        "metadata_sha256": datasets.metadata_fingerprint(path), "file_sha256": datasets.file_sha256(path),
    }


def twin():
    """Copies a data set and exchanges two ids, which its metadata-sha256 does not show."""
    path = OUT / "manifest_twin.h5"
    path.write_bytes((OUT / "manifest_ids.h5").read_bytes())
    with h5py.File(path, "r+") as f:
        ids = f["ep_idx"][:]
        a, b = ids[0], ids[-1]
        f["ep_idx"][:] = np.where(ids == a, b, np.where(ids == b, a, ids))
        order = f["ep_idx"][:][f["ep_offset"][:]]
    return [int(v) for v in order]


# Manifests.

RULES = {"official": "upstream", "moderate": "clear-moderate", "strict": "clear-strict"}
DATA, MANIFESTS = {}, {}


def generate(name, data, protocol, seed, n, split=None, full=False, version=1, change=None):
    spec = protocols.get_protocol(protocol) if isinstance(protocol, str) else protocol
    task = DATA[data]["task"]
    m = manifests.generate_manifest(OUT / DATA[data]["file"], task, spec, n, seed, split, full)
    m["created_utc"] = "2026-11-27T12:00:00+00:00"
    m["protocol"]["description"] = "A text of ours, with < & > and an ü, that comes back as it is."
    starts = [[DATA[data]["ep_id"].index(p["episode_id"]), p["start_step"]] for p in m["pairs"]]
    entry = {
        "data": data, "ok": True, "task": task, "protocol": spec.name, "goal_offset": spec.goal_offset, "budget": spec.eval_budget, "policy_seed": seed,
        "rule": RULES.get(spec.name, "upstream"), "hold": spec.hold_steps(task) if spec.success_mode == "task-sustained" or spec.success_mode == "cube-pose" and task == "cube" else 1,
        "statistics": m["statistics"], "starts": starts, "redraw": True,
    }
    if version == 2:
        rest = spec.name in ("moderate", "strict")
        m["schema_version"], m["benchmark_version"] = "clear-lewm-manifest-v2", "v0.9"
        if rest:
            m["initialization"] = {"mode": "rest-start", "history_source": "executed-rollout", "history_len": 3, "history_stride": 5}
            entry |= {"start_state": "rest-start", "history": 3, "stride": 5}
        else:
            m["initialization"] = {"mode": "recorded-state", "history_source": "single-observation", "history_len": 1}
            entry |= {"start_state": "recorded-state", "history": 1}
    if change:
        change(m, entry)
    save(name, m, entry)
    return m


def save(name, m, entry):
    raw = m if isinstance(m, bytes) else (json.dumps(m, indent=2 if entry["ok"] else None, sort_keys=True) + "\n").encode()
    (OUT / f"manifest_{name}.json").write_bytes(raw)
    if entry["ok"]:
        entry["sha256"] = hashlib.sha256(raw).hexdigest()
    MANIFESTS[f"manifest_{name}.json"] = entry


def good():
    generate("moderate", "ids", "moderate", 2**64 - 1, 5)
    generate("strict", "ids", "strict", 2**63 + 1, 6)
    generate("official", "ids", "official", 0, 12)
    generate("official_compat", "ids", "official-compat", 3, 12, full=True)
    generate("legacy_id", "ids", "clear-id", 1, 9)
    generate("legacy_standard", "ids", "clear-standard", 2, 3)
    generate("legacy_hard", "ids", "clear-hard", 3, 2)
    generate("train", "ids", "clear-standard", 2, 9, split="train")
    generate("more_than_episodes", "ids", "clear-id", 5, 14)
    generate("types", "types", "moderate", 7, 2)
    generate("types_file", "types", "official", 7, 4, full=True)
    generate("v2_rest", "ids", "strict", 11, 4, version=2)
    generate("v2_recorded", "types", "official", 11, 4, version=2)
    spec = protocols.PROTOCOLS["moderate"].__dict__ | {"goal_offset": 10, "eval_budget": 33, "sustained_steps": 1, "tworoom_sustained_steps": 2}
    generate("offset_10", "ids", protocols.ProtocolSpec(**spec), 13, 6, change=lambda m, e: e.pop("rule"))

    def defaults(m, e):
        for key in ("goal_offset", "eval_budget", "reacher_endpoint_threshold_m", "reacher_success_mode", "tworoom_goal_side_required", "cube_sustained_steps", "sustained_steps", "min_difficulty"):
            del m["protocol"][key]

    generate("defaults", "ids", "moderate", 17, 3, change=defaults)

    def reorder(m, e):
        m["pairs"].reverse()
        e["starts"].reverse()
        e["redraw"] = False

    generate("reordered", "ids", "moderate", 17, 4, change=reorder)
    for task in ("pusht", "reacher", "cube"):
        for i, protocol in enumerate(("official", "moderate", "strict", "clear-hard")):
            numbers = lambda m, e: e.pop("rule") if m["protocol"]["success_mode"] == "cube-pose" and m["task"] == "cube" else None  # noqa: E731
            # Few held-out pairs are far enough: take the first seed that has three.
            for seed in range(i, 100):
                try:
                    generate(f"{task}_{protocol}", task, protocol, seed, 3 if i == 3 else 5, change=numbers)
                    break
                except (ValueError, TypeError):
                    pass
    wrapped = protocols.PROTOCOLS["strict"].__dict__ | {"reacher_success_mode": "joint", "reacher_wrap_angles": True, "reacher_angle_mode": None, "min_difficulty": {"reacher": 0.4}}
    generate("reacher_wrapped", "reacher", protocols.ProtocolSpec(**wrapped), 8, 4, change=lambda m, e: e.pop("rule"))
    far = protocols.PROTOCOLS["strict"].__dict__ | {"min_difficulty": {"tworoom": 20.0, "pusht": 12.0, "reacher": 0.02, "cube": 0.05}}
    for task, data in (("tworoom", "ids"), ("pusht", "pusht"), ("reacher", "reacher"), ("cube", "cube")):
        generate(f"{task}_far", data, protocols.ProtocolSpec(**far), 9, 2)
    generate("alias", "ids", "moderate", 17, 4, change=lambda m, e: m.update(task="Two-Room"))


def bad():
    base = json.loads((OUT / "manifest_moderate.json").read_bytes())
    v2 = json.loads((OUT / "manifest_v2_rest.json").read_bytes())

    def case(name, why, change, source=base, by="spec 5", **more):
        m = copy.deepcopy(source)
        change(m)
        save("bad_" + name, m, {"data": "ids", "ok": False, "why": why, "by": by, **more})

    def pair(name, why, i=2, **values):
        case(name, why, lambda m: m["pairs"][i].update(values))

    p = base["pairs"][2]
    other = base["pairs"][3]
    clear = "CLEAR: manifests.load_manifest"
    pair("goal_row", "pair 2: the goal is 24 rows on", goal_row=p["goal_row"] - 1)
    pair("goal_step", "pair 2: the goal is 26 steps on", goal_step=p["goal_step"] + 1)
    pair("start_step", "pair 2: row and step disagree", start_step=p["start_step"] + 1, goal_step=p["goal_step"] + 1)
    pair("episode", "pair 2: the row is in another episode", episode_id=other["episode_id"])
    pair("unknown_episode", "pair 2: no such episode", episode_id=-5)
    pair("beyond", "pair 2: the row is beyond the file", start_row=10**6, goal_row=10**6 + 25)
    pair("negative", "pair 2: negative row", start_row=-1, goal_row=24)
    pair("huge", "pair 2: a row beyond 64 bits", start_row=2**70, goal_row=2**70 + 25)
    pair("float", "pair 2: a row that is no integer", start_row=p["start_row"] + 0.5)
    pair("text", "pair 2: a step that is text", start_step=str(p["start_step"]))
    pair("null", "pair 2: a step that is null", start_step=None)
    pair("pair_id", "pair 2: a pair_id that stands twice", pair_id=1)
    case("duplicate", "pair 2 is pair 3", lambda m: m["pairs"].__setitem__(2, other | {"pair_id": 2}))
    case("missing_row", "pair 2: no start_row", lambda m: m["pairs"][2].pop("start_row"))
    first = DATA["ids"]["ep_len"][0]
    cross = {"episode_id": DATA["ids"]["ep_id"][0], "start_step": first - 3, "goal_step": first + 22, "start_row": first - 3, "goal_row": first + 22}
    pair("crossing", "pair 2: the goal is in the next episode", **cross)
    case("no_pairs", "no pairs", lambda m: m["pairs"].clear())
    case("fewer_pairs", "a pair less than num_eval", lambda m: m["pairs"].pop())
    case("pairs_object", "pairs are an object", lambda m: m.update(pairs={"0": m["pairs"][0]}))
    case("schema", "schema_version 3", lambda m: m.update(schema_version="clear-lewm-manifest-v3"), by=clear, clear_raises="ValueError")
    case("no_schema", "no schema_version", lambda m: m.pop("schema_version"), by=clear, clear_raises="ValueError")
    case("result", "a result, not a manifest", lambda m: m.update(schema_version="clear-lewm-result-v1"), by=clear, clear_raises="ValueError")
    case("task", "unknown task", lambda m: m.update(task="antmaze"), by="CLEAR: protocols.normalize_task", clear_raises="ValueError")
    case("other_task", "a manifest of Push-T", lambda m: m.update(task="pusht"))
    case("protocol", "unknown protocol", lambda m: m["protocol"].update(name="lenient"), by="CLEAR: protocols.protocol_from_dict", clear_raises="ValueError")
    case("no_protocol", "no protocol", lambda m: m.pop("protocol"), by="CLEAR", clear_raises="KeyError")
    case("no_sampling", "no sampling, which has no default", lambda m: m["protocol"].pop("sampling"), by="CLEAR: protocols.protocol_from_dict", clear_raises="ValueError")
    case("sampling", "unknown sampling", lambda m: m["protocol"].update(sampling="uniform"))
    case("split", "unknown split", lambda m: m.update(split="test"))
    case("split_empty", "held-out split of a protocol without one", lambda m: m.update(split="heldout"))
    case("fraction", "a held-out fraction above 1", lambda m: m["protocol"].update(heldout_fraction=1.5))
    case("offset_zero", "goal offset 0", lambda m: m["protocol"].update(goal_offset=0))
    case("offset_other", "goals are 25 rows on, the protocol says 50", lambda m: m["protocol"].update(goal_offset=50))
    case("budget", "budget 0", lambda m: m["protocol"].update(eval_budget=0))
    case("hold", "hold 0", lambda m: m["protocol"].update(tworoom_sustained_steps=0))
    case("threshold", "threshold as text", lambda m: m["protocol"].update(tworoom_distance_threshold="16"))
    case("threshold_negative", "negative threshold", lambda m: m["protocol"].update(tworoom_distance_threshold=-16.0))
    case("mode", "unknown success_mode", lambda m: m["protocol"].update(success_mode="strict"))
    case("collision", "unknown collision mode", lambda m: m["protocol"].update(tworoom_collision_mode="bounce"))
    case("kind", "unknown kind of fingerprint", lambda m: m["dataset"]["fingerprint"].update(kind="md5"))
    case("value", "a fingerprint that is none", lambda m: m["dataset"]["fingerprint"].update(value="abc"))
    case("no_fingerprint", "no fingerprint", lambda m: m["dataset"].pop("fingerprint"), by="CLEAR", clear_raises="KeyError")
    case("column", "unknown column of ids", lambda m: m["dataset"].update(episode_column="id"))
    case("column_missing", "a column of ids that the file lacks", lambda m: m["dataset"].update(episode_column="episode_idx"))
    case("seed", "no policy_seed", lambda m: m.pop("policy_seed"), by="CLEAR", clear_raises="KeyError")
    case("seed_negative", "a negative policy_seed", lambda m: m.update(policy_seed=-1))
    case("fingerprint", "another file", lambda m: m["dataset"]["fingerprint"].update(value="0" * 64), by="CLEAR: runner", clear_raises="ValueError", with_other_data=True)
    case("file_fingerprint", "another file", lambda m: m["dataset"]["fingerprint"].update(kind="file-sha256"), by="CLEAR: runner", clear_raises="ValueError", with_other_data=True)
    save("bad_twin", json.loads((OUT / "manifest_moderate.json").read_bytes()), {"data": "twin", "ok": False, "why": "two episodes have each other's ids", "by": "spec 5"})
    case("v2_version", "v2 of v0.8", lambda m: m.update(benchmark_version="v0.8"), v2, "CLEAR 0.9", clear_raises="ValueError")
    case("v2_no_version", "v2 without benchmark_version", lambda m: m.pop("benchmark_version"), v2, "CLEAR 0.9", clear_raises="ValueError")
    case("v2_mode", "v2 with another mode", lambda m: m["initialization"].update(mode="zero-start"), v2, "CLEAR 0.9", clear_raises="ValueError")
    case("v2_history", "v2 with a history of 2", lambda m: m["initialization"].update(history_len=2), v2, "CLEAR 0.9", clear_raises="ValueError")
    case("v2_extra", "v2 with a further key", lambda m: m["initialization"].update(noise=1), v2, "CLEAR 0.9", clear_raises="ValueError")
    case("v2_mixed", "recorded state with history", lambda m: m["initialization"].update(mode="recorded-state"), v2, "CLEAR 0.9", clear_raises="ValueError")
    case("v2_none", "v2 without initialization", lambda m: m.pop("initialization"), v2, "CLEAR 0.9", clear_raises="ValueError")
    raw = (OUT / "manifest_moderate.json").read_bytes()
    for name, why, content in (
        ("empty", "empty", b""),
        ("torn", "without its last bytes", raw[:-20]),
        ("trailing", "something follows", raw + b"{}"),
        ("list", "a list", b"[" + raw + b"]"),
        ("null", "null", b"null\n"),
        ("bom", "begins with a byte order mark", b"\xef\xbb\xbf" + raw),
        ("latin1", "not UTF-8", raw.replace(b"\\u00fc", b"\xfc")),
        ("binary", "an HDF5 file", (OUT / "manifest_types.h5").read_bytes()[:3000]),
    ):
        save("bad_file_" + name, content, {"data": "ids", "ok": False, "why": why, "by": clear, "clear_raises": "an error"})


sampler()
fingerprint()
lengths = [44, 31, 26, 25, 60, 33, 41, 52, 38, 70]
DATA["ids"] = data_set("ids", 1, lengths, [40, 7, 3, 12, 100, 99, 0, 1, 5, 41])
DATA["types"] = data_set("types", 2, [40, 30, 55], [2, 0, 1], big=True, extra=True)
DATA["twin"] = describe("twin", lengths, twin())
for task in ("pusht", "reacher", "cube"):
    DATA[task] = other_task(task, task, 4, lengths, [40, 7, 3, 12, 100, 99, 0, 1, 5, 41])
good()
bad()
write("expected_own.json", {"family": "expected", **BY, "data_sets": DATA, "manifests": MANIFESTS})
