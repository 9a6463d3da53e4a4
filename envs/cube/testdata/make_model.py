"""Writes model.json: what OGBench's compiled model of the cube task holds.

Made with CPython 3.11, stable-worldmodel 0.1.1, ogbench 1.2.1, dm_control 1.0.44 and
mujoco 3.11.0:

    python make_model.py

Of every array of mjModel, under its name, the first 16 hex digits of the
SHA-256 of its bytes; of options, statistics and visual settings the numbers. Left out are
names and file paths, since dm_control names what has no name, the indices of sparse matrices and the scale
of decorations.
"""

import hashlib
import json
import os
import warnings

warnings.filterwarnings('ignore')
from stable_worldmodel.envs.ogbench.cube_env import CubeEnv  # before mujoco: torch dislikes OSMesa's LLVM
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LEFT_OUT = ('names', 'name_', 'paths', 'text_', 'signature', 'M_', 'B_', 'D_', 'mapM', 'mapD')


def public(o):
    return [(k, getattr(o, k)) for k in dir(o) if not k.startswith('_') and not callable(getattr(o, k))]


def main():
    env = CubeEnv(env_type='single', ob_type='states', multiview=False, visualize_info=False)
    env.reset(seed=0)
    model, out = env._model, {}
    for name, value in public(model):
        if isinstance(value, np.ndarray) and value.size and not (name.startswith(LEFT_OUT) or name.endswith('pathadr')):
            out[name] = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    parts = {'opt.': model.opt, 'stat.': model.stat}
    for name in ('global_', 'quality', 'headlight', 'map'):
        parts['vis.' + name.rstrip('_') + '.'] = getattr(model.vis, name)
    for part, o in parts.items():
        for name, value in public(o):
            if isinstance(value, (int, float, np.ndarray)):
                out[part + name] = np.asarray(value, dtype=np.float64).ravel().tolist()
    with open(os.path.join(HERE, 'model.json'), 'w') as f:
        json.dump(out, f, indent=0, sort_keys=True)
    print(len(out), 'fields')


if __name__ == '__main__':
    main()
