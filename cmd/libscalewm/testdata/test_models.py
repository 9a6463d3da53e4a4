"""Tests of scalewm.load beside what the program itself made of the same checkpoint: make test-python runs them on the unpacked wheel."""

import _thread
import copy
import gc
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import h5py
import numpy as np

import scalewm

HERE = Path(os.environ.get("SCALEWM_RECORDINGS", ""))
DATA = HERE / "tworoom.h5"
H, A = 5, 10


def rows(folder):
    """Result rows of the only cell of a results folder."""
    (cell,) = [json.loads(p.read_text()) for p in Path(folder).glob("cells/*.json") if not p.name.endswith(".run.json")]
    return cell["result"]["rows"]


class TestTrainers(unittest.TestCase):
    """A checkpoint of Lightning with a moving average (model/lewm/testdata/trainer.py)."""

    path = Path(__file__).resolve().parents[3] / "model/lewm/testdata/trainer"

    def test_key(self):
        with self.assertRaisesRegex(scalewm.Error, "--key NAME: state_dict, ema.weights"):
            scalewm.load(self.path)
        found = {}
        for key, other, left in ("state_dict", "ema.weights", r"actor \(1\), knots \(1\)"), ("ema.weights", "state_dict", r"n_averaged \(1\)"):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model = scalewm.load(self.path, key=key)
            self.assertEqual([w.filename for w in said], [__file__] * 2)
            self.assertRegex(str(said[0].message), f"read {key}; not read: {other}$")
            self.assertRegex(str(said[1].message), f"left out .*: {left}$")
            black = np.zeros((1, 8, 8, 3), np.uint8)
            found[model.weights] = model.encode(black).tobytes()
            self.assertEqual(pickle.loads(pickle.dumps(model)).encode(black).tobytes(), found[model.weights])
        self.assertEqual(len(set(found.values())), 2)


@unittest.skipUnless((HERE / "gcidm").exists(), "make test-python trains a policy")
class TestPolicy(unittest.TestCase):
    def test_a_policy_evaluates_as_the_program_does(self):
        with scalewm.load(HERE / "gcidm" / "run") as policy, tempfile.TemporaryDirectory() as out:
            self.assertTrue(policy.acts)
            scalewm.evaluate(policy, "tworoom", DATA, out, name="mine", sets="s101", episodes=3)
            self.assertEqual(rows(out), rows(HERE / "gcidm" / "native"))


@unittest.skipUnless((HERE / "scale").exists(), "make test-python trains a model")
class TestModel(unittest.TestCase):
    kind, method, over = "lewm", "scale", np.sum

    @classmethod
    def setUpClass(cls):
        cls.home = HERE / cls.method
        cls.model = scalewm.load(cls.home / "run")
        ds = scalewm.Dataset(DATA, 1, 5, size=cls.model.frame_size, split="all")
        cls.clips = ds.clips(range(0, len(ds), 7))
        cls.frames = cls.clips["pixels"][:, 0]
        ds.close()

    def plans(self, episodes, candidates, blocks=H):
        return np.random.default_rng(0).normal(size=(episodes, candidates, blocks, A)).astype(np.float32)

    def test_what_it_is(self):
        m = self.model
        self.assertEqual((m.kind, m.method, m.task, m.action_width, m.frame_skip), (self.kind, self.method, "tworoom", A, 5))
        side = json.loads((self.home / "run" / "weights.json").read_text())
        self.assertEqual(m.weights, side["sha256"])
        np.testing.assert_array_equal(m.action_mean, side["action_mean"])

    def test_encode_is_the_verbs(self):
        z = self.model.encode(self.frames)
        with h5py.File(self.home / "latents.h5") as f:
            np.testing.assert_array_equal(z, f["emb"][:][self.clips["row"][:, 0]].reshape(z.shape))
        np.testing.assert_array_equal(self.model.encode(self.frames[:6].reshape(2, 3, *self.frames.shape[1:])), z[:6].reshape(2, 3, *self.model.latent))
        np.testing.assert_array_equal(self.model.encode(self.frames[::-1]), z[::-1])  # copied, since it is not contiguous
        self.assertEqual(self.model.encode(self.frames[:0]).shape, (0, *self.model.latent))

    def test_cost_is_the_distance_of_the_rollout(self):
        z = self.model.encode(self.frames[:4])
        plans = self.plans(2, 300)
        last = self.model.rollout(z[:2], plans)
        self.assertEqual(last.shape, (2, 300, *self.model.latent))
        want = type(self).over(((last.astype(float) - z[2:4, None]) ** 2).reshape(2, 300, -1), axis=2)
        np.testing.assert_allclose(self.model.cost(z[:2], z[2:4], plans), want, rtol=1e-5)
        np.testing.assert_array_equal(self.model.rollout(z[1:2], plans[1:, 250:])[0], last[1, 250:])

    def test_a_model_evaluates_as_the_program_does(self):
        for folder in ("run", "pytorch"):
            with self.subTest(folder), tempfile.TemporaryDirectory() as out:
                model = scalewm.load(self.home / folder)
                scalewm.evaluate(model, "tworoom", DATA, out, name="mine", tier="T5", sets="s101", episodes=3)
                want = rows(self.home / "native")
                got = rows(out)
                for r in want + got:
                    r.pop("plan_cost")  # summed by NumPy there
                self.assertEqual(got, want)

    def test_a_world_model_does_not_act(self):
        self.assertFalse(self.model.acts)
        o = scalewm.Observation(*[np.zeros(1)] * 12)._replace(frames=self.frames[:1], goals=self.frames[:1], left=np.ones(1, np.int64))
        with self.assertRaisesRegex(scalewm.Error, "a world model, not a policy"):
            self.model.act(o)

    def test_proposals_are_told_apart(self):
        class Still(scalewm.Model):
            def propose(self, frames, goals):
                return np.zeros((len(frames), H, A))

        proposals = [Still(HERE / method / "run") for method in ("scale", "dinowm-random")]
        hashes = {scalewm.state_hash(self.model, p) for p in proposals}
        self.assertEqual(len(hashes), 2)
        self.assertNotIn(scalewm.state_hash(self.model), hashes)
        self.assertEqual(scalewm.state_hash(self.model), self.model.weights)
        with tempfile.TemporaryDirectory() as out:
            for p in proposals:
                scalewm.evaluate(self.model, "tworoom", DATA, out, name="mine", tier="T5", sets="s101", episodes=1, proposal=p)
            cells = [json.loads(f.read_text()) for f in Path(out).glob("cells/*.json") if not f.name.endswith(".run.json")]
            self.assertEqual({c["spec"]["weights"] for c in cells}, hashes)

    def test_what_is_refused(self):
        m, z = self.model, self.model.encode(self.frames[:2])
        nan = self.plans(2, 3)
        nan[1, 2, 0, 0] = np.nan
        for error, text, what in [
            (ValueError, "uint8", lambda: m.encode(self.frames.astype(np.float32))),
            (ValueError, "encode needs frames", lambda: m.encode(self.frames[:, 1:])),
            (ValueError, "candidates must have shape", lambda: m.rollout(z, self.plans(2, 3)[..., 1:])),
            (ValueError, "candidates must have shape", lambda: m.rollout(z, self.plans(2, 3)[:, :0])),
            (ValueError, "start must have shape", lambda: m.rollout(z[:1], self.plans(2, 3))),
            (ValueError, "goals must have shape", lambda: m.cost(z, z[:, :2], self.plans(2, 3))),
            (TypeError, "not of numbers", lambda: m.rollout(z, self.plans(2, 3).astype("S3"))),
            (scalewm.Error, "candidates: number 250 is NaN", lambda: m.rollout(z, nan)),
            (scalewm.Error, "start: number 0 is", lambda: m.rollout(z * np.inf, self.plans(2, 3))),
            (scalewm.Error, "nosuch", lambda: scalewm.load("nosuch")),
            (scalewm.Error, "hint", lambda: scalewm.load(DATA)),
            (scalewm.Error, "threads", lambda: scalewm.load(self.home / "run", threads=-1)),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                what()
        closed = scalewm.load(self.home / "run")
        closed.close()
        with self.assertRaisesRegex(scalewm.Error, "closed"):
            closed.encode(self.frames)

    def test_copies_are_models(self):
        """Copies and pickles load the checkpoint again: they encode as it does, whatever is closed, in whatever process."""
        class Mine(scalewm.Model):
            pass

        want = self.model.encode(self.frames[:2])
        for copied in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: pickle.loads(pickle.dumps(m, 0)), lambda m: copy.deepcopy([{"m": m}])[0]["m"]):
            original = scalewm.load(self.home / "run", threads=1)
            original.note = "kept"
            twin = copied(original)
            self.assertEqual((twin.note, twin.weights, twin.__class__, twin._source), ("kept", original.weights, scalewm.Model, original._source))
            self.assertNotEqual(twin._handle, original._handle)
            np.testing.assert_array_equal(twin.encode(self.frames[:2]), want)
            twin.close()
            twin.close()
            del twin
            gc.collect()
            np.testing.assert_array_equal(original.encode(self.frames[:2]), want)
            original.close()
            with self.assertRaisesRegex(scalewm.Error, "it was closed"):
                copied(original)
        self.assertIs(type(copy.copy(Mine(self.home / "run"))), Mine)
        self.assertNotIn("_handle", self.model.__getstate__())
        code = f"import pickle, scalewm, sys; more = [scalewm.load(p) for p in {[str(HERE / m / 'run') for m in ('scale', 'dinowm-random')]} * 2]; m = pickle.load(sys.stdin.buffer); print(repr(m.encode(pickle.load(sys.stdin.buffer)).tobytes()))"
        run = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(self.model) + pickle.dumps(self.frames[:2]), capture_output=True, cwd="/")
        self.assertEqual(run.stdout.decode().strip(), repr(want.tobytes()), run.stderr)

    def test_a_checkpoint_that_changed_is_not_copied(self):
        with tempfile.TemporaryDirectory() as folder:
            at = Path(folder) / "run"
            shutil.copytree(self.home / "run", at)
            model = scalewm.load(at)
            blob = pickle.dumps(model)
            pickle.loads(blob)
            (other,) = [HERE / m / "run" for m in ("scale", "dinowm-random") if m != self.method]
            shutil.rmtree(at)
            with self.assertRaisesRegex(scalewm.Error, "hint"):
                pickle.loads(blob)
            shutil.copytree(other, at)
            for copied in (copy.deepcopy, lambda _: pickle.loads(blob)):
                with self.assertRaisesRegex(scalewm.Error, "no longer what it was.*hint: open it again"):
                    copied(model)

    def test_threads(self):
        """Two threads on one model: one is told so, and what the other gets is right."""
        z, plans = self.model.encode(self.frames[:1]), self.plans(1, 4000)
        want, got = self.model.rollout(z, plans), []

        def work():
            for _ in range(5):
                try:
                    got.append(np.array_equal(self.model.rollout(z, plans), want))
                except scalewm.Error as e:
                    got.append("another" in str(e))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, [True] * 10)

    def test_fork_is_refused_with_words(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = os.fork()
        if child == 0:
            try:
                self.model.encode(self.frames[:1])
            except scalewm.Error as e:
                os._exit(0 if "forked" in str(e) and "spawn" in str(e) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.model.encode(self.frames[:1])

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


class TestPatches(TestModel):
    """A model whose latents are a vector a patch: DINO-WM over a random encoder."""

    kind, method, over = "dinowm", "dinowm-random", np.mean


if __name__ == "__main__":
    unittest.main()
