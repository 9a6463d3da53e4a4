"""Tests of the Python package: make test-python runs them on the unpacked wheel."""

import copy
import gc
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import unittest
import warnings
from pathlib import Path

import gymnasium
import h5py
import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import scalewm

PLANAR = ["scalewm/TwoRoom-v0", "scalewm/PushT-v0", "scalewm/PointMaze-v0"]


def vec(name="scalewm/TwoRoom-v0", n=3, **kwargs):
    env = gymnasium.make_vec(name, num_envs=n, **kwargs)
    return env


def finish(env, obs):
    """Moves the goals onto the agents of worlds 0 and 2, so that the next step ends their episodes."""
    mask = np.array([True, False, True])
    env.set_goal(np.array(env.worlds.observe()[0][:, :2], np.float64), mask)
    return np.zeros((3, 2), np.float32)


class TestSingle(unittest.TestCase):
    def test_checker(self):
        for name in PLANAR:
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of infinite bounds
                env = gymnasium.make(name, render_mode="rgb_array")
                check_env(env.unwrapped)
                env.close()

    def test_default_observation(self):
        for name, width in [("scalewm/TwoRoom-v0", 10), ("scalewm/PushT-v0", 7), ("scalewm/PointMaze-v0", 4)]:
            self.assertEqual(gymnasium.make(name).observation_space.shape, (width,))

    def test_step_limits_are_the_tasks(self):
        for name, (task, steps) in scalewm.IDS.items():
            self.assertEqual(steps, scalewm.tasks()[task]["max_steps"], name)
            self.assertEqual(gymnasium.spec(name).max_episode_steps, steps)


class TestVector(unittest.TestCase):
    def test_world_i_is_the_single_world_of_its_seed(self):
        for name in PLANAR:
            with self.subTest(name):
                many = vec(name, obs=("state", "pixels"))
                obs, _ = many.reset(seed=5)
                many.action_space.seed(1)
                actions = [many.action_space.sample() for _ in range(8)]
                steps = [many.step(a) for a in actions]
                for i in range(3):
                    one = gymnasium.make(name, obs=("state", "pixels"))
                    first, _ = one.reset(seed=5 + i)
                    np.testing.assert_array_equal(first["state"], obs["state"][i])
                    for a, (o, reward, terminated, _, _) in zip(actions, steps):
                        mine, r, t, _, _ = one.step(a[i])
                        np.testing.assert_array_equal(mine["state"], o["state"][i])
                        np.testing.assert_array_equal(mine["pixels"], o["pixels"][i])
                        self.assertEqual((r, t), (reward[i], terminated[i]))

    def test_next_step(self):
        env = vec()
        self.assertEqual(env.metadata["autoreset_mode"], AutoresetMode.NEXT_STEP)
        obs, _ = env.reset(seed=0)
        still = finish(env, obs)
        obs, _, terminated, truncated, _ = env.step(still)
        self.assertEqual(terminated.tolist(), [True, False, True])
        after, reward, terminated, truncated, _ = env.step(still)
        self.assertFalse(terminated.any() or truncated.any() or reward.any())
        self.assertFalse((after[0] == obs[0]).all())
        np.testing.assert_array_equal(after[1], obs[1])  # a zero action leaves the agent where it is

    def test_same_step(self):
        env = vec(autoreset_mode=AutoresetMode.SAME_STEP, info=("state",))
        before, _ = env.reset(seed=0)
        obs, _, terminated, _, infos = env.step(finish(env, before))
        self.assertEqual(terminated.tolist(), [True, False, True])
        self.assertEqual(infos["_final_obs"].tolist(), [True, False, True])
        np.testing.assert_array_equal(infos["final_obs"][0][:2], before[0, :2])
        np.testing.assert_array_equal(infos["final_info"]["state"][2], before[2, :2])
        self.assertIsNone(infos["final_obs"][1])
        self.assertFalse((obs[0, :2] == before[0, :2]).all())
        np.testing.assert_array_equal(infos["state"], obs[:, :2])

    def test_disabled(self):
        env = vec(autoreset_mode=AutoresetMode.DISABLED)
        before, _ = env.reset(seed=0)
        still = finish(env, before)
        terminated = env.step(still)[2]
        with self.assertRaises(gymnasium.error.ResetNeeded):
            env.step(still)
        obs, _ = env.reset(seed=[7, None, None], options={"reset_mask": terminated})
        np.testing.assert_array_equal(obs[1], before[1])
        np.testing.assert_array_equal(obs[0], vec(n=1).reset(seed=7)[0][0])
        self.assertFalse(env.step(still)[2].any())

    def test_truncation(self):
        env = vec(max_episode_steps=3)
        env.reset(seed=0)
        still = np.zeros((3, 2), np.float32)
        self.assertEqual([env.step(still)[3].all() for _ in range(5)], [False, False, True, False, False])

    def test_buffers(self):
        still = np.zeros((3, 2), np.float32)
        fresh, same = vec(), vec(copy=False)
        for env, reused in [(fresh, False), (same, True)]:
            first, _ = env.reset(seed=0)
            self.assertEqual(np.shares_memory(first, env.step(still)[0]), reused)

    def test_variation(self):
        env = vec(obs=("variation.agent.color", "variation.agent.speed"))
        obs, _ = env.reset(seed=0, options={"variation": {"agent.color": [0, 0, 255]}})
        self.assertEqual(obs["variation.agent.color"].tolist(), [[0, 0, 255]] * 3)
        obs, _ = env.reset(seed=0, options={"variation": ["agent"]})
        self.assertEqual(len(np.unique(obs["variation.agent.speed"])), 3)
        fixed = vec(options={"agent.color": "1,2,3"}, obs="variation.agent.color")
        self.assertEqual(fixed.reset(seed=0)[0].tolist(), [[1, 2, 3]] * 3)

    def test_state_and_goal(self):
        env = vec()
        obs, _ = env.reset(seed=0, options={"state": np.full((3, 2), 60.0), "goal": {"state": np.full((3, 2), 170.0)}})
        self.assertEqual(obs[:, :4].tolist(), [[60, 60, 170, 170]] * 3)
        obs = env.set_state(np.full((3, 2), 80.0), np.array([False, True, False]))
        self.assertEqual(obs[:, 0].tolist(), [60, 80, 60])

    def test_render(self):
        env = vec(render_mode="rgb_array", obs="pixels")
        obs, _ = env.reset(seed=0)
        np.testing.assert_array_equal(np.stack(env.render()), obs)

    def test_threads_change_nothing(self):
        one, two = vec(n=20, obs="pixels"), vec(n=20, obs="pixels", workers=2)
        np.testing.assert_array_equal(one.reset(seed=0)[0], two.reset(seed=0)[0])


RECORDINGS = sorted(Path(os.environ.get("SCALEWM_RECORDINGS", "")).glob("*.h5")) if "SCALEWM_RECORDINGS" in os.environ else []


class TestRecordings(unittest.TestCase):
    @unittest.skipUnless(RECORDINGS, "make test-python records some")
    def test_replay_to_the_bit(self):
        """Actions of what `scalewm collect` recorded give its rows and frames, all episodes side by side."""
        for path in RECORDINGS:
            with self.subTest(path.name), h5py.File(path) as f:
                task = path.stem
                offset, length = f["ep_offset"][:], f["ep_len"][:]
                columns = [c for c in scalewm.tasks()[task]["columns"] if c["name"] in f]
                watch, into = [c["name"] for c in columns] + ["pixels"], {c["name"] for c in columns if c.get("into")}
                rows = {name: f[name][:] for name in watch}
                worlds = scalewm.Worlds(task, len(length), watch=watch)
                worlds.reset(np.zeros(len(length)))
                out = worlds.set("start", {name: rows[name][offset] for name in watch if name != "pixels"})
                if "goal_state" in rows:
                    out = worlds.set("goal", {"state": rows["goal_state"][offset]})
                actions = f["action"][:]
                for t in range(length.max()):
                    for i in np.flatnonzero(t < length):
                        for name, values in zip(watch, out):
                            if t > 0 or name not in into:
                                recorded = rows[name][offset[i] + t]
                                np.testing.assert_array_equal(values[i].reshape(recorded.shape), recorded, f"{name}, episode {i}, row {t}")
                    now = np.minimum(offset + t, offset + length - 2)  # the last row has no action
                    out = worlds.step(actions[now])[0]


class TestMisuse(unittest.TestCase):
    def test_exceptions(self):
        env = vec()
        env.reset(seed=0)
        still = np.zeros((3, 2), np.float32)
        (fits,) = env.worlds.buffers()
        frozen = fits.copy()
        frozen.flags.writeable = False
        for out in (fits[:2], fits.astype(np.int16), np.asfortranarray(fits), np.repeat(fits, 2, 1)[:, ::2], fits.tolist(), frozen, fits.astype(fits.dtype.newbyteorder())):
            for take in (lambda: env.worlds.observe((out,)), lambda: env.worlds.step(still, out=(out,)), lambda: env.worlds.frames(out)):
                with self.assertRaisesRegex(ValueError, "out does not fit .hint: contiguous"):
                    take()
        with self.assertRaisesRegex(ValueError, "out does not fit"):
            env.worlds.observe((fits, fits))
        self.assertIs(env.worlds.observe((fits,))[0], fits)
        for wrong, error in [
            (lambda: env.step(still[:2]), ValueError),
            (lambda: env.step(still.T), ValueError),
            (lambda: env.step(still.astype(complex)), TypeError),
            (lambda: env.step(np.array([["a", "b"]] * 3)), TypeError),
            (lambda: env.step(still * np.nan), scalewm.Error),
            (lambda: env.step(None), TypeError),
            (lambda: env.reset(options={"nosuch": 1}), ValueError),
            (lambda: env.reset(options={"variation": ["nosuch"]}), ValueError),
            (lambda: env.reset(options={"variation": {"agent.speed": 1e9}}), scalewm.Error),
            (lambda: env.reset(options={"reset_mask": [1, 0, 0]}), ValueError),
            (lambda: env.reset(seed=[1]), ValueError),
            (lambda: env.set_state(np.zeros((3, 5))), ValueError),
            (lambda: env.set_state({"state": np.full((3, 2), np.inf)}), scalewm.Error),
            (lambda: vec(obs="nosuch"), scalewm.Error),
            (lambda: vec(n=0), scalewm.Error),
            (lambda: vec(render_mode="human"), ValueError),
            (lambda: scalewm.Worlds("nosuch"), scalewm.Error),
        ]:
            with self.assertRaises(error) as caught:
                wrong()
            self.assertTrue(str(caught.exception))
        env.step(still)
        env.close()
        with self.assertRaisesRegex(scalewm.Error, "closed"):
            env.step(still)

    def test_nothing_is_copied(self):
        """A copy would step the same worlds, and a pickle those of another process; where gymnasium itself copies, all goes on."""
        for make in (lambda: gymnasium.make("scalewm/TwoRoom-v0"), vec, lambda: scalewm.Worlds("tworoom", 2, watch=("state",))):
            it = make()
            bare = getattr(it, "unwrapped", it)
            it.reset([1, 2]) if it is bare and hasattr(it, "watch") else it.reset(seed=1)
            for way in (copy.copy, copy.deepcopy, pickle.dumps, lambda x: pickle.dumps(x, 0), lambda x: copy.deepcopy({"in": [x]})):
                for x in (bare, getattr(bare, "worlds", bare), getattr(bare, "view", bare)):
                    with self.subTest(x=x), self.assertRaisesRegex(TypeError, "cannot be copied or pickled.*hint: make another one"):
                        way(x)
            gc.collect()
            worlds = getattr(bare, "worlds", bare)
            worlds.observe()
            worlds.close()
            worlds.close()
            with self.assertRaisesRegex(scalewm.Error, "closed"):
                worlds.observe()
        copy.deepcopy(gymnasium.make("scalewm/TwoRoom-v0", obs="state").spec).make().reset()

    def test_handles_of_another_kind(self):
        worlds = scalewm.Worlds("tworoom")
        with self.assertRaisesRegex(scalewm.Error, "another kind"):
            scalewm._abi.call("model.encode", worlds._handle)
        with self.assertRaisesRegex(scalewm.Error, "no such object"):
            scalewm._abi.call("worlds.observe", worlds._handle + 1)
        worlds.observe(())

    def test_two_threads_on_one_environment(self):
        env, errors = vec(n=200, obs="pixels"), []
        env.reset(seed=0)

        def work():
            try:
                for _ in range(2):
                    env.worlds.observe()
            except scalewm.Error as e:
                errors.append(str(e))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertTrue(all("another thread" in e for e in errors))


    def test_version_is_the_programs(self):
        program = Path(__file__).resolve().parents[3] / "bin" / "scalewm"  # make test-python builds it
        said = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(scalewm.__version__, said.split()[1])

    def test_hdf5_next_to_h5py(self):
        """The library contains its own HDF5, separate from h5py's."""
        self.assertRegex(scalewm.versions()["hdf5"], r"^1\.")
        with h5py.File("in memory", "w", driver="core", backing_store=False) as f:
            f["x"] = np.arange(3)
            self.assertEqual(f["x"][2], 2)


class TestImport(unittest.TestCase):
    def test_registers_in_either_order(self):
        for code in [
            "import sys, gymnasium, scalewm",
            "import sys, scalewm; assert 'gymnasium' not in sys.modules; import gymnasium",
            "import sys, importlib.util, scalewm; importlib.util.find_spec('gymnasium'); importlib.util.find_spec('gymnasium'); import gymnasium.spaces",
        ]:
            code += "; print(gymnasium.make_vec('scalewm/TwoRoom-v0', num_envs=2).num_envs); assert not [f for f in sys.meta_path if 'scalewm' in str(f)]"
            run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
            self.assertEqual(run.stdout, "2\n", run.stderr)


class TestProcesses(unittest.TestCase):
    def test_fork_is_refused_with_words(self):
        vec(n=1).reset(seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = os.fork()
        if child == 0:
            try:
                vec(n=1)
            except scalewm.Error as e:
                os._exit(0 if "forked" in str(e) and "spawn" in str(e) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_vector_modes(self):
        """Processes of the default context are forked from one that has looked at the spaces; all modes see the same worlds."""
        code = """
import gymnasium, numpy as np, scalewm, warnings
warnings.simplefilter("ignore")
if __name__ == "__main__":
    seen = []
    for name in ("scalewm/TwoRoom-v0", "scalewm/PushT-v0"):
        for mode in ("async", "sync", "vector_entry_point"):
            if mode != "async" and name.endswith("Room-v0"):
                continue  # these open the library, and what is forked afterwards cannot use it
            e = gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode)
            obs, _ = e.reset(seed=3)
            seen.append((obs, e.step(np.full((2, 2), 0.5, np.float32))[0]))
            e.close()
    np.testing.assert_array_equal(seen[1], seen[2])
    np.testing.assert_array_equal(seen[1], seen[3])
    try:
        gymnasium.make_vec(name, num_envs=2, vectorization_mode="async").reset()
    except scalewm.Error as e:
        print(e)
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertRegex(run.stdout, "forked.*spawn", run.stderr)

    def test_processes_side_by_side(self):
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            a, b = pool.map(first_observation, [3, 3])
        self.assertEqual(a, b)
        self.assertEqual(a, first_observation(3))

    def test_a_library_of_another_version(self):
        for other in ("ABI = 99", "_packaged = lambda: {**a.json.loads((a._HERE / 'tasks.json').read_text()), 'versions': {}}"):
            code = f"import scalewm._abi as a; a.{other}; import scalewm; scalewm.Worlds('tworoom')"
            run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            self.assertIn("install scalewm again", run.stderr)

    def test_fuzz(self):
        """Three seconds of what was run for ten minutes: values or scalewm.Error, and the process lives."""
        run = subprocess.run([sys.executable, Path(__file__).with_name("fuzz_abi.py"), "3"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_interrupt(self):
        """Ctrl-C ends a call of many seconds within one."""
        code = """
import signal, threading, time, os, json, scalewm
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
w = scalewm.Worlds("tworoom", 20000)
w.reset(list(range(20000)))
out = __import__("numpy").empty((20000, 224, 224, 3), "uint8")
threading.Timer(.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.time()
try:
    while True: w.frames(out)
except KeyboardInterrupt:
    print(json.dumps(time.time() - start))
w.reset(list(range(20000)))
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertLess(json.loads(run.stdout), 5)  # 0.3 s and a slice; wide, since it is no measurement


def first_observation(seed):
    return vec(n=2).reset(seed=seed)[0].tolist()


if __name__ == "__main__":
    unittest.main()
