"""Calls the library with what no careful program would: every answer is a value or scalewm.Error.

    fuzz_abi.py SECONDS [SEED]

SCALEWM_RECORDINGS may name a folder with tworoom.h5 and a trained model, which are asked too. Wrong operations, handles that were closed or never were, requests that are no JSON, buffers that are
missing, too short, too long, misaligned or full of NaN, several threads at once. The process that
survives says how many calls it made. Addresses are always of memory that is there.
"""

import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from scalewm import Error, _abi, tasks

OPERATIONS = ["open", "worlds.new", "worlds.make", "worlds.vary", "worlds.reset", "worlds.step", "worlds.set",
              "worlds.observe", "worlds.frames", "model.load", "model.encode", "model.rollout", "clips.new", "clips.open", "clips.clip", "clips.step", "evaluate.new", "evaluate.next", "evaluate.take", "evaluate.give", "recording.new", "recording.append", "recording.finish", "close", "nosuch", ""]  # fmt: skip
HERE = Path(os.environ.get("SCALEWM_RECORDINGS", ""))
FOLDER = tempfile.mkdtemp()
RECORDING, RUN = HERE / "tworoom.h5", HERE / "run"
PLANAR = ["tworoom", "pusht", "pointmaze", "reacher"]
WILD = [0.0, -0.0, 1.0, -1.0, 1e-308, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 1e9, 255, -7]


def text(r):
    return r.choice(["", "{", "null", "[]", "{}", '{"task": 3}', "\x00", "é" * 30, '{"n": 1e99}', "9" * 400, '{"columns": {}}',
                     "[" * 3000, '{"what": null, "columns": [{"name": "state", "width": -1}]}'])  # fmt: skip


def array(r, n):
    """An array for n worlds, or not."""
    kind = r.randrange(8)
    if kind == 0:
        return None
    width = r.choice([0, 1, 2, 2, 4, 7, 10, 150528 if r.random() < 0.05 else 3])
    a = np.zeros(max(0, n * width + r.choice([0, 0, 0, 1, -1])), r.choice(["u1", "f4", "f8", "i8", "?"]))
    if a.dtype.kind == "f" and a.size:
        a[r.randrange(a.size)] = r.choice(WILD)
    elif a.dtype.kind == "i":
        a[:] = r.choice([0, -1, 2**62, 5])
    elif a.size < 100:
        a[:] = [r.randrange(2) for _ in range(a.size)]
    return a[1:] if kind == 1 else np.frombuffer(b"\0" + a.tobytes(), "u1")[1:] if kind == 2 else a


class Known:
    """Worlds, clips and models that are there, with what they need, so that some calls are nearly right."""

    def __init__(self):
        self.handles = [0, 1, 2**64 - 1]
        self.worlds = {}
        self.clips, self.models, self.recordings = {}, {}, {}


def spoiled(r, arrays, n):
    """Arrays as they have to be or, at times, not."""
    if arrays and r.random() < 0.3:
        i = r.randrange(len(arrays))
        return r.choice([arrays[:i], arrays[:i] + [array(r, n)] + arrays[i + 1 :], arrays + [array(r, n)]])
    return arrays


def nearly(r, w):
    """A call that is right but for one thing, or right."""
    n, task, watch = w["n"], w["task"], w["watch"]
    about = tasks()[task]
    widths = {c["name"]: (c["width"], c["dtype"]) for c in about["columns"]}
    out = [np.empty((n, widths[c][0]), widths[c][1]) if c in widths else np.empty((n, 150528), "u1") for c in watch]
    mask = r.choice([None, np.array([r.randrange(2) for _ in range(n)], bool)])
    actions = np.array([[r.uniform(-1, 1) for _ in range(about["action"]["width"])] for _ in range(n)], about["action"]["dtype"])
    state = about["state_columns"][:1] if task == "tworoom" else about["state_columns"]
    rows = np.array([[r.uniform(-200, 300) for c in state for _ in range(widths[c][0])] for _ in range(n)], float)
    for a in (actions, rows):
        if r.random() < 0.3:
            a[r.randrange(n), r.randrange(a.shape[1])] = r.choice(WILD)
    columns = {"what": r.choice(["state", "goal", "start"]), "columns": [{"name": c, "width": widths[c][0]} for c in state]}
    factors = [f["name"] for f in about["factors"]] or ["nosuch"]
    operation, request, arrays = r.choice([
        ("worlds.reset", None, [mask, np.array([r.choice([-1, 0, 5, 2**62]) for _ in range(n)]), *out]),
        ("worlds.step", None, [mask, actions, np.empty(n), np.empty(n, bool), *out]),
        ("worlds.step", None, [None, actions, np.empty(n), np.empty(n, bool), *out]),
        ("worlds.set", columns, [mask, rows, *out]),
        ("worlds.vary", {"options": {r.choice(factors): r.choice(["sample", "1", "0,0,0", "nan", "-1e9", "", "1e400"])}}, [mask]),
        ("worlds.observe", None, out),
    ])  # fmt: skip
    return operation, request, spoiled(r, arrays, n)


def open_clips(r, known):
    """Clips of the recording, or not."""
    wants = {"path": str(RECORDING), "frames": r.choice([1, 2, 3, 0]), "skip": r.choice([1, 5, 60, -1]), "size": r.choice([0, 28, 1, -1, 2**40]),
             "split": r.choice(["train", "val", "all", "no"]), "seed": r.choice([0, -1, 2**62]), "protocol": r.choice(["paper", "strict", ""]),
             "columns": r.choice([[], ["proprio"], ["pixels"], ["action", "step_idx"]]), "normalised": r.random() < 0.5, "workers": r.choice([0, 1, 3])}  # fmt: skip
    h = _abi.call("clips.new", 0, wants)["handle"]
    known.handles.append(h)
    try:
        while (about := _abi.call("clips.open", h))["want"] != "done":
            pass
    except Error:
        _abi.call("close", h)
        raise
    known.clips[h] = {**wants, **about}


def nearly_clips(r, c):
    """A call for clips that is right but for one thing, or right."""
    n, t, size = r.choice([1, 2, 5]), c["frames"], c["frame_size"] ** 2 * 3
    out = [np.empty((n, t, size), "f4" if c["normalised"] else "u1"), np.empty((n, t, c["skip"] * c["actions"]), "f4"), np.empty((n, t), "i4"), np.empty(n, "i4")]
    out += [np.empty((n, t, column["width"]), column["dtype"]) for column in c["columns"]]
    if r.random() < 0.5:
        return "clips.step", {"batch": r.choice([n, n, n, 0, 2**40]), "step": r.choice([0, 1, 50, -1, 2**62])}, spoiled(r, out, n)
    which = np.array([r.choice([r.randrange(c["clips"])] * 9 + [-1, c["clips"], 2**62]) for _ in range(n)])
    return "clips.clip", None, spoiled(r, [which, *out], n)


def open_recording(r, known):
    """A recording into a new file, or not."""
    columns = [{"name": r.choice(["a", "b", "a/b", "pixels"]), "dtype": r.choice(["float32", "int64", "uint8", "U3"]), "width": r.choice([1, 2, 2, 0, -1, 2**40, 2**62]), "matrix": r.random() < 0.5} for _ in range(r.choice([0, 1, 1, 2]))]
    q = {"out": f"{FOLDER}/{r.randrange(50)}.h5", "spec": r.choice(["one", "one", "two", ""]), "attrs": r.choice([{}, {"env": "x"}, None]), "columns": columns,
         "frame_size": r.choice([1, 8, 8, 8, 0, -1, 4097, 2**62]), "episodes": r.choice([1, 3, 3, 0, -1, 2**62]), "max_rows": r.choice([5, 1000, 0, 2**62])}  # fmt: skip
    h = _abi.call("recording.new", 0, q)["handle"]
    known.handles.append(h)
    known.recordings[h] = q


def nearly_recording(r, q):
    """A call for a recording that is right but for one thing, or right."""
    n = r.choice([1, 2, 5, 5, 0, 6])
    arrays = [np.zeros((n, c["width"]), c["dtype"]) for c in q["columns"]] + [np.zeros((n, q["frame_size"] ** 2 * 3), "u1")]
    return r.choice([("recording.append", None, spoiled(r, arrays, n))] * 4 + [("recording.finish", None, []), ("close", None, [])])


def nearly_model(r, m):
    """A call for a model that is right but for one thing, or right."""
    n, c, h, info = r.choice([1, 2, 5]), r.choice([1, 3, 200]), r.choice([1, 5, 6]), m["info"]
    latent = info["patches"] * info["dim"]
    if r.random() < 0.5:
        return "model.encode", None, spoiled(r, [np.zeros((n, 3 * info["frame_size"] ** 2), "u1"), np.empty((n, latent), "f4")], n)
    request = {"episodes": r.choice([n, n, n, 0, 2**62]), "candidates": r.choice([c, c, c, -1, 2**40]), "blocks": r.choice([h, h, h, 0, 2**31])}
    numbers = [np.full((n, latent), r.choice([0, 0, 1e30, *WILD]), "f4"), np.zeros((n, c, h * info["action_width"]), "f4")]
    goals = [np.zeros((n, latent), "f4")] if r.random() < 0.5 else []
    return "model.rollout", request, spoiled(r, [*numbers, *goals, np.empty((n, c) if goals else (n, c, latent), "f4")], n)


def fuzz(r, until, known, counts):
    while time.time() < until:
        if known.worlds and r.random() < 0.7:
            handle = r.choice(list(known.worlds) or [0])
            w = known.worlds.get(handle)
            operation, request, arrays = nearly(r, w) if w else ("close", None, [])
        elif known.clips and r.random() < 0.5:
            handle, clips = r.choice(list(known.clips.items()))
            operation, request, arrays = nearly_clips(r, clips)
        elif known.recordings and r.random() < 0.5:
            handle, q = r.choice(list(known.recordings.items()))
            operation, request, arrays = nearly_recording(r, q)
        elif known.models and r.random() < 0.3:
            handle, m = r.choice(list(known.models.items()))
            operation, request, arrays = nearly_model(r, m)
        else:
            operation, handle = r.choice(OPERATIONS), r.choice(known.handles)
            request = r.choice([None, {"home": "/nowhere"}, {"task": r.choice(PLANAR), "n": r.choice([1, 2, 3, 0, -5, 2**70]),
                                "workers": r.choice([0, 1, 2, -3, 10**9]), "watch": [r.choice(["state", "nosuch", "observation", "qpos"])], "options": {}}])  # fmt: skip
            arrays = [array(r, r.choice([1, 2, 3])) for _ in range(r.randrange(6))]
            if len(known.worlds) < 8 and r.random() < 0.5:
                task = r.choice(PLANAR)
                operation, request, arrays = "worlds.new", {"task": task, "n": r.choice([1, 2, 5]), "workers": r.choice([0, 1, 2]),
                                                            "watch": r.choice([[], ["state" if task != "reacher" else "qpos"]])}, []  # fmt: skip
        if operation == "open":
            request = {"nosuch": 1}  # the right one would tell it another home
        if r.random() < 0.1:
            request = Text(text(r))
        try:
            if RECORDING.exists() and len(known.clips) < 6 and r.random() < 0.02:
                open_clips(r, known)
            if len(known.recordings) < 6 and r.random() < 0.05:
                open_recording(r, known)
            if RUN.exists() and len(known.models) < 2 and r.random() < 0.02:
                m = _abi.call("model.load", 0, {"path": str(RUN), "threads": r.choice([0, 1])})
                known.handles.append(m["handle"])
                known.models[m["handle"]] = m
            answer = _abi.call(operation, handle, request, arrays)
            counts["done"] += 1
        except Error as e:
            assert str(e), operation
            assert "internal error" not in str(e), f"{operation} {request}: {e}"
            counts["refused"] += 1
            continue
        if operation == "worlds.new" and isinstance(request, dict):
            h = answer["handle"]
            known.handles.append(h)
            try:
                _abi.call("worlds.make", h)
                known.worlds[h] = request
            except Error:
                _abi.call("close", h)
        elif operation == "close":
            known.worlds.pop(handle, None)
            known.clips.pop(handle, None)
            known.models.pop(handle, None)
            known.recordings.pop(handle, None)
        if len(known.worlds) > 20:
            h = r.choice(list(known.worlds))
            known.worlds.pop(h, None)
            try:
                _abi.call("close", h)
            except Error:  # the other thread has it
                pass


class Text(dict):
    """A request whose JSON is this text."""

    def __init__(self, text):
        super().__init__()
        self.text = text


class Encoder:
    """json, as _abi.py sees it, which writes Text as it is."""

    loads = staticmethod(json.loads)

    @staticmethod
    def dumps(request):
        return request.text if isinstance(request, Text) else json.dumps(request)


def main(seconds, seed=0):
    tasks()
    warnings.simplefilter("ignore", RuntimeWarning)  # of infinities that float32 gets
    _abi.json = Encoder
    until, known, counts, threads, failed = time.time() + float(seconds), Known(), Counter(), [], []

    def run(s):
        try:
            fuzz(random.Random(s), until, known, counts)
        except BaseException as e:
            failed.append(e)
            raise

    for s in range(2):
        threads.append(threading.Thread(target=run, args=(f"{seed}.{s}",)))
        threads[-1].start()
    for t in threads:
        t.join()
    shutil.rmtree(FOLDER)
    print(f"{sum(counts.values())} calls: {dict(counts)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
