"""Records episodes of the cube in worlds in which the running original has drawn all that it lets vary.

Made with what make_cube.py was made with; the original draws its worlds without a seed:

    MUJOCO_GL=osmesa python make_cube_varied.py
        writes cube_varied_states.h5 and cube_varied_frames.h5
"""

import os

import OpenGL

OpenGL.ERROR_CHECKING = False  # a world that was closed leaves an error behind
from make_cube import HEAVY, HERE, CubeEnv, Plans, Recorder
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle
import numpy as np

FACTORS = ['cube.color', 'cube.size', 'agent.color', 'agent.ee_start_position', 'floor.color', 'camera.angle_delta', 'light.intensity']


class Varied(Plans):
    """Episodes of the plan oracle, each in another world."""

    def __init__(self):
        self.env = CubeEnv(env_type='single', ob_type='states', multiview=False, visualize_info=False, mode='data_collection')
        self.env.reset()
        self.oracle = CubePlanOracle(env=self.env, noise=0.1, noise_smoothing=0.5)

    def start(self):
        self.env.reset(options={'variation': ['all']})
        self._plan()
        return self.env


class VariedRecorder(Recorder):
    def _row(self, *args):
        row = super()._row(*args)
        space = self.env.variation_space
        row |= {f'variation.{n}': np.array(space[n.split('.')[0]][n.split('.')[1]].value, dtype=np.float64).reshape(-1) for n in FACTORS}
        return row


def main():
    plans = Varied()
    for name, episodes, steps in [('states', 3, 45), ('frames', 4, 1)]:
        rec = VariedRecorder(name == 'frames', without=HEAVY)
        for i in range(episodes):
            rec.episode(f'varied {i}', plans.start(), plans.act, steps)
        rec.write(os.path.join(HERE, f'cube_varied_{name}.h5'))


if __name__ == '__main__':
    main()
