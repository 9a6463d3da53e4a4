"""Runs the program: `python -m scalewm VERB ...` is `scalewm VERB ...`."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Replaces this process by the program, so that signals, exit codes and streams are the program's."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(Path(__file__).with_name("scalewm"), ["scalewm", *sys.argv[1:]])


if __name__ == "__main__":
    main()
