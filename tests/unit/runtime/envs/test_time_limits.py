"""The advice for `horizon`: one time limit for environments of every kind."""

from __future__ import annotations

import itertools
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import EncodingVectorEnv, EndlessEnv
from gymnasium.wrappers import TimeLimit
from ray import tune

from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import make_vector_env
from trainables.runtime.envs.slots import EnvContext, EnvOptions, limited

STEPS = 7


class KeywordEnv(EndlessEnv):
    """Takes keyword arguments, and none for a limit."""

    def __init__(self, horizon: int = 1000):
        super().__init__(horizon)


class ContextEnv(EndlessEnv):
    """Takes the env context, and looks at nothing in it."""

    def __init__(self, config: EnvContext):
        super().__init__(horizon=1000)
        self.config = config


class AnyKeywordEnv(EndlessEnv):
    def __init__(self, **arguments: Any):
        super().__init__(horizon=1000)
        self.arguments = arguments


class OwnLimit(EndlessEnv):
    """Has a limit of its own, in units of its own."""

    def __init__(self, max_episode_steps: int):
        super().__init__(horizon=2 * max_episode_steps)


def creator(context: EnvContext) -> gym.Env:
    return ContextEnv(context)


def limits_itself(context: EnvContext) -> gym.Env:
    return TimeLimit(ContextEnv(context), context["max_episode_steps"])


def hands_on(context: EnvContext) -> gym.Env:
    return KeywordEnv(**context)


class OwnVectorEnv(EncodingVectorEnv):
    def __init__(self, num_envs: int):
        super().__init__(num_envs)


class LimitedVectorEnv(EncodingVectorEnv):
    def __init__(self, num_envs: int, max_episode_steps: int):
        super().__init__(num_envs, (max_episode_steps,))


KINDS: dict[str, Any] = {
    "native id": "CartPole-v1",
    "id": "MountainCar-v0",
    "class with keywords": KeywordEnv,
    "class with any keywords": AnyKeywordEnv,
    "class with context": ContextEnv,
    "callable": creator,
    "callable that limits": limits_itself,
    "callable that hands on": hands_on,
    "module:Class": f"{__name__}:KeywordEnv",
    "tune.register_env": "LimitedByTune",
    "gymnasium.register": "LimitedByGymnasium-v0",
    "gymnasium.register, context": "LimitedContext-v0",
}


@pytest.fixture(autouse=True)
def registered() -> None:
    tune.register_env("LimitedByTune", creator)
    for name, env in {"ByGymnasium": KeywordEnv, "Context": ContextEnv}.items():
        if f"Limited{name}-v0" not in gym.registry:
            gym.register(f"Limited{name}-v0", entry_point=env)


def advised() -> dict[str, Any]:
    """What the refusal of `horizon` tells to write."""
    with pytest.raises(ConfigError, match="horizon is not supported: use ") as refusal:
        PPOConfig().rollouts(horizon=STEPS)
    code = re.search(r"use (env_config=\{.*?\})", str(refusal.value))
    assert code is not None
    settings: dict[str, Any] = eval(f"dict({code[1]})", {"N": STEPS})
    return settings


def ends(env: gym.vector.VectorEnv, num_steps: int) -> list[tuple[list[bool], list[bool]]]:
    """Whether slots were terminated, and truncated, at each step; no action moves much."""
    env.reset(seed=1)
    found = []
    for step in range(num_steps):
        actions = np.full(env.num_envs, step % 2)
        _, _, terminated, truncated, _ = env.step(actions)
        found.append((list(terminated), list(truncated)))
    env.close()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_advice_limits_every_kind(kind: str) -> None:
    env = make_vector_env(KINDS[kind], advised()["env_config"], 2, options=EnvOptions(check=True))
    found = ends(env, STEPS + 1 + STEPS)
    assert all(terminated == [False, False] for terminated, _ in found)
    at = [step for step, (_, truncated) in enumerate(found, 1) if truncated == [True, True]]
    assert at == [STEPS, 2 * STEPS + 1]  # the step between only resets


def test_training_reports_the_limit_and_bootstraps() -> None:
    config = PPOConfig().environment(KeywordEnv, **advised()).training(minibatch_size=64)
    config.training(train_batch_size_per_learner=64, num_epochs=1)
    with config.build() as algo:
        result = algo.train()
        assert result["episode_len_mean"] == STEPS
        rollout = algo.env_runners.sample()[0]["default_policy"]
    assert rollout.truncated.any() and not rollout.terminated.any()


def test_a_constructor_that_takes_the_limit_gets_it() -> None:
    env = make_vector_env(OwnLimit, {"max_episode_steps": STEPS}, 1)
    at = [step for step, (_, truncated) in enumerate(ends(env, 15), 1) if truncated[0]]
    assert at == [2 * STEPS]


def test_who_gets_it_all_the_same() -> None:
    """A context and `**arguments` hold it; a class without a parameter for it does without."""
    config = {"max_episode_steps": STEPS}
    for kind, where in ((ContextEnv, "config"), (AnyKeywordEnv, "arguments")):
        env: Any = make_vector_env(kind, config, 1)
        assert getattr(env.envs[0], where)["max_episode_steps"] == STEPS
    assert config == {"max_episode_steps": STEPS}
    none: Any = make_vector_env(KeywordEnv, {"max_episode_steps": None}, 1)
    assert not isinstance(none.envs[0].env, TimeLimit)


def test_no_second_limit() -> None:
    once = TimeLimit(KeywordEnv(), 5)
    assert limited(once, 5) is once and limited(once, 6) is once
    assert limited(once, 4) is not once


def test_no_number_of_steps() -> None:
    says = r"max_episode_steps = .* allowed: int, >= 1, or None"
    for kind, steps in itertools.product((KeywordEnv, "CartPole-v1"), (0, -1, 2.5, "ten", True)):
        with pytest.raises(ConfigError, match=says):
            make_vector_env(kind, {"max_episode_steps": steps}, 1)


def test_other_errors_of_a_callable_stay() -> None:
    config = {"max_episode_steps": STEPS, "size": 1}
    with pytest.raises(ConfigError, match="unexpected keyword argument 'size'"):
        make_vector_env(hands_on, config, 1)


def test_a_vector_class_limits_itself() -> None:
    with pytest.raises(ConfigError, match="which must limit its episodes itself; give it a param"):
        make_vector_env(OwnVectorEnv, {"max_episode_steps": STEPS}, 2)
    env = make_vector_env(LimitedVectorEnv, {"max_episode_steps": 4}, 2)
    assert [any(end) for _, end in ends(env, 4)] == [False, False, False, True]


def test_atari_counts_actions_of_the_game() -> None:
    pytest.importorskip("ale_py", reason="needs the extra atari")
    config = {"max_episode_steps": STEPS, "episodic_life": True, "repeat_action_probability": 0.0}
    env = make_vector_env("ALE/Pong-v5", config, 2)
    at = [step for step, (_, truncated) in enumerate(ends(env, 15), 1) if truncated == [True] * 2]
    assert at == [STEPS, 2 * STEPS + 1]


def test_what_else_a_horizon_had() -> None:
    with pytest.raises(
        ConfigError, match=r"soft_horizon is not supported: use env_config=.* reset"
    ):
        PPOConfig().rollouts(soft_horizon=True)
    with pytest.raises(ConfigError, match=r"no_done_at_end is not supported: use .* bootstrap"):
        PPOConfig().rollouts(no_done_at_end=True)
