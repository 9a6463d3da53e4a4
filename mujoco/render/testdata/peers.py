"""Makes frames.json and the PNG files with MuJoCo's own Python package, version 3.11.0.

Run with MUJOCO_GL=egl (or osmesa: the same Mesa gives the same bytes).
"""
import json
import pathlib
import struct
import zlib

import mujoco
import numpy as np
from OpenGL import GL

here = pathlib.Path(__file__).parent
assert mujoco.__version__ == "3.11.0", mujoco.__version__
W, H = 120, 90


def png(path, rgb):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + r.tobytes() for r in rgb)
    head = struct.pack(">IIBBBBB", rgb.shape[1], rgb.shape[0], 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


m = mujoco.MjModel.from_xml_path(str(here / "scene.xml"))
d = mujoco.MjData(m)
with mujoco.Renderer(m, H, W) as r:
    gl = GL.glGetString(GL.GL_RENDERER).decode(), GL.glGetString(GL.GL_VERSION).decode()
    for steps in (0, 100):
        for _ in range(steps):
            mujoco.mj_step(m, d)
        mujoco.mj_forward(m, d)
        r.update_scene(d, "side")
        png(here / f"side_{steps}.png", r.render())
    m.geom_rgba[m.geom("box").id] = [1, 1, 0, 1]
    m.light_diffuse[0] = [0.3, 0.3, 0.3]
    r.update_scene(d, "side")
    png(here / "recoloured.png", r.render())
(here / "frames.json").write_text(json.dumps({"mujoco": mujoco.__version__, "renderer": gl[0], "version": gl[1]}, indent=1) + "\n")
