"""Prints the rows of TestBalancedRepeats: a draw that takes a row twice.

python repeats.py CLEAR
CLEAR is a checkout of DavidSunok/CLEAR-LeWM at ab8849c.
"""

import sys

import numpy

sys.path.insert(0, sys.argv[1])
from clear_lewm.datasets import sample_rows  # noqa: E402

ids = numpy.repeat([0, 1], [6, 9])
print(numpy.__version__, sample_rows(numpy.array([0, 6, 7, 8, 9, 10]), ids, 6, 3, "episode-balanced"))
