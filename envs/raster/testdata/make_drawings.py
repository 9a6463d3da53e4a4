"""Checksums of drawings by pygame and OpenCV, for the tests of this package.

Made with pygame 2.6.1, opencv-python 5.0.0, numpy 2.4, CPython 3.11:

    python make_drawings.py > drawings.txt

A line is: what was drawn, its numbers, then the CRC-32 of the picture's RGB
bytes. Pictures are 60 x 50, the ground (255, 250, 3), the colour (231, 76, 60);
resized ones are 64 x 64 of noise to 28 x 28.
"""

import random
import zlib

import cv2
import numpy as np
import pygame

W, H = 60, 50
COLOR = (231, 76, 60)


def crc(surface):
    picture = np.transpose(pygame.surfarray.array3d(surface), (1, 0, 2))
    return zlib.crc32(np.ascontiguousarray(picture).tobytes())


def main():
    random.seed(3)
    for k in range(1200):
        far = random.choice([0, 0, 5, 40])
        point = lambda: (random.randint(-far, W + far), random.randint(-far, H + far))
        surface = pygame.Surface((W, H))
        surface.fill((255, 250, 3))
        a, b = point(), point()
        kind = ('polygon', 'disc', 'line', 'aaline')[k % 4]
        if kind == 'polygon':
            p = [a, b, point(), point()]
            if random.random() < 0.5:
                p.append(a)
            pygame.draw.polygon(surface, COLOR, p)
            numbers = [v for q in p for v in q]
        elif kind == 'disc':
            r = random.choice([2, 11, 15, random.randint(1, 20)])
            pygame.draw.circle(surface, COLOR, a, r, 0)
            numbers = [*a, r]
        elif kind == 'line':
            w = random.choice([4, 4, 2, 3, 5])
            pygame.draw.lines(surface, COLOR, False, [a, b], w)
            numbers = [*a, *b, w]
        else:
            if random.random() < 0.5:
                b = (a[0] + random.randint(-6, 6), a[1] + random.randint(-6, 6))
            pygame.draw.aalines(surface, COLOR, False, [a, b])
            numbers = [*a, *b]
        print(kind, *numbers, crc(surface))
    for seed in range(8):
        v, noise = seed, np.zeros(64 * 64 * 3, np.uint8)
        for i in range(noise.size):
            v = (v * 1103515245 + 12345) % 2**31
            noise[i] = v >> 16 & 255
        if seed % 2:
            noise = (noise > 128).astype(np.uint8) * 200
        small = cv2.resize(noise.reshape(64, 64, 3), (28, 28))
        print('resize', seed, zlib.crc32(small.tobytes()))


main()
