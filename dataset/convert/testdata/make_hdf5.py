"""Writes the HDF5 files of the folder hdf5: small data sets in the layouts of other programs, for hdf5_test.go.

Made with h5py 3.16.0 (HDF5 2.0.0), numpy 2.4.6 and Pillow 12.3.0. Run it in this folder.
Row t of episode k has frames of 8 x 8 pixels of one grey level, 40 k + 4 t in the first camera and 200 more in
others, and the action (100 k + t, 1). Rewards are 10 k + t for the step out of row t.
"""

import io

import h5py
import numpy as np
from PIL import Image


def frames(k, n, edge=8, more=0):
    x = np.zeros((n, edge, edge, 3), np.uint8)
    x[:] = (40 * k + 4 * np.arange(n) + more)[:, None, None, None]
    return x


def actions(k, n, dtype=np.float32):
    return np.stack([100.0 * k + np.arange(n), np.ones(n)], 1).astype(dtype)


def rewards(k, n):
    return 10.0 * k + np.arange(n)


def jpeg(frame):
    b = io.BytesIO()
    Image.fromarray(frame).save(b, "JPEG")
    return np.frombuffer(b.getvalue(), np.uint8)


def minari(name, lengths, observe, fewer=1):
    """lengths: number of an episode -> observations. An episode has `fewer` actions less than observations."""
    with h5py.File(f"hdf5/{name}.hdf5", "w", track_order=True) as f:
        for k, (number, n) in enumerate(lengths.items()):
            g = f.create_group(f"episode_{number}")
            t = n - fewer
            observe(g, k, n)
            if t >= 0:
                g["actions"], g["rewards"] = actions(k, t), rewards(k, t)
                g["terminations"], g["truncations"] = np.arange(t) == t - 1, np.zeros(t, bool)
            g["infos/success"] = np.zeros(n, bool)


def raw(g, k, n):
    g["observations/image"], g["observations/wrist"] = frames(k, n), frames(k, n, more=200)
    g["observations/pose/_index_0"] = np.arange(n * 2.0).reshape(n, 2)
    g["observations/rewards"] = np.arange(n * 1.0)
    g["observations/text"] = ["go"] * n


def encoded(g, k, n):
    files = [jpeg(x) for x in frames(k, n)]
    if k == 0:  # of different lengths, as photographs have
        files[1] = np.concatenate([files[1], np.zeros(3, np.uint8)])
        d = g.create_dataset("observations", (n,), dtype=h5py.vlen_dtype(np.uint8))
        for i, b in enumerate(files):
            d[i] = b
    else:
        g["observations"] = np.stack(files)


def d4rl(name, n=9, ends=(2, 6), visual=True, more=None):
    """Episodes of 3, 4 and 2 rows: the first ends by time, the second by terminals, the last by neither."""
    with h5py.File(f"hdf5/{name}.hdf5", "w") as f:
        cut = np.split(np.arange(n), np.array(ends) + 1)
        join = lambda make: np.concatenate([make(k, len(c)) for k, c in enumerate(cut)])
        x = join(frames).transpose(0, 3, 1, 2)
        f.create_dataset("observations", data=x if visual else np.zeros((n, 3)), chunks=(4, *x.shape[1:]) if visual else None, compression="gzip" if visual else None)
        f["actions"], f["rewards"] = join(actions), join(rewards)
        f["terminals"], f["timeouts"] = np.arange(n) == ends[-1], (np.arange(n) == ends[0]).astype(np.float32)
        f["next_observations"], f["seed"] = np.zeros((n, 3)), np.arange(2)
        f["infos/qpos"], f["infos/rewards"] = np.arange(n * 2.0).reshape(n, 2), np.ones(n)
        f["metadata/algorithm"] = "random"
        if more:
            more(f)


def replay(name, zero):
    """V-D4RL: rows are observations after their step."""
    with h5py.File(f"hdf5/{name}.hdf5", "w") as f:
        a = np.concatenate([actions(0, 3), actions(1, 4)])
        if zero:
            a[[0, 3]] = 0
        f["action"], f["reward"], f["observation"] = a, np.arange(7.0), np.concatenate([frames(0, 3), frames(1, 4)])
        f["step_type"] = [0, 1, 2, 0, 1, 1, 2]


def robomimic(name, total=9, images=True):
    with h5py.File(f"hdf5/{name}.hdf5", "w") as f:
        g = f.create_group("data")
        g.attrs["total"], g.attrs["env_args"] = total, "{}"
        for k, (number, n) in enumerate({10: 4, 0: 3, 2: 2}.items()):
            k = [2, 0, 1][k]  # in the order of their numbers
            d = g.create_group(f"demo_{number}")
            d.attrs["num_samples"] = n
            d["actions"], d["rewards"], d["dones"] = actions(k, n, np.float64), rewards(k, n), np.zeros(n, np.int64)
            d["obs/robot0_eef_pos"] = np.arange(n * 3.0).reshape(n, 3)
            if images:
                d["obs/agentview_image"], d["obs/wrist_image"] = frames(k, n), frames(k, n, more=200)
                d["next_obs/agentview_image"] = frames(k, n, more=4)
        f["mask/train"] = [b"demo_0"]


def own(name, n=7, more=None):
    with h5py.File(f"hdf5/{name}.h5", "w", libver=("v110", "v110")) as f:
        f["ep_len"], f["ep_offset"] = [3, 4], [0, 3]
        f["image"] = np.concatenate([frames(0, 3), frames(1, 4)]).transpose(0, 3, 1, 2)
        f["wide"] = np.concatenate([np.pad(frames(0, 3), ((0, 0), (0, 0), (2, 2), (0, 0))), np.pad(frames(1, 4), ((0, 0), (0, 0), (2, 2), (0, 0)))])
        f["actions"], f["half"] = np.concatenate([actions(0, 3), actions(1, 4)]), np.arange(n).astype(np.float16)
        f["task"], f["ep_seed"] = ["push"] * n, [1, 2]
        f["step_idx"] = [0, 1, 2, 0, 1, 2, 3]
        f.attrs["env"] = "pusht"
        f.create_group("more")
        if more:
            more(f)


minari("minari", {0: 3, 10: 2, 2: 4}, raw)
minari("minari_jpeg", {0: 3, 1: 4}, encoded)
minari("minari_as_many", {0: 3, 1: 2}, raw, fewer=0)
minari("minari_short", {0: 3, 1: 4}, raw, fewer=2)
d4rl("d4rl")
d4rl("d4rl_state", visual=False)
d4rl("d4rl_torn", more=lambda f: (f.pop("actions"), f.create_dataset("actions", data=actions(0, 8))))
replay("replay", True)
replay("replay_unclear", False)
robomimic("robomimic")
robomimic("robomimic_total", total=10)
robomimic("robomimic_states", images=False)
own("own")
own("own_torn", more=lambda f: f.create_dataset("speed", data=np.zeros((6, 2))))
with h5py.File("hdf5/unknown.h5", "w") as f:
    f["a/x"], f["images\nforged"] = 1, np.zeros((2, 3), np.float32)
with h5py.File("hdf5/cycle.hdf5", "w") as f:
    d = f.create_group("data/demo_0")
    d["obs"], d["again"] = d, d
