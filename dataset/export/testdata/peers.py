"""Compares exports with their data set, row by row, for peers_test.go.

    peers.py numpy|zarr|lerobot DATA.h5 EXPORT [FPS]

The data set is read by h5py, and the export by the program that it is for: NumPy 2.4.6, zarr 3.1.6, lerobot 0.4.4. Prints
one JSON object: the numbers of rows and columns that were compared, and the differences.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np

INDICES = {"ep_idx", "step_idx", "ep_len", "ep_offset"}


class Comparison:
    def __init__(self, path):
        self.file = h5py.File(path, "r")
        self.lengths = self.file["ep_len"][:]
        self.ends = np.cumsum(self.lengths)
        self.columns = {k: self.file[k][:] for k in self.file if k not in INDICES}
        self.rows, self.compared, self.differences = 0, set(), []

    def filled(self):
        """The missing last action of an episode is the one before it, or 0."""
        action = self.columns["action"]
        for n, end in zip(self.lengths, self.ends):
            if np.isnan(action[end - 1]).any():
                action[end - 1] = action[end - 2] if n > 1 else 0

    def same(self, name, row, value):
        value, want = np.asarray(value), self.columns[name][row]
        self.compared.add(name)
        if value.dtype != want.dtype or value.shape != want.shape or not np.array_equal(value, want, equal_nan=want.dtype.kind == "f"):
            self.differences.append(f"{name} of row {row}: {value.dtype} {value.shape}, {value.flat[:3]}, want {want.dtype} {want.shape}, {want.flat[:3]}")

    def check(self, ok, what):
        if not ok:
            self.differences.append(what)


def with_numpy(c, export):
    row = 0
    files = sorted(Path(export).iterdir())
    c.check(len(files) == len(c.lengths), f"{len(files)} files")
    for path, n in zip(files, c.lengths):
        with np.load(path) as f:
            arrays = dict(f)
        for t in range(n):
            for name, a in arrays.items():
                c.check(len(a) == n, f"{name} has {len(a)} rows")
                c.same(name, row, a[t])
            row += 1
    c.rows = row


def with_zarr(c, export):
    """Reads as diffusion_policy's ReplayBuffer does."""
    import zarr

    c.filled()
    root = zarr.open(export, mode="r")
    c.check(np.array_equal(root["meta/episode_ends"][:], c.ends), f"ends {root['meta/episode_ends'][:]}")
    c.check(root["meta/episode_ends"].dtype == "int64", "the type of the ends")
    c.check(root.metadata.zarr_format == 2, "the format")
    for name, a in root["data"].arrays():
        c.check(a.shape[0] == c.ends[-1], f"{name} has the shape {a.shape}")
        c.check(np.prod(a.chunks) * a.dtype.itemsize <= 2 << 20, f"{name} has chunks {a.chunks}")
        values = a[:]
        for row in range(len(values)):
            c.same({"img": "pixels"}.get(name, name), row, values[row])
        c.rows = len(values)


def with_lerobot(c, export, fps):
    import torch
    from lerobot.datasets.compute_stats import aggregate_stats, get_feature_stats
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    c.filled()
    d = LeRobotDataset("local/export", root=export, delta_timestamps={"action": [0, 1 / fps]})
    c.check(len(d) == c.ends[-1] and d.num_episodes == len(c.ends) and d.fps == fps, f"{d}")
    episode = 0
    for row in range(len(d)):
        if row == c.ends[episode]:
            episode += 1
        first = c.ends[episode] - c.lengths[episode]
        x = d[row]
        c.check([int(x[k]) for k in ("index", "episode_index", "frame_index")] == [row, episode, row - first], f"indices of row {row}")
        c.check(abs(float(x["timestamp"]) - (row - first) / fps) < 1e-6 and x["task"] == "nowhere", f"time or task of row {row}")
        last = row == c.ends[episode] - 1
        c.check(x["action_is_pad"].tolist() == [False, last], f"padding of row {row}")
        c.same("action", row, x["action"][0].numpy())
        c.same("action", row if last else row + 1, x["action"][1].numpy())
        image = x["observation.image"]
        c.check(image.dtype == torch.float32 and image.shape[0] == 3, f"the frame of row {row} is {image.dtype} {image.shape}")
        c.same("pixels", row, (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
    one = LeRobotDataset("local/export", root=export, episodes=[2])
    c.check(len(one) == c.lengths[2] and int(one[0]["index"]) == c.ends[1], f"episode 2 alone: {one}")
    # torch.tensor widens integers: the other numbers are compared as the table has them.
    table = d.hf_dataset.with_format("arrow")[:]
    names = {"observation.state": "proprio"}
    for feature in set(table.column_names) - {"observation.image", "timestamp", "frame_index", "episode_index", "index", "task_index"}:
        name = names.get(feature, feature)
        shape = c.columns[name].shape[1:]
        for row, v in enumerate(table[feature].to_pylist()):
            c.same(name, row, np.array(v, dtype=c.columns[name].dtype).reshape(shape))
        c.check(d.features[feature]["dtype"] == str(c.columns[name].dtype), f"the type of {feature}")
    # LeRobot's statistics of the same numbers. Its quantiles are those of a histogram.
    per_episode = []
    for n, end in zip(c.lengths, c.ends):
        a = c.columns["action"][end - n : end].astype("float64")
        of = {"action": get_feature_stats(a, axis=0, keepdims=False)}
        of["action"] |= {f"q{int(100 * q):02d}": np.quantile(a, q, axis=0) for q in (0.01, 0.1, 0.5, 0.9, 0.99)}
        f = c.columns["pixels"][end - n : end].transpose(0, 3, 1, 2).astype("float64")
        of["observation.image"] = {k: v if k == "count" else v[0] / 255 for k, v in get_feature_stats(f, axis=(0, 2, 3), keepdims=True).items()}
        per_episode.append(of)
    for feature, stats in aggregate_stats(per_episode).items():
        for key, want in stats.items():
            got = d.meta.stats[feature][key]
            near = 0.02 if feature == "observation.image" and key.startswith("q") else 1e-6
            c.check(got.shape == want.shape and np.allclose(got, want, rtol=near, atol=near), f"{key} of {feature} is {got.tolist()}, want {want.tolist()}")
    c.rows = len(d)


program, data, export, *more = sys.argv[1:]
c = Comparison(data)
{"numpy": with_numpy, "zarr": with_zarr, "lerobot": with_lerobot}[program](c, export, *map(int, more))
print(json.dumps({"rows": c.rows, "columns": sorted(c.compared), "differences": c.differences[:20]}))
