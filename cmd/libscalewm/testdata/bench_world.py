"""python bench_world.py RUN DATA ENV_ID [EPISODES [TIER [SETS]]]: share of an evaluation in a gymnasium environment that is neither the environment's
nor the model's, with EPISODES (64) environments in this process. Needs the packages of the environment."""

import sys
import tempfile
import time

import gymnasium

import scalewm

run, data, name, *rest = sys.argv[1:]
episodes, tier, sets = int(rest[0]) if rest else 64, rest[1] if len(rest) > 1 else "T3", rest[2] if len(rest) > 2 else "all"
spent = {"environment": 0.0, "model": 0.0}
nested = [0]  # a method may call another


def timed(what, function):
    def call(*args, **kwargs):
        began = time.perf_counter()
        nested[0] += 1
        try:
            return function(*args, **kwargs)
        finally:
            nested[0] -= 1
            spent[what] += (time.perf_counter() - began) * (nested[0] == 0)

    return call


class Timed(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        for method in ("reset", "step", "render"):
            setattr(self, method, timed("environment", getattr(env, method)))


def make():
    if name.startswith("swm/"):
        import stable_worldmodel  # noqa: F401  registers the ids
    began = time.perf_counter()
    env = Timed(gymnasium.make(name, render_mode="rgb_array", max_episode_steps=None))
    spent["environment"] += time.perf_counter() - began
    for method in ("_set_state", "_set_goal_state", "_get_obs", "_get_info"):  # called to set a state
        if hasattr(env.unwrapped, method):
            setattr(env.unwrapped, method, timed("environment", getattr(env.unwrapped, method)))
    return env


model = scalewm.load(run)
for method in ("encode", "rollout"):
    setattr(model, method, timed("model", getattr(model, method)))
make()
for _ in range(3):
    spent.update(environment=0.0, model=0.0)
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        scalewm.evaluate(model, data=data, out=out + "/results", name="mine", world=make, tier=tier, sets=sets, episodes=episodes, kind="world")
        wall = time.perf_counter() - began
    print(f"{name}, {episodes} environments, {tier}, {sets}: {wall:.2f} s, of which environment {spent['environment']:.2f}, model {spent['model']:.2f}, ours {1 - sum(spent.values()) / wall:.1%}")
