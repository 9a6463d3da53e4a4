"""Tests of scalewm.load beside what the program itself made of the same checkpoint: make test-python runs them on the unpacked wheel."""

import _thread
import json
import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

import h5py
import numpy as np

import scalewm

HERE = Path(os.environ.get("SCALEWM_RECORDINGS", ""))
RUN, DATA = HERE / "run", HERE / "tworoom.h5"
H, A = 5, 10


def rows(folder):
    """Result rows of the only cell of a results folder."""
    (cell,) = [json.loads(p.read_text()) for p in Path(folder).glob("cells/*.json") if not p.name.endswith(".run.json")]
    return cell["result"]["rows"]


@unittest.skipUnless(RUN.exists(), "make test-python trains a model")
class TestModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = scalewm.load(RUN)
        ds = scalewm.Dataset(DATA, 1, 5, size=cls.model.frame_size, split="all")
        cls.clips = ds.clips(range(0, len(ds), 7))
        cls.frames = cls.clips["pixels"][:, 0]
        ds.close()

    def plans(self, episodes, candidates, blocks=H):
        return np.random.default_rng(0).normal(size=(episodes, candidates, blocks, A)).astype(np.float32)

    def test_what_it_is(self):
        m = self.model
        self.assertEqual((m.kind, m.method, m.task, m.action_width, m.frame_skip), ("lewm", "scale", "tworoom", A, 5))
        side = json.loads((RUN / "weights.json").read_text())
        self.assertEqual(m.weights, side["sha256"])
        np.testing.assert_array_equal(m.action_mean, side["action_mean"])

    def test_encode_is_the_verbs(self):
        z = self.model.encode(self.frames)
        with h5py.File(RUN / "latents.h5") as f:
            np.testing.assert_array_equal(z, f["emb"][:][self.clips["row"][:, 0]].reshape(z.shape))
        np.testing.assert_array_equal(self.model.encode(self.frames[:6].reshape(2, 3, *self.frames.shape[1:])), z[:6].reshape(2, 3, -1))
        np.testing.assert_array_equal(self.model.encode(self.frames[::-1]), z[::-1])  # copied, since it is not contiguous
        self.assertEqual(self.model.encode(self.frames[:0]).shape, (0, *self.model.latent))

    def test_cost_is_the_distance_of_the_rollout(self):
        z = self.model.encode(self.frames[:4])
        plans = self.plans(2, 300)
        last = self.model.rollout(z[:2], plans)
        self.assertEqual(last.shape, (2, 300, *self.model.latent))
        want = ((last.astype(float) - z[2:4, None]) ** 2).reshape(2, 300, -1).sum(2)
        np.testing.assert_allclose(self.model.cost(z[:2], z[2:4], plans), want, rtol=1e-5)
        np.testing.assert_array_equal(self.model.rollout(z[1:2], plans[1:, 250:])[0], last[1, 250:])

    def test_a_model_evaluates_as_the_program_does(self):
        for path in (RUN, HERE / "pt"):
            with self.subTest(path.name), tempfile.TemporaryDirectory() as out:
                model = scalewm.load(path)
                scalewm.evaluate(model, "tworoom", DATA, out, name="mine", tier="T5", sets="s101", episodes=3)
                want = rows(HERE / "native")
                got = rows(out)
                for r in want + got:
                    r.pop("plan_cost")  # summed by NumPy there
                self.assertEqual(got, want)

    def test_what_is_refused(self):
        m, z = self.model, self.model.encode(self.frames[:2])
        nan = self.plans(2, 3)
        nan[1, 2, 0, 0] = np.nan
        for error, text, what in [
            (ValueError, "uint8", lambda: m.encode(self.frames.astype(np.float32))),
            (ValueError, "encode wants frames", lambda: m.encode(self.frames[:, 1:])),
            (ValueError, "candidates are", lambda: m.rollout(z, self.plans(2, 3)[..., 1:])),
            (ValueError, "candidates are", lambda: m.rollout(z, self.plans(2, 3)[:, :0])),
            (ValueError, "start is", lambda: m.rollout(z[:1], self.plans(2, 3))),
            (ValueError, "goals is", lambda: m.cost(z, z[:, :2], self.plans(2, 3))),
            (TypeError, "not of numbers", lambda: m.rollout(z, self.plans(2, 3).astype("S3"))),
            (scalewm.Error, "candidates: number 250 is NaN", lambda: m.rollout(z, nan)),
            (scalewm.Error, "start: number 0 is", lambda: m.rollout(z * np.inf, self.plans(2, 3))),
            (scalewm.Error, "nosuch", lambda: scalewm.load("nosuch")),
            (scalewm.Error, "hint", lambda: scalewm.load(DATA)),
            (scalewm.Error, "threads", lambda: scalewm.load(RUN, threads=-1)),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                what()
        closed = scalewm.load(RUN)
        closed.close()
        with self.assertRaisesRegex(scalewm.Error, "closed"):
            closed.encode(self.frames)

    def test_interrupt(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))  # a job in the background ignores it
        z = self.model.encode(self.frames[:1])
        plans = np.zeros((1, 200_000, H, A), np.float32)
        threading.Timer(0.3, _thread.interrupt_main).start()
        began = time.time()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(100):
                self.model.rollout(z, plans)
        self.assertLess(time.time() - began, 3)
        self.assertEqual(self.model.rollout(z, plans[:, :2]).shape[:2], (1, 2))


if __name__ == "__main__":
    unittest.main()
