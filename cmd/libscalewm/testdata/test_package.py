"""Tests of what users of Python expect of a package, and of the program in it: make test-python runs them on the installed wheel."""

import errno
import importlib.metadata
import inspect
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import gymnasium

import scalewm

RECORDING = Path(os.environ.get("SCALEWM_RECORDINGS", "")) / "tworoom.h5"
SITE = Path(scalewm.__file__).parent
MODULE, SCRIPT = [sys.executable, "-m", "scalewm"], [SITE.parent / "bin" / "scalewm"]  # pip install --target writes bin there


class TestPackage(unittest.TestCase):
    def test_public_names_have_annotations(self):
        self.assertTrue((SITE / "py.typed").exists())
        self.assertEqual(dir(scalewm), sorted(scalewm.__all__))
        for name in scalewm.__all__:
            x = getattr(scalewm, name)
            members = inspect.getmembers(x, inspect.isfunction) if inspect.isclass(x) else [(name, x)] if inspect.isfunction(x) else []
            for member, f in members:
                if f.__module__.startswith("scalewm") and (member[0] != "_" or member == "__init__"):
                    with self.subTest(name=name, member=member):
                        signature = inspect.signature(f)
                        bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self" and p.name[0] != "_"]
                        self.assertEqual((bare, signature.return_annotation is signature.empty), ([], False))

    def test_metadata(self):
        about = importlib.metadata.metadata("scalewm")
        self.assertEqual(about["Version"], scalewm.__version__)
        self.assertIn("Typing :: Typed", about.get_all("Classifier"))
        for url in about.get_all("Project-URL"):
            self.assertRegex(url, "^[A-Z][^,]+, https://")

    def test_with_and_repr(self):
        with scalewm.Worlds("tworoom", 2, watch="state") as worlds:
            self.assertEqual(repr(worlds), "<scalewm.Worlds tworoom: 2 worlds, watching state>")
        with scalewm.Dataset(RECORDING, 2, 5, columns="state") as clips:
            self.assertRegex(repr(clips), rf"^<scalewm.Dataset '.*tworoom.h5': {len(clips)} clips of 2 frames, 5 rows apart, 224 px, split train>$")
        with scalewm.load(RECORDING.parent / "scale" / "run") as model:
            self.assertRegex(repr(model), r"^<scalewm.Model '.*/scale/run': scale of tworoom, latents \(\d+,\), frames of \d+ px>$")
        with gymnasium.make_vec("scalewm/TwoRoom-v0", num_envs=2, obs=["state"], info="goal_state") as envs:
            envs.reset(seed=0, options={"variation": "agent"})
            self.assertEqual(repr(envs.unwrapped), "<scalewm.VectorEnv tworoom: 2 worlds, watching state, goal_state>")
        for closed in (worlds, clips, model, envs.unwrapped):
            self.assertRegex(repr(closed), ", closed>$")
        self.assertEqual(repr(gymnasium.make("scalewm/TwoRoom-v0").unwrapped), "<scalewm.Env tworoom: 1 world, watching observation>")

    def test_missing_files(self):
        for take in (scalewm.load, scalewm.Dataset):
            with self.assertRaises(FileNotFoundError) as caught:
                take("nosuch")
            self.assertIsInstance(caught.exception, scalewm.Error)
            self.assertEqual(caught.exception.errno, errno.ENOENT)
            self.assertIn("nosuch", str(caught.exception))


class TestProgram(unittest.TestCase):
    """The program as `python -m scalewm` and as the script `scalewm`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_verb(self, *args, of=MODULE, **kwargs):
        return subprocess.run([*of, *args], cwd=self.folder, capture_output=True, text=True, **kwargs)

    def test_streams_and_exit_codes(self):
        for of in (MODULE, SCRIPT):
            self.assertEqual(self.run_verb("--version", of=of).stdout.split()[:2], ["scalewm", scalewm.__version__])
            wrong = self.run_verb("nosuch", of=of)
            self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
            self.assertIn('scalewm: unknown verb "nosuch"', wrong.stderr)
        with open("/dev/full", "w") as full:
            self.assertEqual(subprocess.run([*MODULE, "tasks"], stdout=full, stderr=subprocess.DEVNULL).returncode, 1)
        reader = subprocess.Popen([*MODULE, "tasks"], stdout=subprocess.PIPE)
        reader.stdout.close()
        self.assertEqual(reader.wait(), -signal.SIGPIPE)

    def test_children_are_the_program(self):
        """`data check` reads in a child, and collecting pictures that OpenGL draws starts workers."""
        checked = self.run_verb("data", "check", RECORDING)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        made = self.run_verb("collect", "reacher", "--episodes", "2", "--workers", "2", "--out", "r.h5")
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_signals(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGUSR1, 75)):
            out = Path(self.folder, f"{number}.h5")
            long = subprocess.Popen([*MODULE, "collect", "tworoom", "--episodes", "2000", "--out", out], cwd=self.folder, stderr=subprocess.PIPE, text=True,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a job in the background ignores it
            deadline = time.monotonic() + 60
            while not out.with_name(f"{out.name}.parts").exists() and time.monotonic() < deadline:  # the program runs
                time.sleep(0.05)
            long.send_signal(number)
            said = long.communicate(timeout=60)[1]
            self.assertEqual(long.returncode, code, said)
            self.assertFalse(out.exists())

    def test_limited_address_space(self):
        limited = subprocess.run(["bash", "-c", f"ulimit -v 1500000; exec {SITE / 'scalewm'} tasks"], capture_output=True, text=True)
        self.assertEqual(limited.returncode, 1)
        self.assertIn("hint: raise the limit", limited.stderr)


if __name__ == "__main__":
    unittest.main()
