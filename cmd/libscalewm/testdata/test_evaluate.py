"""Tests of scalewm.evaluate with models of NumPy: make test-python runs them on the unpacked wheel."""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import scalewm
from scalewm import identity

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


class Walk:
    """A policy that acts after each env step, or k blocks at a time. It keeps state by id."""

    frame_size = SIZE

    def __init__(self, blocks=0):
        self.blocks, self.state, self.seen = blocks, {}, []

    def reset(self, ids):
        self.state = {int(i): np.zeros(2) for i in ids}

    def act(self, o):
        self.seen.append(o)
        for i, key, step, left in zip(o.ids, o.noise, o.step, o.left):
            self.state[i] = 0.5 * self.state[i] + np.random.default_rng((key, step)).normal(size=2) + [0, 0.01 * left]
        z = np.array([self.state[i] for i in o.ids])
        return np.tile(z, BLOCKS * self.blocks).reshape(len(z), self.blocks, WIDTH) if self.blocks else z


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

    def rows(self):
        return [r for c in self.cells().values() for r in c["result"]["rows"]]

    def test_acting(self):
        """A policy with act sees its episodes step by step, and its rows do not depend on the batch."""
        results = []
        for batch in (0, 1, 3):
            model, last = Walk(), {}
            self.evaluate(model, sets="s102", episodes=4, batch=batch, fresh=True)
            results.append(self.rows())
            for o in model.seen:
                n = len(o.ids)
                self.assertIsInstance(o, scalewm.Observation)
                frames, vector = ((n, SIZE, SIZE, 3), np.uint8), ((2,), np.float64)
                self.assertEqual([(a.shape, a.dtype) for a in o],
                                 [((n,), np.int64), frames, frames, ((n,), np.int64), ((n,), np.int64), ((n, 2), np.float64), ((n, 2), np.float32), vector, vector, vector, vector, ((n,), np.uint64)])  # fmt: skip
                self.assertEqual((o.low.tolist(), o.high.tolist()), ([-1, -1], [1, 1]))
                self.assertTrue((o.step + o.left == 50).all())
                np.testing.assert_array_equal(o.previous_z, ((o.previous - o.mean) / o.std).astype(np.float32))
                for k, i in enumerate(map(int, o.ids)):
                    if o.step[k] == 0 and i in last:  # the film of the first episode
                        steps, last = [last[i][0] for i in range(4)], {}
                    calls, goal = last.get(i, (0, o.goals[k]))
                    self.assertEqual(o.step[k], calls)
                    np.testing.assert_array_equal(o.goals[k], goal)
                    self.assertEqual(o.previous[k].any(), calls > 0)
                    last[i] = calls + 1, goal
            self.assertEqual(steps, [r["steps"] for r in results[-1]])
        self.assertTrue(results[0] == results[1] == results[2])
        self.assertEqual([(r["replans"], r["forwards"]) for r in results[0]], [(r["steps"], r["steps"]) for r in results[0]])

    def test_previous_action_is_what_was_returned(self):
        returned = []

        class Told(Walk):
            def act(self, o):
                if o.step[0] > 0:
                    np.testing.assert_allclose(o.previous_z, returned[-1], rtol=1e-5, atol=1e-6)
                returned.append(super().act(o))
                return returned[-1]

        self.evaluate(Told(), episodes=1)
        self.assertGreater(len(returned), 1)

    def test_acting_in_blocks(self):
        for blocks, kwargs, steps in [(2, {}, 10), (5, {}, 25), (5, {"execute": 3}, 15), (2, {"execute": 3}, 10), (0, {"execute": 1}, 1)]:
            model = Walk(blocks)
            self.evaluate(model, name=f"mine{blocks}-{steps}", episodes=3, **kwargs)
            self.assertEqual({int(s) % steps for o in model.seen for s in o.step}, {0})
        for cell in [json.loads(p.read_text()) for p in self.out.glob("cells/*.json") if not p.name.endswith(".run.json")]:
            steps = int(cell["spec"]["method"].partition("-")[2])
            self.assertEqual([r["replans"] for r in cell["result"]["rows"]], [-(-r["steps"] // steps) for r in cell["result"]["rows"]])

    def test_reset_comes_first(self):
        class Stops(Walk):
            calls = 0

            def act(self, o):
                Stops.calls += 1
                if Stops.calls == 7:
                    raise ZeroDivisionError("mine")
                return super().act(o)

        model = Stops()
        with self.assertRaisesRegex(ZeroDivisionError, "^mine$"):
            self.evaluate(model)
        self.assertEqual((set(model.state), self.cells()), ({0, 1}, {}))
        self.evaluate(model)  # with the ids and the state of the evaluation that was aborted
        (aborted,) = self.cells().values()
        self.evaluate(Stops(), fresh=True)
        self.assertEqual(self.rows(), aborted["result"]["rows"])
        self.evaluate(type("Stateless", (), {"frame_size": SIZE, "act": lambda self, o: np.zeros_like(o.previous)})(), name="stateless")
        broken = Walk()
        broken.reset = lambda: None
        with self.assertRaisesRegex(TypeError, "argument"):
            self.evaluate(broken, name="broken")

    def test_act_and_plan(self):
        """Objects with plan alone keep their cells; an object with both is asked through act."""
        self.evaluate(Still(), frame_size=SIZE)
        (cell,) = self.cells().values()
        self.assertEqual(cell["spec"]["code"], identity.code_hash(Still(), None, frame_size=SIZE, actions=None))
        both = type("Both", (Still, Walk), {})()
        self.evaluate(both, name="both")
        self.assertGreater(len(both.seen), max(r["steps"] for r in json.loads(next(p for p in self.out.glob("cells/*.json") if "both" in p.read_text()).read_text())["result"]["rows"]))

    def test_page(self):
        """The policy of docs/python.md runs unchanged: with the latents of Dot, and with a head that uses what the page passes to it."""
        page = (Path(__file__).resolve().parents[3] / "docs" / "python.md").read_text()
        (block,) = [b.partition("```")[0] for b in page.split("```python\n") if "def act(" in b]
        scope = {"__name__": "page"}
        exec(block, scope)
        calls = []

        def head(z, goals, left):
            self.assertTrue(z.shape == goals.shape == (len(left), 2, 2) and left.max() <= 50)
            calls.append(len(z))
            return (goals - z)[:, :, 0] / left[:, None]

        model = Dot()
        got = self.evaluate(scope["Inverse"](model, head), sets="s101,s102", episodes=3)
        self.assertEqual(got["cells"][0]["n"], 6)
        self.assertEqual(calls[0], 6)  # episodes of both sets in one call

    def test_failing_leaves_finished_cells(self):
        class Breaks(Walk):
            def act(self, o):
                if len(self.seen) > 60:  # a set takes at most 50 calls
                    raise ZeroDivisionError("mine")
                return super().act(o)

        with self.assertRaisesRegex(ZeroDivisionError, "^mine$"):
            self.evaluate(Breaks(), sets="s101,s102", episodes=64)
        self.assertEqual(len(list(self.out.glob("cells/*.run.json"))), 1)

    def test_protocols(self):
        """What is not given is the protocol's: its seed, number of episodes, solver and tier."""
        self.evaluate(Walk(), protocol="gc-idm", sets=None, tier=None, episodes=None)
        self.evaluate(Dot(), protocol="lewm-code", sets=None, tier="10/3/2", episodes=2, execute=1, warm_start=True)
        cells = self.cells()
        policy, world = cells["policy", ""]["spec"], cells["world", "cem"]["spec"]
        want = {"protocol": "gc-idm", "set": "s42", "episodes": 200, "act": "step"}
        self.assertEqual({name: policy.get(name) for name in want}, want)
        want = {"protocol": "lewm-code+changed", "set": "s42", "episodes": 2, "replan": 1, "warm_start": True, "tier": "T5"}
        self.assertEqual({name: world.get(name) for name in want}, want)
        for row in cells["world", "cem"]["result"]["rows"]:
            self.assertEqual(row["replans"], -(-row["steps"] // 5))

    def test_settings_are_keywords(self):
        self.evaluate(Dot(), solver="mppi", planner_noise=np.int64(1), action_clip=np.True_, temperature=0.5, pool="full")
        (cell,) = self.cells().values()
        want = {"protocol": "paper", "planner_noise": 1, "action_clip": True, "temperature": 0.5, "pool": "full", "horizon": 5}
        self.assertEqual({name: cell["spec"].get(name) for name in want}, want)

    def test_nothing_is_made_twice(self):
        world = Dot()
        first = self.evaluate(world)
        self.assertEqual([n for n in first["notes"] if "reused" in n], [])
        world.calls = 0
        again = self.evaluate(world, tier={"T5"}, sets=np.array(["s101"]), solver=iter(["cem"]), actions=None, episodes=np.int64(2))
        (note,) = [n for n in again.pop("notes") if "reused" in n]
        self.assertRegex(note, r"mine.* cem T5: 1 of 1 cells existed and were reused \(s101\), made 20\d\d-\d\d-\d\dT")
        first.pop("notes")
        self.assertEqual(again, first)
        self.assertEqual(world.calls, 0)
        self.evaluate(world, fresh=True)
        self.assertGreater(world.calls, 0)
        self.assertEqual(len(self.cells()), 1)

    def test_other_code_is_another_cell(self):
        """Same name, weights and plans' shapes; what the model runs differs, in its class, a base, an attribute, or a function that it calls."""

        class Double(Dot):
            def rollout(self, start, candidates):
                return super().rollout(start, 2 * candidates)

        def calling(f):
            class Calling(Dot):
                def rollout(self, start, candidates):
                    return super().rollout(start, f(candidates))

            return Calling()

        own = Dot()
        own.rollout = lambda start, candidates: Dot.rollout(own, start, -candidates)
        models = [Dot(), Double(), calling(lambda x: x), calling(lambda x: x + 1), own]
        for n, model in enumerate(models, 1):
            self.evaluate(model)
            cells = [json.loads(p.read_text())["spec"] for p in self.out.glob("cells/*.json") if not p.name.endswith(".run.json")]
            self.assertEqual(len({c["code"] for c in cells}), n)
        self.evaluate(Still(), frame_size=SIZE)
        self.evaluate(Still(), frame_size=SIZE + 4)
        self.assertEqual(len([p for p in self.out.glob("cells/*.json") if not p.name.endswith(".run.json")]), n + 2)
        again = [self.evaluate(m)["notes"] for m in (Dot(), Double(), calling(lambda x: x), calling(lambda x: x + 1))]
        self.assertTrue(all("reused" in str(notes) for notes in again), again)

    def test_what_a_code_hash_sees(self):
        """A module of its own in each process: hashes are equal where the code is, wherever it runs, and differ where it differs."""
        text = """
import numpy as np
GAIN = 1
COUNT = 0
class Helper:
    def of(self, x): return x + 0
HELPER = Helper()
def moved(x):
    return HELPER.of(x) * GAIN
class Base:
    unit, calls = 5, 0
    gain = 7
    names = [1, 2]
    @property
    def p(self): return {"a", "b", "c"} & {"d"}
class M(Base):
    "What it is."
    def encode(self, frames):
        global COUNT
        COUNT += 1
        M.calls += 1
        gain = self.gain
        try:
            return frames.mean((1, 2))
        except ValueError:
            return None
    def rollout(self, start, candidates):
        return moved(start)[:, None] * np.ones((1, candidates.shape[1], 1))
"""
        changes = [("", ""), ("GAIN = 1", "GAIN = 2"), ("of(x) *", "of(x) /"), ("x + 0", "x + 1"), ("unit, calls = 5", "unit, calls = 6"), ("[1, 2]", "[1, 3]"), ("(1, 2))", "(2, 1))"),
                   ("& {", "| {"), ("ValueError", "TypeError"), ("class M(Base)", "class M(Base, object)"), ("* np.ones", "+ np.ones"), ("gain = 7", "gain = 8"), ("COUNT = 0", "COUNT = 8")]  # fmt: skip
        hashes = []
        for old, new in changes + [("", "")]:
            (self.out / "own.py").write_text(text.replace(old, new))
            code = "import own; from scalewm.identity import code_hash; m = own.M(); a = code_hash(m); [m.encode(__import__('numpy').zeros((1, 2, 2, 3))) for _ in range(99)]; assert a == code_hash(m); print(a)"
            run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{self.out}:{os.environ.get('PYTHONPATH', '')}"})
            hashes.append(run.stdout or run.stderr)
        self.assertEqual(hashes[-1], hashes[0])  # another process, another order of sets
        self.assertEqual(hashes[-2], hashes[0])  # a counter
        self.assertEqual(len(set(hashes[:-2])), len(changes) - 1)

    def test_wrappers_are_left_out(self):
        """peers_evaluate.py does this with torch; here are classes that look like its own."""

        def module(name, home, **children):
            return type(name, (), {"__module__": home, "_modules": children})()

        ours = module("W", "__main__", module=module("Linear", "torch.nn.modules.linear"))
        wrapped = module("DistributedDataParallel", "torch.nn.parallel.distributed", module=module("OptimizedModule", "torch._dynamo.eval_frame", _orig_mod=ours))
        self.assertIs(identity.unwrapped(wrapped), ours)
        self.assertIs(identity.unwrapped(ours), ours)

    def test_training_mode_is_seen_within(self):
        class Module:
            def __init__(self, training):
                self.training = training

            def modules(self):
                return [self]

            def __call__(self, x):
                return x

        class Slots:
            __slots__ = ("m",)

        def wrapped(m, how):
            model = Dot()
            model.m = how(m)
            return model

        slots = Slots()
        slots.m = Module(True)
        for how in (lambda m: m, lambda m: [m], lambda m: {"a": (m,)}, lambda m: wrapped(m, lambda x: x), lambda m: m.__call__, lambda m: functools.partial(m, 1), lambda m: lambda x: m(x), lambda m: lambda x, k=m: k(x), lambda _: slots):
            with self.assertRaisesRegex(ValueError, r"training mode.*Module.*model.eval\(\)"):
                self.evaluate(wrapped(Module(True), how))
        with self.assertRaisesRegex(ValueError, "training mode"):
            self.evaluate(Dot(), proposal=type("P", (Still,), {"__init__": lambda s: setattr(s, "inner", Module(True))})())
        self.assertEqual(self.cells(), {})
        self.evaluate(wrapped(Module(False), lambda m: {"a": [m]}))

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
            (giving("encode", lambda f: z(3)), ValueError, r"encode returned shape \(3,\), not \(2, ...\)"),
            (giving("encode", lambda f: z(len(f))), ValueError, "a latent for each frame"),
            (giving("encode", lambda f: np.full((len(f), 3), np.nan)), ValueError, "not finite"),
            (giving("encode", lambda f: np.array(["a"] * len(f))), TypeError, "not numbers"),
            (giving("encode", lambda f: z((len(f), 0))), scalewm.Error, "latents of"),
            (giving("rollout", lambda s, c: z((len(s), 3, 2, 2))), ValueError, r"rollout returned shape \(2, 3, 2, 2\), not \(2, 10, 2, 2\)"),
            (giving("rollout", lambda s, c: None), TypeError, "rollout returned object"),
            (giving("plan", lambda f, g: z((len(f), 25, 2)), Still), ValueError, r"plan returned shape \(2, 25, 2\), not \(2, 5, 10\)"),
            (giving("plan", lambda f, g: np.full((len(f), 5, 10), np.inf), Still), ValueError, "not finite"),
            (giving("act", lambda o: np.zeros((len(o.ids), 3)), Walk), ValueError, r"act returned shape \(2, 3\) \(hint: \(2, 2\) for one action of each episode, or \(2, k, 10\) for k blocks, k from 1 to 5\)"),
            (giving("act", lambda o: np.zeros((len(o.ids), 6, 10)), Walk), ValueError, r"act returned shape \(2, 6, 10\) \(hint: "),
            (giving("act", lambda o: np.zeros((len(o.ids), 10)), Walk), ValueError, r"act returned shape \(2, 10\) \(hint: "),
            (giving("act", lambda o: np.zeros(2), Walk), ValueError, r"act returned shape \(2,\) \(hint: "),
            (giving("act", lambda o: np.full_like(o.previous, np.nan), Walk), ValueError, "act returned a number that is not finite"),
            (giving("act", lambda o: None, Walk), TypeError, "act returned object"),
            (giving("training", True), ValueError, r"model.eval\(\)"),
            (object(), TypeError, "is not a model"),
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

        with self.assertRaisesRegex(scalewm.Error, "evaluating mine on tworoom: planning with cem at tier T5 on set s101: no cost that the model gave is finite"):
            self.evaluate(spoiled(10))
        self.assertEqual(self.cells(), {})
        outcome = self.evaluate(spoiled(5))  # of 10 candidates in 3 iterations
        (cell,) = self.cells().values()
        self.assertEqual([r["nan_costs"] for r in cell["result"]["rows"]], [15 * r["replans"] for r in cell["result"]["rows"]])
        self.assertIn("50 % of the costs were NaN or infinite", outcome["cells"][0]["note"])

    def test_what_is_refused(self):
        for text, kwargs in {
            "is the name of a built-in method": {"name": "lewm"},
            "is not valid": {"name": "a/b"},
            "which is not valid": {"weights": "a b"},
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
        for text, error, kwargs in [
            (r"kind \['cost'\] \(hint", ValueError, {"kind": ["cost"]}),
            ("name=1", TypeError, {"name": 1}),
            (r"kind 'foo' \(hint: cost, world, policy", ValueError, {"kind": "foo"}),
            ("not a model of kind cost .hint", TypeError, {"kind": "cost"}),
            (r"tier=5 \(hint: a text", TypeError, {"tier": 5}),
            ("sets=", TypeError, {"sets": [101]}),
            ("solver=7", TypeError, {"solver": 7}),
            ("episodes='2'", TypeError, {"episodes": "2"}),
            ("workers=1.5", TypeError, {"workers": 1.5}),
            ("train_seed=", TypeError, {"train_seed": "a"}),
            ("unknown protocol \"1\"", scalewm.Error, {"protocol": 1}),
            (r"temperature=\[1\] .hint: a text, a number", TypeError, {"temperature": [1]}),
            ("unexpected keyword argument 'temprature'", TypeError, {"temprature": 1}),
            ("name=None", TypeError, {"name": None}),
            ("weights=7", TypeError, {"weights": 7}),
            ("no method propose", TypeError, {"proposal": object()}),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.evaluate(Dot(), **kwargs)
        for take in ("info", "info_dict", "batch"):
            main = type("Main", (), {"frame_size": SIZE, **dict(zip(("encode", "rollout"), eval(f"(lambda self, {take}: {take}['pixels'], lambda self, {take}, sequence: {take})")))})()
            with self.subTest(take), self.assertRaisesRegex(TypeError, r"Main.encode accepts neither frames.*it raised IndexError.*hint: .*write scalewm.evaluate\(ShootingCostEvaluator\(model, "):
                self.evaluate(main)
        with self.assertRaisesRegex(TypeError, "weights="):
            self.evaluate(Dot(), weights=None)
        with self.assertRaisesRegex(FileNotFoundError, "nosuch"):
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
