"""scalewm.Dataset in torch's DataLoader, and next to stable-worldmodel's own on the same file, also one of scalewm.collect. TestPeersData runs this.

    peers_data.py DATA.h5
"""

import sys
import tempfile

import gymnasium
import numpy as np
import stable_worldmodel.data
import torch
from torch.utils.data import DataLoader

import scalewm

T, K = 3, 5


def main(path):
    ds = scalewm.Dataset(path, T, K, split="all", columns=["proprio"])
    assert isinstance(ds, torch.utils.data.Dataset)
    theirs = stable_worldmodel.data.HDF5Dataset(path=path, frameskip=K, num_steps=T, keys_to_load=["pixels", "action", "proprio"])
    assert len(ds) == len(theirs)
    for i in range(0, len(ds), 17):
        a, b = ds[i], theirs[i]
        np.testing.assert_array_equal(a["pixels"], b["pixels"].permute(0, 2, 3, 1).numpy())
        np.testing.assert_array_equal(a["proprio"], b["proprio"].numpy())
        scaled = (b["action"].reshape(T * K, -1).numpy() - ds.action_mean) / ds.action_std
        np.testing.assert_allclose(a["action"].reshape(T * K, -1), np.nan_to_num(scaled), atol=1e-5)
    for kwargs in ({}, {"num_workers": 2, "multiprocessing_context": "spawn"}):
        seen = [batch for batch in DataLoader(ds, 4, **kwargs)]
        assert sum(len(b["row"]) for b in seen) == len(ds)
        assert seen[0]["pixels"].shape == (4, T, 224, 224, 3) and seen[0]["pixels"].dtype == torch.uint8
        np.testing.assert_array_equal(torch.cat([b["row"] for b in seen]).numpy(), ds.clips(range(len(ds)))["row"])
    try:
        next(iter(DataLoader(ds, 4, num_workers=1, multiprocessing_context="fork")))
        raise AssertionError("a forked worker was let in")
    except RuntimeError as e:
        assert "spawn" in str(e), e
    batch = next(ds.batches(4, tensors=True))
    assert torch.is_tensor(batch["pixels"]) and batch["action"].dtype == torch.float32


def recorded(folder):
    """stable-worldmodel reads what scalewm.collect recorded."""
    path, resets = f"{folder}/pendulum.h5", []
    env = gymnasium.make("Pendulum-v1", render_mode="rgb_array")
    said = scalewm.collect(lambda: gymnasium.make("Pendulum-v1", render_mode="rgb_array"), None, 3, path, max_steps=20)
    assert said == {"path": path, "episodes": 3, "rows": 63, "columns": ["pixels", "action", "observation", "reward", "terminated", "truncated"]}, said
    theirs = stable_worldmodel.data.HDF5Dataset(path=path, frameskip=K, num_steps=T, keys_to_load=["pixels", "action", "observation"])
    assert len(theirs) == len(scalewm.Dataset(path, T, K, split="all"))
    for i in range(3):
        env.reset(seed=int(np.random.SeedSequence((0, i)).generate_state(1)[0]))
        resets.append(env.render())
    # The first clip of each episode begins with its reset.
    for i, frame in enumerate(resets):
        clip = theirs[i * len(theirs) // 3]
        np.testing.assert_array_equal(clip["pixels"][0].permute(1, 2, 0).numpy(), frame)
        assert clip["action"].reshape(T * K, -1).shape == (T * K, 1) and clip["action"].dtype == clip["observation"].dtype == torch.float32
        assert np.isfinite(clip["action"].numpy()).all()

    # Other weights of a policy are another data set.
    net = torch.nn.Linear(3, 1)

    def collect():
        return scalewm.collect(lambda: gymnasium.make("Pendulum-v1", render_mode="rgb_array"), lambda env, observation, rng: net(torch.from_numpy(observation)).tolist(), 1, f"{folder}/net.h5")

    assert collect() == collect()
    torch.nn.init.zeros_(net.bias)
    try:
        collect()
        raise AssertionError("the file of other weights was returned")
    except scalewm.Error as e:
        assert "it exists, recorded with" in str(e), e


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        recorded(folder)
    main(*sys.argv[1:])
