"""Writes swm_world.h5: two episodes of 4 rows as stable_worldmodel's World records them in HDF5.

Made with stable_worldmodel as third_party/peers.lock has it. The random policy's draws and the times
that the recorder keeps differ from run to run; what the test looks for does not.
"""

import stable_worldmodel as swm
from stable_worldmodel.policy import RandomPolicy

world = swm.World("swm/TwoRoom-v1", num_envs=2, image_shape=(24, 24), max_episode_steps=4)
world.set_policy(RandomPolicy(seed=1))
world.collect("swm_world.h5", episodes=2, seed=3, format="hdf5")
