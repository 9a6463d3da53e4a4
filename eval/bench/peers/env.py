os.environ["OMP_NUM_THREADS"] = "1"  # one world on one core
os.environ.setdefault("MUJOCO_GL", "osmesa")
import numpy as np

EPISODE = 50


def two_room():
    from stable_worldmodel.envs.two_room import TwoRoomEnv
    return TwoRoomEnv(), lambda e: e.render()


def push_t():
    from stable_worldmodel.envs.pusht.env import PushT
    return PushT(render_mode="rgb_array"), lambda e: e.render()


def reacher():
    from stable_worldmodel.envs.dmcontrol.reacher import ReacherDMControlWrapper
    return ReacherDMControlWrapper(task="qpos_match", seed=0), lambda e: e.render()


def cube():
    from stable_worldmodel.envs.ogbench.cube_env import CubeEnv
    env = CubeEnv(env_type="single", ob_type="states", multiview=False, visualize_info=False, terminate_at_goal=True, mode="data_collection")
    return env, lambda e: e.render(camera="front_pixels")


# The reference implementation of PointMaze is not in any package.
MAKERS = {"tworoom": two_room, "pusht": push_t, "reacher": reacher, "cube": cube}
WORLDS = {}


def turn(task, draw):
    """Returns the milliseconds of a step; resets do not count."""
    if task not in WORLDS:
        WORLDS[task] = MAKERS[task]()
    env, frame = WORLDS[task]
    spent, n = 0., 0
    while spent < SPEC["seconds"]:
        env.reset(seed=0)
        actions = [np.asarray(env.action_space.sample()) for _ in range(EPISODE)]
        if draw:
            frame(env)
        began = time.perf_counter()
        for a in actions:
            env.step(a)
            if draw:
                frame(env)
            n += 1
            if draw and time.perf_counter() - began > SPEC["seconds"]:
                break  # with software rendering an episode takes seconds
        spent += time.perf_counter() - began
    return spent * 1e3 / n


def variants(task):
    return {f"{task}/step": lambda: turn(task, False), f"{task}/frame": lambda: turn(task, True)}


serve({task: variants(task) for task in SPEC["tasks"] if task in MAKERS}, version="stable-worldmodel's worlds")
