"""Makes world.json with MuJoCo's own Python package, version 3.11.0.

Arrays are little-endian float64 in base64, so that tests can ask for equal bits.
"""
import base64
import json
import pathlib

import mujoco
import numpy as np

here = pathlib.Path(__file__).parent
assert mujoco.__version__ == "3.11.0", mujoco.__version__


def pack(a):
    return base64.b64encode(np.asarray(a, dtype="<f8").tobytes()).decode()


m = mujoco.MjModel.from_xml_path(str(here / "world.xml"))
d = mujoco.MjData(m)
spec = mujoco.mjtState.mjSTATE_FULLPHYSICS | mujoco.mjtState.mjSTATE_WARMSTART
ctrl = np.random.default_rng(1).uniform(-1.2, 1.2, (200, m.nu))


def state():
    out = np.empty(mujoco.mj_stateSize(m, int(spec)))
    mujoco.mj_getState(m, d, out, int(spec))
    return out


states, sensors = [], []
for u in ctrl:
    d.ctrl[:] = u
    mujoco.mj_step(m, d)
    states.append(state())
    sensors.append(d.sensordata.copy())

mujoco.mj_forward(m, d)
jacp, jacr = np.empty((3, m.nv)), np.empty((3, m.nv))
mujoco.mj_jacSite(m, d, jacp, jacr, m.site("tip").id)
out = {
    "mujoco": mujoco.__version__,
    "ctrl": pack(ctrl),
    "states": pack(states),
    "sensors": pack(sensors),
    "jac_tip": pack([jacp, jacr]),
    "mass": pack(m.body_mass),
}
(here / "world.json").write_text(json.dumps(out, indent=1) + "\n")
