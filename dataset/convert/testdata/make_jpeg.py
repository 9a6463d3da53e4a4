"""Writes the pictures in jpeg/: smooth colours with noise, as Pillow saves JPEG with each subsampling of
chroma, and next to each one what Pillow reads in it, without loss. Needs Pillow and NumPy (make setup-peers)."""

from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent / "jpeg"
rng = np.random.default_rng(44)
for name, (width, height), subsampling in [("444", (24, 24), 0), ("422", (24, 24), 1), ("420", (24, 24), 2),
                                           ("420_odd", (23, 17), 2), ("422_odd", (17, 23), 1), ("420_narrow", (4, 20), 2), ("420_5", (5, 5), 2)]:
    y, x = np.mgrid[:height, :width]
    wave = 127 + 90 * np.sin(np.stack([x / 3 + y / 7, y / 4 - x / 9, (x + y) / 5], 2))
    frame = (wave + rng.normal(0, 20, wave.shape)).clip(0, 255).astype(np.uint8)
    Image.fromarray(frame).save(HERE / f"{name}.jpeg", quality=75, subsampling=subsampling)
    Image.open(HERE / f"{name}.jpeg").convert("RGB").save(HERE / f"{name}.png")
    grey = Image.fromarray(frame[:, :, 0])
grey.save(HERE / "grey.jpeg", quality=75)
Image.open(HERE / "grey.jpeg").convert("RGB").save(HERE / "grey.png")
