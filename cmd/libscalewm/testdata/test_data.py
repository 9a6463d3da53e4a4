"""Tests of scalewm.Dataset beside h5py: make test-python runs them on the unpacked wheel."""

import _thread
import copy
import os
import pickle
import shutil
import signal
import tempfile
import threading
import time
import unittest
from multiprocessing import get_context
from pathlib import Path

import h5py
import numpy as np

import scalewm

RECORDING = Path(os.environ.get("SCALEWM_RECORDINGS", "")) / "tworoom.h5"
T, K = 3, 5


def first_pixels(ds):
    return ds[0]["pixels"]


@unittest.skipUnless(RECORDING.exists(), "SCALEWM_RECORDINGS names no folder of recordings")
class TestDataset(unittest.TestCase):
    def open(self, **kwargs):
        ds = scalewm.Dataset(RECORDING, T, K, **kwargs)
        self.addCleanup(ds.close)
        return ds

    def test_clips_are_the_files(self):
        ds = self.open(split="all", columns=["proprio", "step_idx"])
        with h5py.File(RECORDING) as f:
            file = {k: f[k][:] for k in ["pixels", "action", "proprio", "step_idx", "ep_len", "ep_offset"]}
        starts = [o + s for o, n in zip(file["ep_offset"], file["ep_len"]) for s in range(n - T * K + 1)]
        self.assertEqual(len(ds), len(starts))
        np.testing.assert_allclose(ds.action_mean, np.nanmean(file["action"], 0), rtol=1e-5)
        np.testing.assert_allclose(ds.action_std, np.nanstd(file["action"].astype(float), 0), rtol=1e-5)
        for i in (0, len(ds) // 2, -1):
            clip, rows = ds[i], starts[i] + K * np.arange(T)
            np.testing.assert_array_equal(clip["row"], rows)
            for k in ["pixels", "proprio"]:
                np.testing.assert_array_equal(clip[k], file[k][rows])
            np.testing.assert_array_equal(clip["step_idx"][:, 0], file["step_idx"][rows].reshape(-1))
            scaled = (file["action"][starts[i] : starts[i] + T * K] - ds.action_mean) / ds.action_std
            np.testing.assert_allclose(clip["action"], np.nan_to_num(scaled).reshape(T, -1), atol=1e-5)

    def test_batches(self):
        ds = self.open()
        n = ds.steps_per_epoch(8)
        epoch = list(ds.batches(8, steps=n))
        firsts = np.concatenate([b["row"][:, 0] for b in epoch])
        self.assertEqual(len(set(firsts)), n * 8)
        (later,) = ds.batches(8, start=2, steps=1)
        for k, v in later.items():
            np.testing.assert_array_equal(v, epoch[2][k])
        kept = [b["pixels"].copy() for b in ds.batches(8, steps=4, copy=False)]
        for k in range(4):
            np.testing.assert_array_equal(kept[k], epoch[k]["pixels"])
        other = next(self.open(seed=1).batches(8))
        self.assertFalse(np.array_equal(other["row"], epoch[0]["row"]))

    def test_splits_share_no_clip(self):
        for protocol in ("paper", "strict"):
            parts = {s: self.open(split=s, protocol=protocol) for s in ("train", "val", "all")}
            rows = {s: {int(r) for r in d.clips(range(len(d)))["row"][:, 0]} for s, d in parts.items()}
            self.assertFalse(rows["train"] & rows["val"])
            self.assertEqual(rows["train"] | rows["val"], rows["all"])
            episodes = {s: {int(e) for e in d.clips(range(len(d)))["episode"]} for s, d in parts.items()}
            self.assertEqual(bool(episodes["train"] & episodes["val"]), protocol == "paper")

    def test_normalised_and_resized(self):
        plain, normal = self.open(size=28), self.open(size=28, normalised=True)
        self.assertEqual(plain[3]["pixels"].shape, (T, 28, 28, 3))
        want = (plain[3]["pixels"].astype(np.float32) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        np.testing.assert_allclose(normal[3]["pixels"], want.transpose(0, 3, 1, 2), atol=1e-6)

    def test_threads_change_nothing(self):
        one, many = self.open(workers=1), self.open(workers=7)
        for a, b in zip(one.batches(5, steps=3), many.batches(5, steps=3)):
            for k in a:
                np.testing.assert_array_equal(a[k], b[k])

    def test_another_process_opens_anew(self):
        ds = self.open(size=28)
        twin = pickle.loads(pickle.dumps(ds))
        np.testing.assert_array_equal(twin[5]["pixels"], ds[5]["pixels"])
        with get_context("spawn").Pool(1) as pool:
            np.testing.assert_array_equal(pool.apply(first_pixels, (ds,)), ds[0]["pixels"])
        twin = copy.deepcopy(ds)
        twin.close()
        np.testing.assert_array_equal(copy.copy(ds)[5]["pixels"], ds[5]["pixels"])

    def test_a_file_that_changed_is_not_copied(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "own.h5"
            shutil.copy(RECORDING, path)
            ds = scalewm.Dataset(path, T, K)
            for column in ("pixels", "action"):
                with h5py.File(path, "r+") as f:
                    f[column][3] += 1
                with self.assertRaisesRegex(scalewm.Error, "no longer what it was.*hint"):
                    copy.deepcopy(ds)
            ds.close()
            with self.assertRaisesRegex(scalewm.Error, "it was closed"):
                pickle.dumps(ds)

    def test_what_is_refused(self):
        for text, error, kwargs in [
            ("split train, val or all", scalewm.Error, {"split": "test"}),
            ("unknown protocol", scalewm.Error, {"protocol": "loose"}),
            ("nosuch", scalewm.Error, {"columns": ["nosuch"]}),
            ("the column pixels is part of the clips already", scalewm.Error, {"columns": ["pixels"]}),
            ("frame", scalewm.Error, {"size": 10**9}),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.open(**kwargs)
        with self.assertRaisesRegex(scalewm.Error, "no episode has the 2000 rows"):
            scalewm.Dataset(RECORDING, 400, 5)
        with self.assertRaisesRegex(FileNotFoundError, "nosuch.h5"):
            scalewm.Dataset("nosuch.h5")
        ds = self.open()
        for i in (len(ds), -len(ds) - 1):
            with self.assertRaises(IndexError):
                ds[i]
        with self.assertRaisesRegex(scalewm.Error, "loading clip"):
            ds.clips([0, len(ds)])
        with self.assertRaisesRegex(scalewm.Error, "only"):
            next(ds.batches(len(ds) + 1))
        with self.assertRaisesRegex(scalewm.Error, "at least one clip"):
            next(ds.batches(0))
        ds.close()
        with self.assertRaisesRegex(scalewm.Error, "closed"):
            ds[0]

    def test_interrupt(self):
        ds = self.open(size=28)
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))  # a job in the background ignores it
        threading.Timer(0.2, _thread.interrupt_main).start()
        began = time.time()
        with self.assertRaises(KeyboardInterrupt):
            for _ in ds.batches(8):
                pass
        self.assertLess(time.time() - began, 5)
        self.assertEqual(next(ds.batches(8))["pixels"].shape[0], 8)


if __name__ == "__main__":
    unittest.main()
