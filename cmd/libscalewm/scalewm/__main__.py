"""Runs the program: `python -m scalewm VERB ...` is `scalewm VERB ...`. `eval --world` runs in Python, where the world is."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Evaluates in a world of the user, or replaces this process by the program, so that signals, exit codes and streams are the program's."""
    if sys.argv[1:2] == ["eval"] and any(a.partition("=")[0] == "--world" for a in sys.argv):
        from .command import main as evaluate

        sys.exit(evaluate(sys.argv[2:]))
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(Path(__file__).with_name("scalewm"), ["scalewm", *sys.argv[1:]])


if __name__ == "__main__":
    main()
