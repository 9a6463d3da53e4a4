"""Writes resize.bin.gz: frames resized by torchvision's rule for uint8 tensors.

Made with torch 2.15.0, torchvision 0.29.2, numpy 2.4.6. Two frames: bytes of a
linear congruential generator, and a smooth disc on white with black bars. For
each size 32, 64, 96, 112, 160: frame 0, then frame 1, as (size, size, 3).
"""

import gzip

import numpy as np
import torch
import torchvision.transforms.functional as F

SIZE = 224


def noise():
    x, out = 1, np.empty(SIZE * SIZE * 3, np.uint8)
    for i in range(out.size):
        x = (1664525 * x + 1013904223) % 2**32
        out[i] = x >> 24
    return out.reshape(SIZE, SIZE, 3)


def disc():
    y, x, c = np.ogrid[0:SIZE, 0:SIZE, 0:3]
    d = (x - 81) ** 2 + (y - 120) ** 2
    v = np.where((c > 0) & (d < 900), np.minimum(255, d * 255 // 900), 255)
    v = np.where((x // 9) % 7 == 3, 0, v)
    return np.broadcast_to(v, (SIZE, SIZE, 3)).astype(np.uint8)


frames = torch.from_numpy(np.stack([noise(), disc()])).permute(0, 3, 1, 2).contiguous()
with gzip.GzipFile("resize.bin.gz", "wb", mtime=0) as f:
    for size in (32, 64, 96, 112, 160):
        f.write(F.resize(frames, [size, size], antialias=True).permute(0, 2, 3, 1).contiguous().numpy().tobytes())
