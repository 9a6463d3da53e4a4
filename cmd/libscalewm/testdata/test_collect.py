"""Tests of scalewm.collect next to a plain loop over the environment: make test-python runs them on the unpacked wheel."""

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
import h5py
import numpy as np

import scalewm

SITE = Path(scalewm.__file__).parent
SIZE = 32


class Drift(gymnasium.Env):
    """A point that actions move, in pictures of 32 x 32. Its arrays are written to again, as some environments do."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, dtype=np.float32, high=1.0):
        self.action_space = gymnasium.spaces.Box(-high, high, (2,), dtype)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.render_mode = "rgb_array"
        self.at, self.picture = np.zeros(2), np.zeros((SIZE, SIZE, 3), np.uint8)

    def info(self):
        return {"steps": self.steps, "big": np.int64(2**60 + self.steps), "left": bool(self.at[0] < 0), "half": np.float16(self.at[0]), "pair": self.at.astype(np.float32), "one": self.at[:1] * 2}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at[:], self.steps = self.np_random.uniform(-1, 1, 2), 0
        return self.at, self.info()

    def step(self, action):
        time.sleep(float(os.environ.get("DRIFT_SLEEP", 0)))
        self.at += 0.3 * np.asarray(action) + self.np_random.normal(0, 0.01, 2)
        action[:] = 7  # the environment's to change
        self.steps += 1
        return self.at, -float(abs(self.at).sum()), bool(abs(self.at[0]) > 2), False, {**self.info(), "late": 1.0}

    def render(self):
        self.picture[:] = 0
        x, y = (np.clip(self.at, -2, 2) * 7 + 16).astype(int)
        self.picture[y : y + 2, x : x + 2] = 255, self.steps, 100
        return self.picture


def push(env, observation, rng):
    return 0.5 - observation + rng.normal(0, 0.5, 2)


class Sticky:
    """A policy with state."""

    def reset(self, env, rng):
        self.force = rng.uniform(-1, 1, 2)

    def __call__(self, env, observation, rng):
        return self.force


def plain(env, policy, episodes, seed, limit):
    """Returns the rows of the data set from the simplest loop."""
    rows = []
    for i in range(episodes):
        rng = np.random.default_rng((seed, i))
        observation, info = env.reset(seed=int(np.random.SeedSequence((seed, i)).generate_state(1)[0]))
        if hasattr(policy, "reset"):
            policy.reset(env, rng)
        outcome = (np.nan, False, False)
        for t in range(limit + 1):
            last = t == limit or outcome[1] or outcome[2]
            truncated = outcome[2] or (t == limit and not outcome[1])
            row = {"observation": observation.copy(), **{k: np.array(v) for k, v in info.items() if k != "late"}, "pixels": env.render().copy(), "ep_idx": i, "step_idx": t,
                   "reward": outcome[0], "terminated": outcome[1], "truncated": truncated}  # fmt: skip
            if not last:
                row["action"] = np.asarray(policy(env, observation, rng), env.action_space.dtype)
                observation, *outcome, info = env.step(row["action"].copy())
            rows.append({"action": np.full(2, np.nan), **row})
            if last:
                break
    return rows


def resumable(path, **kwargs):
    """What a process that is killed records, and the test too. Parts have two episodes."""
    return scalewm.collect(Drift, Sticky(), 12, path, seed=3, max_steps=900, **kwargs)


class TestCollect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "own.h5"
        warnings.simplefilter("ignore", UserWarning)
        self.addCleanup(warnings.resetwarnings)

    def collect(self, make=Drift, policy=push, episodes=3, **kwargs):
        return scalewm.collect(make, policy, episodes, self.out, **{"max_steps": 20, **kwargs})

    def test_rows_are_those_of_a_plain_loop(self):
        for dtype, policy in ((np.float32, push), (np.float64, Sticky()), (np.float16, push)):
            with self.subTest(dtype=dtype):
                self.out.unlink(missing_ok=True)
                seen = []
                said = self.collect(lambda: Drift(dtype=dtype), policy, 4, seed=5, progress=lambda *p: seen.append(p))
                want = plain(Drift(dtype=dtype), policy, 4, 5, 20)
                with h5py.File(self.out) as f:
                    self.assertEqual({k: (v.dtype.name, v.shape[1:]) for k, v in f.items()}, {
                        "pixels": ("uint8", (SIZE, SIZE, 3)), "action": ("float64" if dtype == np.float64 else "float32", (2,)), "observation": ("float64", (2,)), "steps": ("int64", ()),
                        "big": ("int64", ()), "left": ("uint8", ()), "half": ("float32", ()), "pair": ("float32", (2,)), "one": ("float64", (1,)), "reward": ("float64", ()), "terminated": ("uint8", ()),
                        "truncated": ("uint8", ()), "ep_idx": ("int32", ()), "step_idx": ("int32", ()), "ep_len": ("int32", ()), "ep_offset": ("int64", ())})  # fmt: skip
                    for name in want[0]:
                        have = f[name][:]
                        np.testing.assert_array_equal(have, np.array([row[name] for row in want]).astype(have.dtype), name)
                    attrs = {k: v.decode() for k, v in f.attrs.items()}
                    self.assertEqual(set(f["terminated"][:]), {0, 1} if policy is not push else set(f["terminated"][:]))
                self.assertEqual((attrs["env"], attrs["env_id"], attrs["policy"]), ("Drift", "Drift", "push" if policy is push else "Sticky"))
                self.assertEqual(set(attrs), {"env", "env_id", "policy", "record_spec"})
                self.assertEqual(seen, [(i, 4, "episodes") for i in (1, 2, 3, 4)])
                self.assertEqual(said, {"path": str(self.out), "episodes": 4, "rows": len(want),
                                        "columns": ["pixels", "action", "steps", "big", "left", "half", "pair", "one", "observation", "reward", "terminated", "truncated"]})  # fmt: skip
                self.assertEqual([p.name for p in self.folder.iterdir()], ["own.h5"])

    def test_random_policy_and_limits(self):
        gymnasium.register("test/Drift-v0", Drift, max_episode_steps=6)
        self.addCleanup(gymnasium.registry.pop, "test/Drift-v0")
        self.collect(lambda: gymnasium.make("test/Drift-v0", high=0.25), None, 5, max_steps=None)
        with h5py.File(self.out) as f:
            np.testing.assert_array_equal(f["ep_len"], [7] * 5)
            np.testing.assert_array_equal(f["truncated"], ([0] * 6 + [1]) * 5)
            actions = f["action"][:].reshape(5, 7, 2)
            self.assertTrue(np.isnan(actions[:, -1]).all() and (abs(actions[:, :-1]) <= 0.25).all() and len(np.unique(actions[:, :-1])) == 60)
            first = np.random.default_rng((0, 3)).uniform([-0.25] * 2, [0.25] * 2).astype(np.float32)
            np.testing.assert_array_equal(actions[3, 0], first)
            self.assertEqual((f.attrs["env"], f.attrs["policy"]), (b"test/Drift-v0", b"random"))

    def test_same_arguments_record_nothing(self):
        other = type("Drift", (Drift,), {"step": lambda self, action: Drift.step(self, action * 0.5)})
        said, before = self.collect(), self.out.stat()
        self.assertEqual(self.collect(progress=lambda *p: self.fail(p)), said)
        self.assertEqual(self.out.stat(), before)
        for what in ({"seed": 1}, {"episodes": 4}, {"max_steps": 19}, {"policy": None}, {"make": lambda: Drift(high=2.0)}, {"make": other}, {"observe": lambda env: {"at": env.at}}):
            with self.subTest(what), self.assertRaisesRegex(scalewm.Error, "it exists, recorded with .*hint: remove it"):
                self.collect(**what)
        self.out.write_text("something else")
        with self.assertRaisesRegex(scalewm.Error, "another file exists there"):
            self.collect()
        self.out.unlink()
        self.out.symlink_to("nowhere")
        with self.assertRaisesRegex(scalewm.Error, "another file exists there"):
            self.collect()
        self.assertEqual([p.name for p in self.folder.iterdir()], ["own.h5"])

    def test_continued_after_a_kill(self):
        resumable(self.out)
        killed = self.folder / "killed.h5"
        parts = self.folder / "killed.h5.parts"
        program = f"import signal, test_collect; signal.signal(signal.SIGINT, signal.default_int_handler); test_collect.resumable({str(killed)!r})"
        for count, by in ((1, signal.SIGKILL), (3, signal.SIGINT)):
            p = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parent, stderr=subprocess.PIPE, text=True, env={**os.environ, "DRIFT_SLEEP": "0.01"})
            while p.poll() is None and len(list(parts.glob("*.part"))) < count:
                time.sleep(0.01)
            with self.assertRaisesRegex(scalewm.Error, "another process is recording into it"):
                resumable(killed)
            p.send_signal(by)
            said = p.communicate()[1]
            self.assertEqual(p.returncode, -by, said)
            self.assertFalse(killed.exists())
        there = sorted(parts.glob("*.part"))
        self.assertIn(len(there), (3, 4))
        there[0].write_bytes(there[0].read_bytes()[:1000])  # a damaged part is recorded again
        seen = []
        resumable(killed, progress=lambda *p: seen.append(p[0]))
        self.assertEqual(seen, list(range(2 * len(there) - 1, 13)))
        self.assertEqual(killed.read_bytes(), self.out.read_bytes())
        self.assertFalse(parts.exists())
        parts.mkdir()  # of a run that was killed just before its end
        (parts / "x.part").touch()
        resumable(killed, progress=lambda *p: self.fail(p))
        self.assertFalse(parts.exists())

    def test_environments_that_do_not_fit(self):
        class Old(Drift):
            def reset(self, **kwargs):
                return super().reset(**kwargs)[0]

        class OldStep(Drift):
            def step(self, action):
                return super().step(action)[:4]

        class Nan(Drift):
            def step(self, action):
                observation, *more = super().step(action)
                return observation * np.nan if self.steps == 3 else observation, *more

        class NanReward(Drift):
            def step(self, action):
                return (out := super().step(action))[0], np.nan, *out[2:]

        class Grows(Drift):
            def render(self):
                return np.zeros((SIZE + self.steps // 4,) * 2 + (3,), np.uint8)

        class Discrete(Drift):
            def __init__(self):
                super().__init__()
                self.action_space = gymnasium.spaces.Discrete(3)

        class Changes(Drift):
            def info(self):
                return {"n": [1, 1.5][self.steps > 1]}

        class Shrinks(Drift):
            def info(self):
                return {} if self.steps == 2 else {"n": 1}

        def frames(f):
            return {"frame": lambda env: f(env.render())}

        for error, text, kwargs in [
            (TypeError, r"reset\(\) of Old returned ndarray, not \(observation, info\).*hint", {"make": Old}),
            (TypeError, r"episode 0, step 0: step\(\) of OldStep returned 4 values.*hint", {"make": OldStep}),
            (FloatingPointError, "episode 0, step 2: after step.. the observation of Nan has numbers that are not finite", {"make": Nan}),
            (FloatingPointError, "episode 0, step 1: the reward of NanReward is nan", {"make": NanReward}),
            (ValueError, "episode 0, step 4: the frame has 33 pixels, the first one 32 .hint: frame=", {"make": Grows, "policy": lambda env, observation, rng: -observation}),
            (TypeError, r"render\(\) of NoneType|Discrete\(3\).*hint: planned and recorded actions are real numbers", {"make": Discrete}),
            (ValueError, "episode 0, step 2: the column 'n' is float64 of shape ..; at the first reset it was int64 .*hint: observe=", {"make": Changes}),
            (ValueError, "episode 0, step 2: the column 'n' is missing; .*hint: observe=", {"make": Shrinks}),
            (TypeError, r"frame\(\) of Drift returned float64 of shape \(32, 32, 3\).*hint", frames(lambda x: x / 255)),
            (ValueError, "32 x 16 pixels, which is not a square .hint", frames(lambda x: x[:, :16])),
            (TypeError, "returned None .hint", frames(lambda x: None)),
            (ValueError, "the column 'reward' of Drift has a name of the layout .hint: observe=", {"observe": lambda env: {"reward": 1}}),
            (scalewm.Error, 'the column "a/b".*hint', {"observe": lambda env: {"a/b": 1}}),
            (scalewm.Error, "the column \"x\" has 100000 numbers .*hint", {"observe": lambda env: {"x": np.zeros(100_000)}}),
            (TypeError, "for the column 'x', not numbers", {"observe": lambda env: {"x": "text"}}),
            (ValueError, "episodes of Drift may have no end .hint: max_steps=", {"max_steps": None}),
            (ValueError, "max_steps=0", {"max_steps": 0}),
            (ValueError, "have no bounds.*hint: policy=", {"make": lambda: Drift(high=np.inf), "policy": None}),
            (ValueError, "episode 0, step 0: the policy <lambda> returned .0, 0, 0., not 2 finite numbers", {"policy": lambda *x: [0, 0, 0]}),
            (ValueError, "not 2 finite numbers", {"policy": lambda *x: [0, np.nan]}),
            (TypeError, "the policy is a str .hint", {"policy": "expert"}),
            (scalewm.Error, "0 episodes", {"episodes": 0}),
            (scalewm.Error, "frames of 4097 pixels", {"frame": lambda env: np.zeros((4097, 4097, 3), np.uint8)}),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.collect(**kwargs)
            self.assertFalse(self.out.exists())

    def test_warnings(self):
        warnings.resetwarnings()
        with self.assertWarnsRegex(UserWarning, "the column 'late' of Drift is left out: it was missing at the first reset .hint: observe=") as caught:
            self.collect()
        self.assertEqual(len(caught.warnings), 1)

    def test_an_exception_of_the_environment_leaves_the_parts(self):
        class Breaks(Drift):
            def reset(self, **kwargs):
                if np.array_equal(kwargs["seed"], np.random.SeedSequence((0, 5)).generate_state(1)[0]):
                    raise KeyError("broken")
                return super().reset(**kwargs)

        with self.assertRaisesRegex(KeyError, "broken"):
            self.collect(Breaks, episodes=8, max_steps=900, policy=Sticky())
        self.assertFalse(self.out.exists())
        self.assertEqual(len(list(Path(f"{self.out}.parts").glob("*.part"))), 2)

    def test_other_verbs_read_it(self):
        self.collect(episodes=12, max_steps=30, policy=lambda env, observation, rng: rng.normal(0, 0.3, 2) - 0.2 * observation)
        program, preset = SITE / "scalewm", Path(__file__).parent.parent.parent / "scalewm" / "testdata" / "tiny.toml"
        for args in (["data", "check", self.out], ["train", "--task", "none", "--method", "lewm", "--preset", preset, "--data", self.out, "--out", self.folder / "run"]):
            ran = subprocess.run([program, *args], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        with scalewm.Dataset(self.out, 3, 5, split="all") as clips:
            self.assertEqual(clips[0]["pixels"].shape, (3, SIZE, SIZE, 3))


if __name__ == "__main__":
    unittest.main()
