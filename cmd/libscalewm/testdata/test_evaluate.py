"""Tests of scalewm.evaluate with models of NumPy: make test-python runs them on the unpacked wheel."""

import json
import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import scalewm

RECORDING = Path(os.environ.get("SCALEWM_RECORDINGS", "")) / "tworoom.h5"
SIZE, BLOCKS, WIDTH = 28, 5, 10  # pixels of a frame, blocks of a plan, numbers of a block


class Dot:
    """Two-Room without walls: a latent is what a fixed map reads off the frame, and actions move it."""

    frame_size = SIZE

    def __init__(self):
        self.read = np.random.default_rng(0).normal(size=(SIZE * SIZE * 3, 2, 2)) / SIZE
        self.calls = 0

    def encode(self, frames):
        assert frames.dtype == np.uint8 and frames.shape[1:] == (SIZE, SIZE, 3)
        return np.tensordot(frames.reshape(len(frames), -1) / 255, self.read, 1)

    def rollout(self, start, candidates):
        self.calls += 1
        assert start.shape[1:] == (2, 2) and candidates.shape[2:] == (BLOCKS, WIDTH)
        moved = candidates.reshape(*candidates.shape[:2], -1, 2).sum(2)
        return start[:, None] + moved[..., None] / 10


class Still:
    """A policy whose actions are the data set's mean."""

    def plan(self, frames, goals):
        assert frames.shape == goals.shape and frames.dtype == np.uint8
        return np.zeros((len(frames), BLOCKS, WIDTH))

    propose = plan


@unittest.skipUnless(RECORDING.exists(), "SCALEWM_RECORDINGS names no folder of recordings")
class TestEvaluate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def evaluate(self, model, **kwargs):
        kwargs = {"name": "mine", "weights": "ab", "tier": "T5", "sets": "s101", "episodes": 2, **kwargs}
        return scalewm.evaluate(model, "tworoom", RECORDING, self.out, **kwargs)

    def cells(self):
        cells = [json.loads(p.read_text()) for p in self.out.glob("cells/*.json") if not p.name.endswith(".run.json")]
        return {(c["spec"].get("python"), c["spec"]["solver"]): c for c in cells}

    def test_kinds(self):
        world, told = Dot(), []
        got = self.evaluate(world, solver="cem,icem", progress=lambda *a: told.append(a))
        self.assertEqual([(c["method"], c["solver"], c["tier"], c["n"]) for c in got["cells"]], [("mine@world", "cem", "T5", 2), ("mine@world", "icem", "T5", 2)])
        self.assertTrue(got["failed"] == [] and got["render_error"] < 3 and told)
        self.evaluate(world, proposal=Still())
        self.evaluate(Still(), frame_size=SIZE)
        cells = self.cells()
        self.assertEqual(set(cells), {("world", "cem"), ("world", "icem"), ("world-proposal", "cem"), ("policy", "")})
        for (kind, _), c in cells.items():
            self.assertEqual((c["spec"]["method"], c["spec"]["weights"]), ("mine", "ab"))
            per_plan = {"world": 10 * 3 * BLOCKS, "world-proposal": 10 * 3 * BLOCKS + 1, "policy": 1}[kind]  # T5: 10 candidates, 3 iterations
            for row in c["result"]["rows"]:
                self.assertEqual(row["forwards"], row["replans"] * per_plan)
        plain, seeded = cells["world", "cem"]["result"]["rows"], cells["world-proposal", "cem"]["result"]["rows"]
        self.assertEqual([r["plan_cost"] for r in plain], [r["plan_cost"] for r in seeded])  # a proposal of zeros

    def test_nothing_is_made_twice(self):
        world = Dot()
        first = self.evaluate(world)
        world.calls = 0
        again = self.evaluate(world)
        self.assertEqual(len(again.pop("notes")), len(first.pop("notes")) + 1)  # of the cell that was reused
        self.assertEqual(again, first)
        self.assertEqual(world.calls, 0)

    def test_its_own_exception_and_going_on(self):
        class Breaks(Dot):
            def rollout(self, start, candidates):
                if self.calls == 8:  # CEM is done after two plans of 3 iterations
                    raise ZeroDivisionError("mine")
                return super().rollout(start, candidates)

        for _ in range(2):
            with self.assertRaisesRegex(ZeroDivisionError, "^mine$"):
                self.evaluate(Breaks(), solver="cem,icem", batch=10)
            self.assertIn(("world", "cem"), self.cells())
            self.assertNotIn(("world", "icem"), self.cells())
        self.assertEqual(len(self.evaluate(Dot(), solver="cem,icem")["cells"]), 2)

    def test_what_a_model_must_not_give(self):
        def giving(method, answer, of=Dot):
            model = of()
            setattr(model, method, answer)
            return model

        z = np.zeros
        for model, error, text in [
            (giving("encode", lambda f: z(3)), ValueError, r"encode gave shape \(3,\), not \(2, ...\)"),
            (giving("encode", lambda f: z(len(f))), ValueError, "a latent for each frame"),
            (giving("encode", lambda f: np.full((len(f), 3), np.nan)), ValueError, "not finite"),
            (giving("encode", lambda f: np.array(["a"] * len(f))), TypeError, "not numbers"),
            (giving("encode", lambda f: z((len(f), 0))), scalewm.Error, "latents of"),
            (giving("rollout", lambda s, c: z((len(s), 3, 2, 2))), ValueError, r"rollout gave shape \(2, 3, 2, 2\), not \(2, 10, 2, 2\)"),
            (giving("rollout", lambda s, c: None), TypeError, "rollout gave object"),
            (giving("plan", lambda f, g: z((len(f), 25, 2)), Still), ValueError, r"plan gave shape \(2, 25, 2\), not \(2, 5, 10\)"),
            (giving("plan", lambda f, g: np.full((len(f), 5, 10), np.inf), Still), ValueError, "not finite"),
            (giving("training", True), ValueError, r"model.eval\(\)"),
            (object(), TypeError, "is no model"),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.evaluate(model, frame_size=SIZE)
        self.assertEqual(self.cells(), {})

    def test_costs_that_are_not_finite(self):
        predict = Dot().rollout

        def spoiled(bad):
            model = Dot()

            def rollout(start, candidates):
                z = np.array(predict(start, candidates))
                z[:, :bad] = np.nan
                return z

            model.rollout = rollout
            return model

        outcome = self.evaluate(spoiled(10))
        self.assertRegex(outcome["failed"][0], "evaluating mine on tworoom: planning with cem at tier T5 on set s101: no cost that the model gave is finite")
        self.assertEqual(self.cells(), {})
        outcome = self.evaluate(spoiled(5))  # of 10 candidates in 3 iterations
        (cell,) = self.cells().values()
        self.assertEqual([r["nan_costs"] for r in cell["result"]["rows"]], [15 * r["replans"] for r in cell["result"]["rows"]])
        self.assertIn("50 % of the costs were NaN or infinite", outcome["cells"][0]["note"])

    def test_what_is_refused(self):
        for text, kwargs in {
            "is that of a method": {"name": "lewm"},
            "is none": {"name": "a/b"},
            "no name": {"weights": "a b"},
            "unknown tier": {"tier": "T9"},
            "needs a gradient": {"solver": "gd"},
            "3 means": {"actions": ((0, 0, 0), (1, 1, 1))},
            "--protocol strict needs": {"protocol": "strict"},
            "a set has at least one": {"episodes": 0},
        }.items():
            with self.subTest(text), self.assertRaisesRegex(scalewm.Error, text):
                self.evaluate(Dot(), **kwargs)
        with self.assertRaisesRegex(TypeError, "frame_size"):
            self.evaluate(Still())
        with self.assertRaisesRegex(TypeError, "weights="):
            self.evaluate(Dot(), weights=None)
        with self.assertRaisesRegex(scalewm.Error, "nosuch"):
            scalewm.evaluate(Dot(), "tworoom", self.out / "nosuch.h5", self.out, name="mine", weights="ab")
        self.assertEqual(list(self.out.iterdir()), [])

    def test_interrupt_within_a_second(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))  # a job in the background ignores it
        at = []

        def interrupt():
            at.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

        for wait in (0.3, 0.6):  # while it opens and draws, and while it plans
            threading.Timer(wait, interrupt).start()
            with self.assertRaises(KeyboardInterrupt):
                self.evaluate(Dot(), tier="T1", sets="all", episodes=20)
            self.assertLess(time.monotonic() - at[-1], 1)


if __name__ == "__main__":
    unittest.main()
