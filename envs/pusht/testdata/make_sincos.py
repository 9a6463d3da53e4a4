"""Sines and cosines of the C library, for TestSincos.

Made with CPython 3.11 on glibc 2.36, a processor with fused multiply-add:

    python make_sincos.py > sincos.txt

A line is an angle, its sine and its cosine, in hexadecimal.
"""

import math
import random

random.seed(1)
for i in range(600):
    x = (random.uniform(-7, 7), random.uniform(-100, 100), random.choice([-1, 1]) * 10 ** random.uniform(-9, 5))[i % 3]
    print(x.hex(), math.sin(x).hex(), math.cos(x).hex())
