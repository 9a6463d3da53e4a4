"""Tests of scalewm.evaluate in worlds of gymnasium: make test-python runs them on the unpacked wheel."""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import tiny_world as tiny

import scalewm

HERE = Path(__file__).parent
RECORDING = Path(os.environ.get("SCALEWM_RECORDINGS", "")) / "tworoom.h5"
SITE = Path(scalewm.__file__).parents[1]
QUICK = {"tier": "T5", "sets": "s101", "episodes": 6, "weights": "a" * 64, "name": "see"}
POINT = {"world": tiny.Point, "set_state": tiny.set_state, "success": tiny.success}
MOMENTS = ([0, 0], [0.58, 0.58])


def cells(folder):
    """Specs and results of a folder's cells, sorted by id."""
    return [json.loads(p.read_text()) for p in sorted((Path(folder) / "cells").glob("*.json")) if not p.name.endswith(".run.json")]


def rows(folder):
    return {(c["spec"]["method"], c["spec"]["set"]): c["result"]["rows"] for c in cells(folder)}


class Broken(tiny.Point):
    """A point with one fault."""

    def __init__(self, fault, **arguments):
        super().__init__(**arguments)
        self.fault, self.steps = fault, 0
        if fault == "discrete":
            self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if self.fault == "old reset":
            return observation
        return observation * np.nan if self.fault == "nan reset" else observation, info

    def step(self, action):
        self.steps += 1
        observation, reward, terminated, truncated, info = super().step(action)
        if self.fault == "old step":
            return observation, reward, terminated, info
        if self.fault == "noise":
            self.position = self.position + 1e-3 * np.random.default_rng().normal(size=2)
            observation = self._get_obs()
        if self.fault == "nan":
            observation = observation * np.nan
        if self.fault == "grow":
            self.size = 40
        if self.fault == "raises":
            raise RuntimeError("boom")
        if self.steps > 60 and self.fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.steps > 60 and self.fault == "hangs":
            time.sleep(1000)
        return observation, reward, terminated or self.fault == "over", truncated or self.fault == "short", info

    def render(self):
        if self.fault == "no picture":
            return None
        if self.fault == "wide":
            return np.zeros((32, 48, 3), np.uint8)
        picture = super().render()
        return picture / np.float32(255) if self.fault == "float" else picture


class OldSeed(tiny.Point):
    """An environment of the gym before seeds were arguments of reset."""

    def reset(self):
        return self._get_obs()


class TestWorld(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = tiny.record(cls.folder.name + "/point.h5")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def out(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name + "/results"

    def evaluate(self, model=None, task="point", data="", out=None, **arguments):
        """Evaluates in the point's world, and returns the folder and the result."""
        out = out or self.out()
        return out, scalewm.evaluate(model or tiny.See(), task, self.data if data == "" else data, out, **{**QUICK, **POINT, **arguments})

    def test_equals_native(self):
        """Two-Room as an environment of gymnasium gives the rows of the program's own simulator: the same steps, plans and outcomes."""
        if not RECORDING.exists():
            self.skipTest("SCALEWM_RECORDINGS names no folder with tworoom.h5")
        from test_evaluate import Dot

        def set_state(env, row):
            env.unwrapped.set_state({"state": row["state"][None]})
            env.unwrapped.set_goal({"state": row["goal_state"][None]})

        def solved(env, goal):
            return bool(np.linalg.norm(env.unwrapped.worlds.observe()[0][0, :2] - goal["state"]) < 16)

        own, theirs = self.out(), self.out()
        k = {"weights": "b" * 64, "name": "dot", "tier": "T5", "sets": "s101,s102", "episodes": 20}
        for protocol in ("paper", "strict"):
            scalewm.evaluate(Dot(), "tworoom", RECORDING, own, protocol=protocol, actions=([0, 0], [1, 1]), **k)
            scalewm.evaluate(Dot(), "rooms", RECORDING, theirs, protocol=protocol, actions=([0, 0], [1, 1]), set_state=set_state, success=solved,
                             world=lambda: gymnasium.make("scalewm/TwoRoom-v0", render_mode="rgb_array", max_episode_steps=1000), **k)  # fmt: skip
        want, got = ({(c["spec"]["protocol"], c["spec"]["set"]): c["result"]["rows"] for c in cells(folder)} for folder in (own, theirs))
        self.assertEqual(len(want), 4)
        self.assertEqual(got, want)
        for c in cells(theirs):
            self.assertEqual(c["spec"]["world"], "gymnasium:scalewm/TwoRoom-v0")
            self.assertEqual(c["result"]["replayed"]["passed"], 20)

    def test_processes_and_resume(self):
        """Results do not depend on processes, batches or kills."""
        one, result = self.evaluate(sets="s101,s102,s103")
        self.assertEqual([c["mean"] for c in result["cells"]], [np.mean([r["success"] for x in rows(one).values() for r in x]) * 100])
        two, _ = self.evaluate(sets="s101,s102,s103", workers=2, batch=4)
        self.assertEqual(cells(one), cells(two))
        killed = self.out()
        code = f"import test_world as t; t.scalewm.evaluate(t.tiny.See(), 'point', {self.data!r}, {killed!r}, **t.QUICK | t.POINT | {{'sets': 's101,s102,s103'}})"
        env = {**os.environ, "POINT_SLEEP": "0.004", "PYTHONPATH": os.pathsep.join([str(SITE), str(HERE)])}
        process = subprocess.Popen([sys.executable, "-c", code], env=env)
        while process.poll() is None and not ((Path(killed) / "cells").exists() and cells(killed)):
            time.sleep(0.01)
        process.kill()
        process.wait()
        _, result = self.evaluate(sets="s101,s102,s103", out=killed)
        self.assertEqual(cells(one), cells(killed))
        self.assertTrue(any("were reused" in note for note in result["notes"]), "it was killed before it had finished a cell, or after all of them")

    def test_identity(self):
        """A cell is named by the world and by the functions that matter, equally in every process."""

        def stricter(env, goal):
            return tiny.success(env, goal) and np.linalg.norm(env.unwrapped.velocity) < 1

        first, _ = self.evaluate()
        spec = cells(first)[0]["spec"]
        self.assertEqual((spec["world"], spec["task"], "nondeterministic" in spec), ("gymnasium:Point", "point", False))
        of = {"observe": {"observe": lambda env: {"observation": env.unwrapped._get_obs()}}, "success": {"success": stricter}, "world": {"world": lambda: tiny.Point(size=32)}}
        hashes = {what: cells(self.evaluate(**changed)[0])[0]["spec"]["world_hash"] for what, changed in of.items()}
        self.assertEqual(hashes.pop("observe"), spec["world_hash"])
        self.assertEqual(len({spec["world_hash"], *hashes.values()}), 3)
        code = f"import test_world as t; t.scalewm.evaluate(t.tiny.See(), 'point', {self.data!r}, {first!r} + '2', **t.QUICK | t.POINT)"
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([str(SITE), str(HERE)])})
        self.assertEqual(cells(first), cells(first + "2"))

    def test_rows(self):
        """set_state receives the columns of the start in their types, and goal_NAME of the goal; success receives those of the goal."""
        seen = {}

        def set_state(env, row):
            seen.setdefault("row", row)
            tiny.set_state(env, row)
            env.unwrapped.asked = row

        def success(env, goal):
            seen["goal"] = goal
            np.testing.assert_array_equal(env.unwrapped.asked["goal_observation"], goal["observation"])
            return tiny.success(env, goal)

        self.evaluate(set_state=set_state, success=success)
        self.assertEqual({k: (v.shape, str(v.dtype)) for k, v in seen["goal"].items()}, {"action": ((2,), "float32"), "observation": ((4,), "float64"), "goal_observation": ((4,), "float64"), "step_idx": ((), "int64")})
        self.assertEqual({k for k in seen["row"] if not k.startswith("goal_")}, {"action", "observation", "step_idx"})

    def test_ways_to_set_a_state(self):
        """Without set_state, the ways of gymnasium and stable-worldmodel are tried. A list calls methods in the format of stable-worldmodel's configs."""

        class Options(tiny.Point):
            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                if options and "state" in options:
                    tiny.set_state(self, {"observation": options["state"], "goal_observation": options["goal_state"]})
                return self._get_obs(), self._get_info()

            def _get_info(self):
                return {"state": self._get_obs(), "goal_state": np.array([*self.goal, 0, 0])}

        class Callables(Options):
            def reset(self, *, seed=None, options=None):
                return super().reset(seed=seed)

            def _set_state(self, state):
                tiny.set_state(self, {"observation": state})

            def _set_goal_state(self, goal_state):
                self.goal = np.array(goal_state[:2])

        data = tiny.record(self.folder.name + "/state.h5", names={"observation": "state", "goal_observation": "goal_state"})
        terminated = {"set_state": None, "success": None, "data": data}
        by_options, by_callables = self.evaluate(world=Options, **terminated)[0], self.evaluate(world=Callables, **terminated)[0]
        methods = [{"method": "_set_state", "args": {"state": {"value": "state"}}}, {"method": "_set_goal_state", "args": {"goal_state": {"value": "goal_state"}}}]
        by_list = self.evaluate(world=Callables, **{**terminated, "set_state": methods})[0]
        self.assertEqual(rows(by_options), rows(by_callables))
        self.assertEqual(rows(by_options), rows(by_list))
        # Velocities are set as well, and the verdict is that of the function on the same starts.
        of = rows(self.evaluate(world=Options, set_state=methods_of(methods), success=lambda env, goal: bool(np.linalg.norm(env.unwrapped.position - goal["state"][:2]) < 0.1), data=data)[0])
        for r, s in zip(rows(by_options)["see", "s101"], of["see", "s101"]):
            self.assertEqual((r["success"], r["steps"]), (s["success"], s["steps"]))

    def test_without_data(self):
        """Starts by seed are the same for every model, in another folder, and on another machine that has the file of the set."""
        k = {"data": None, "goal": tiny.goal, "actions": MOMENTS, "sets": "s101,s7"}
        first, result = self.evaluate(**k)
        self.assertGreater(result["cells"][0]["mean"], 50)
        self.evaluate("random", out=first, **k)
        hashes = {c["spec"]["set_hash"] for c in cells(first)}
        self.assertEqual((len(cells(first)), len(hashes)), (4, 2))
        again, _ = self.evaluate(workers=2, **k)
        self.assertEqual(cells(again), [c for c in cells(first) if c["spec"]["method"] == "see"])
        (path,) = (Path(first) / "sets").glob("point-s7-*.json")
        listed, _ = self.evaluate(**{**k, "sets": str(path), "episodes": 2})
        self.assertEqual(rows(listed)["see", "s7"], rows(first)["see", "s7"])

        class Elsewhere(tiny.Point):
            def reset(self, *, seed=None, options=None):
                out = super().reset(seed=seed)
                self.position = self.position / 2
                return (self._get_obs(), *out[1:])

        Elsewhere.__name__ = "Point"
        with self.assertRaisesRegex(scalewm.Error, "episode 0: the seed .* gives the start"):
            self.evaluate(**{**k, "sets": str(path), "world": Elsewhere})
        picture_by_set_state = {"goal": lambda env, rng: {"observation": np.array([0.3, 0.3, 0, 0])}}
        drawn, _ = self.evaluate(**{**k, **picture_by_set_state})
        self.assertEqual(len(cells(drawn)), 2)
        with self.assertRaisesRegex(ValueError, r"environment 0: an array \(40, 40, 3\), not \(32, 32, 3\)"):
            self.evaluate(**{**k, "goal": lambda env, rng: {"observation": np.zeros(4), "pixels": np.zeros((40, 40, 3), np.uint8)}})
        with self.assertRaisesRegex(TypeError, "does not draw its goals"):
            self.evaluate(**{**k, **picture_by_set_state, "set_state": None})

    def test_command(self):
        """python -m scalewm eval --world is evaluate."""
        want, _ = self.evaluate("random")
        out = self.out()
        args = ["--world", "tiny_world:Point", "--set-state=tiny_world:set_state", "--success", "tiny_world:success", "--task", "point", "--data", self.data, "--sets", "s101", "--episodes", "6", "--out", out]

        def run(*args):
            return subprocess.run([sys.executable, "-m", "scalewm", "eval", *args], cwd=HERE, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SITE)})

        done = run(*args, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["cells"][0]["method"], "random")
        self.assertEqual(cells(out), cells(want))
        self.assertRegex(run(*args, "--weights", "tiny_world:MODEL", "--tier", "T5", "--action-clip").stdout, r"point +see-model@world +0 +cem +T5 +1 +6 +\d")
        for extra, code, text in ((["--world", "tiny_world:nothing"], 2, "has no nothing"), (["--world", "tiny_world"], 2, "MODULE:FUNCTION"), (["--budget", "many"], 1, "budget"), (["--nosuch"], 2, "unrecognized")):
            bad = run(*args, *extra)
            self.assertEqual(bad.returncode, code, bad.stderr)
            self.assertIn(text, bad.stderr)

    def test_report(self):
        """The report names world, versions, success rule and replay of such a task."""
        out, _ = self.evaluate()
        self.evaluate("random", out=out)
        subprocess.run([sys.executable, "-m", "scalewm", "report", out], check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(SITE)})
        page = (Path(out) / "report" / "report.md").read_text()
        for text in ("World of point**: gymnasium:Point, gymnasium ", "The point is within 0.1 of the goal's position", "from 20 of 20 rows"):
            self.assertIn(text, page)
        self.assertNotIn("scalewm reproduce", page)
        self.assertTrue(list((Path(out) / "watch").glob("point-*.gif")))

    def test_faults(self):
        """Each fault of a world is an error that says what to do."""
        for fault, kind, text, arguments in (
            ("float", TypeError, "render.. of Broken returned float32", {}),
            ("no picture", TypeError, "render_mode='rgb_array'", {}),
            ("wide", ValueError, "32 x 48 pixels, which is not a square .*width=224", {}),
            ("grow", ValueError, "changed their size from 32 to 40", {}),
            ("old reset", TypeError, "not .observation, info.*shimmy", {}),
            ("old step", TypeError, "returned 4 values.*shimmy", {}),
            ("discrete", TypeError, "a Box of floats", {}),
            ("nan reset", scalewm.Error, "not finite", {}),
            ("nan", scalewm.Error, "observation is not finite after step 1", {}),
            ("raises", scalewm.Error, "environment 0: RuntimeError: boom", {}),
            ("noise", scalewm.Error, "two runs of the same actions .*deterministic=False", {}),
            ("over", scalewm.Error, "terminated after the first step of every episode", {"success": None}),
            ("short", scalewm.Error, "in every episode, the world truncated the episode after step 1 .*max_episode_steps", {}),
            ("", scalewm.Error, "set_state does not restore", {"set_state": lambda env, row: None}),
            ("", TypeError, r"(?s)def set_state\(env, row\).*evaluate\(\.\.\., set_state=set_state\)", {"set_state": None}),
            ("", scalewm.Error, "environment 0: KeyError", {"set_state": lambda env, row: row["nosuch"]}),
            ("", scalewm.Error, r"a data set .*goal=|goal=, a function goal\(env, rng\)", {"data": None}),
            ("", scalewm.Error, r"actions=\(mean, deviation\)", {"data": None, "goal": tiny.goal}),
            ("", scalewm.Error, r"success\(env, goal\)", {"protocol": "strict", "success": None, "actions": MOMENTS}),
            ("", scalewm.Error, "built-in task", {"task": "tworoom"}),
            ("", TypeError, "not a function of the environment", {"success": 3}),
        ):  # fmt: skip
            with self.subTest(fault or text), self.assertRaisesRegex(kind, text):
                self.evaluate(world=functools.partial(Broken, fault), **arguments)
        with self.assertRaisesRegex(TypeError, "no seed=.*shimmy"):
            self.evaluate(world=OldSeed)
        with self.assertRaisesRegex(TypeError, "a function that returns a new gymnasium.Env"):
            self.evaluate(world=tiny.Point())
        for missing in ({"world": None}, {"world": None, "set_state": None, "success": None, "data": None}):
            with self.assertRaisesRegex(TypeError, "world="):
                self.evaluate(**missing)
        noisy, _ = self.evaluate(world=functools.partial(Broken, "noise"), deterministic=False)
        self.assertTrue(cells(noisy)[0]["spec"]["nondeterministic"])

    def test_lost_processes(self):
        """A process that dies or hangs is an error that names the environment. Finished cells stay."""
        for fault, text in (("dies", r"the process of environment [0-5] ended with exit code -9"), ("hangs", r"environment [0-5](, [0-5])? did not finish a step of 'run' within 2 s")):
            out, began = self.out(), time.monotonic()
            with self.assertRaisesRegex(scalewm.Error, text):
                self.evaluate(world=functools.partial(Broken, fault), workers=2, timeout=2, sets="s101,s102,s103", budget=25, out=out)
            self.assertLess(time.monotonic() - began, 30)
            self.assertEqual(len(cells(out)), 2)  # an environment steps 10 times in the gate and 25 in each set, and breaks in the third
        with self.assertRaisesRegex(scalewm.Error, "(?s)environment [0-5]: RuntimeError: boom.*in step"), warnings.catch_warnings():
            self.evaluate(world=functools.partial(Broken, "raises"), workers=2)


def methods_of(methods):
    """The same as set_state=methods, as a function."""

    def set_state(env, row):
        for m in methods:
            getattr(env.unwrapped, m["method"], lambda **_: None)(**{name: row[a["value"]] for name, a in m["args"].items()})
        if not hasattr(env.unwrapped, "_set_state"):
            tiny.set_state(env, {"observation": row["state"], "goal_observation": row["goal_state"]})

    return set_state


if __name__ == "__main__":
    unittest.main()
