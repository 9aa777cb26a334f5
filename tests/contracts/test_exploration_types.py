"""Every type of exploration with every algorithm: it trains, or is refused with the reason."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from small_runs import settings_of

from trainables.core.config.exploration import OPTIONS
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

CONTINUOUS, DISCRETE = "Pendulum-v1", "CartPole-v1"
NOISES = ("GaussianNoise", "OrnsteinUhlenbeckNoise")
# Where a type is refused, and what the message says.
REFUSED = {
    (name, kind): f"is not supported by {name}: it learns from actions that its policy sampled"
    for name in ("A2C", "PPO", "APPO", "IMPALA")
    for kind in OPTIONS
    if kind != "StochasticSampling"
}
REFUSED |= dict.fromkeys(
    [("DQN", f"{each}{kind}") for each in ("", "PerWorker") for kind in NOISES],
    "is not supported by DQN: its actions are discrete",
)
REFUSED |= dict.fromkeys(
    [("SAC", "EpsilonGreedy"), ("SAC", "PerWorkerEpsilonGreedy"), ("SAC", "SoftQ")],
    "is not supported by SAC: its actions are not chosen by their values",
)
REFUSED_IN = {
    (
        "SAC",
        f"{each}{kind}",
        DISCRETE,
    ): "adds noise to continuous actions; this action space has none"
    for each in ("", "PerWorker")
    for kind in NOISES
}
REFUSED_IN["DQN", "StochasticSampling", DISCRETE] = "has nothing to sample from"
ENVS = {
    "A2C": (CONTINUOUS, DISCRETE),
    "APPO": (DISCRETE,),
    "PPO": (CONTINUOUS, DISCRETE),
    "IMPALA": (DISCRETE,),
    "DQN": (DISCRETE,),
    "SAC": (CONTINUOUS, DISCRETE),
}
CASES = [(n, kind, env) for n in algorithm_names() for kind in OPTIONS for env in ENVS[n]]


@pytest.mark.parametrize(("name", "kind", "env"), CASES)
def test_type(name: str, kind: str, env: str) -> None:
    more: dict[str, Any] = {"exploration_config": {"type": kind}}
    more["env_config"] = {"max_episode_steps": 20}
    if name != "PPO":
        more["min_sample_timesteps_per_iteration"] = 120
    if name == "DQN":
        more |= {"noisy": False, "num_atoms": 1}
    settings = settings_of(name, env, **more)
    reason = REFUSED.get((name, kind)) or REFUSED_IN.get((name, kind, env))
    if reason is not None:
        with pytest.raises(ConfigError, match=f"{kind.removeprefix('PerWorker')}'.*{reason}"):
            get_algorithm(name)(settings)
        return
    with get_algorithm(name)(settings) as algo:
        algo.train()
        policy, obs = algo.get_policy(), gym.make(env).observation_space.sample()
        batch = np.repeat(obs[None], 40, 0)
        greedy = policy.compute_actions(batch, explore=False)
        assert len(np.unique(greedy, axis=0)) == 1
        np.testing.assert_array_equal(policy.compute_actions(batch, explore=False), greedy)
        np.testing.assert_array_equal(
            algo.compute_single_action(obs, explore=False),
            policy.compute_actions(batch[:1], explore=False)[0],
        )
        explored = [policy.compute_actions(batch, explore=True) for _ in range(3)]
        assert all(policy.action_space.contains(action) for action in np.concatenate(explored))
        if kind != "ParameterNoise" or env == CONTINUOUS:  # that may leave the best action as it is
            assert not all(np.array_equal(actions, greedy) for actions in explored)


def test_every_pair_is_covered() -> None:
    for name in algorithm_names():
        allowed = set(get_algorithm(name).config_class.exploration_types)
        refused = {kind for algorithm, kind in REFUSED if algorithm == name}
        assert allowed | refused == set(OPTIONS) and not allowed & refused


@pytest.mark.parametrize("name", algorithm_names())
def test_explore_false_takes_the_best_actions_in_training(name: str) -> None:
    kinds = {"SAC": {"type": "OrnsteinUhlenbeckNoise"}, "DQN": {"type": "ParameterNoise"}}
    more: dict[str, Any] = {"exploration_config": kinds.get(name, {}), "explore": False}
    more |= {"noisy": False} if name == "DQN" else {}
    env = CONTINUOUS if name == "SAC" else DISCRETE
    with get_algorithm(name)(settings_of(name, env, **more)) as algo:
        rollout = algo.env_runners.sample()[0]["default_policy"]
        policy, row = algo.get_policy(), rollout.obs[0]
        best = policy.act(row, False).actions.numpy()
        np.testing.assert_allclose(rollout.actions[0], best, atol=1e-6)
