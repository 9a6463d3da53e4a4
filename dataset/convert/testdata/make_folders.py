"""Writes the folders beside it: two episodes of 3 and 4 rows in stable_worldmodel's layouts of films and
of pictures, by its own writers, and in LeRobot's versions 2.1 and 3.0, after docs/sources.md#lerobot.

Frame t of episode k is one colour, (20 + 30 t, 200 - 40 k, 90), which films and JPEG keep within a few levels.
action = (t + k / 2, -t), state = (t, k, 10 t), reward = 0.25 t.
Needs stable_worldmodel, imageio-ffmpeg and pyarrow (make setup-peers).
"""

import io
import json
import shutil
from pathlib import Path

import imageio
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from stable_worldmodel.data.formats.folder import FolderWriter
from stable_worldmodel.data.formats.video import VideoWriter

HERE = Path(__file__).parent
LENGTHS = [3, 4]


def episode(k, n):
    t = np.arange(n)
    frames = np.zeros((n, 32, 32, 3), np.uint8)
    frames[:] = np.stack([20 + 30 * t, np.full(n, 200 - 40 * k), np.full(n, 90)], 1)[:, None, None]
    return {
        "pixels": frames,
        "action": np.stack([t + k / 2, -t], 1).astype(np.float32),
        "state": np.stack([t, np.full(n, k), 10 * t], 1).astype(np.float64),
        "reward": 0.25 * t,
    }


def fresh(name):
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def png(frame):
    b = io.BytesIO()
    Image.fromarray(frame).save(b, "PNG")
    return b.getvalue()


def film(path, frames):
    path.parent.mkdir(parents=True, exist_ok=True)
    imageio.mimwrite(path, frames, fps=10, codec="libx264")


def rows(k, n, start, picture=False):
    e = episode(k, n)
    out = {
        "observation.state": pa.array(list(e["state"].astype(np.float32)), pa.list_(pa.float32())),
        "action": pa.array(list(e["action"]), pa.list_(pa.float32())),
        "next.reward": pa.array(e["reward"].astype(np.float32)),
        "next.done": pa.array(np.arange(n) == n - 1),
        "timestamp": pa.array((np.arange(n) / 10).astype(np.float32)),
        "frame_index": pa.array(np.arange(n)),
        "episode_index": pa.array(np.full(n, k)),
        "index": pa.array(start + np.arange(n)),
    }
    if picture:
        out["observation.image"] = pa.array([{"bytes": png(f), "path": None} for f in e["pixels"]])
    return pa.table(out)


def info(version, camera, **more):
    number = lambda dtype, *shape: {"dtype": dtype, "shape": list(shape or (1,)), "names": None}
    return {
        "codebase_version": version, "fps": 10, "total_episodes": 2, "total_frames": 7, "chunks_size": 1000,
        "features": {
            "observation.state": number("float32", 3), "action": number("float32", 2), "next.reward": number("float32"), "next.done": number("bool"),
            "timestamp": number("float32"), "frame_index": number("int64"), "episode_index": number("int64"), "index": number("int64"),
            "language": {"dtype": "string", "shape": [1], "names": None},
            "observation.image": {"dtype": camera, "shape": [32, 32, 3], "names": ["height", "width", "channels"]},
        }, **more,
    }  # fmt: skip


def save(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        path.write_text(json.dumps(content, indent=1) + "\n")
    else:
        pq.write_table(content, path)


for name, writer in [("films", VideoWriter), ("pictures", FolderWriter)]:
    with writer(fresh(name)) as w:
        for k, n in enumerate(LENGTHS):
            w.write_episode({c: list(v) for c, v in episode(k, n).items()})

path = fresh("lerobot2")  # a table an episode, pictures in it
save(path / "meta/info.json", info("v2.1", "image"))
for k, n in enumerate(LENGTHS):
    save(path / f"data/chunk-000/episode_{k:06d}.parquet", rows(k, n, sum(LENGTHS[:k]), picture=True))

path = fresh("lerobot3")  # one table and one film
save(path / "meta/info.json", info("v3.0", "video"))
save(path / "data/chunk-000/file-000.parquet", pa.concat_tables([rows(k, n, sum(LENGTHS[:k])) for k, n in enumerate(LENGTHS)]))
film(path / "videos/observation.image/chunk-000/file-000.mp4", np.concatenate([episode(k, n)["pixels"] for k, n in enumerate(LENGTHS)]))
camera = "videos/observation.image/"
save(path / "meta/episodes/chunk-000/file-000.parquet", pa.table({
    "episode_index": [0, 1], "length": LENGTHS, "data/chunk_index": [0, 0], "data/file_index": [0, 0],
    camera + "chunk_index": [0, 0], camera + "file_index": [0, 0], camera + "from_timestamp": [0.0, 0.3], camera + "to_timestamp": [0.3, 0.7],
}))  # fmt: skip
