"""Every type of exploration with every algorithm: it trains, or is refused with the reason."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from small_runs import actions_in, compares_actions, home, samples, settings_of

from trainables.core.config.exploration import OPTIONS
from trainables.core.config.intrinsic import INTRINSIC_OPTIONS
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

CONTINUOUS, DISCRETE = "Pendulum-v1", "CartPole-v1"
NOISES = ("GaussianNoise", "OrnsteinUhlenbeckNoise")
FAR_FROM_GREEDY = ("OrnsteinUhlenbeckNoise", "ParameterNoise")
# Types that an algorithm has, but not with every action space, or not with these settings.
REFUSED_IN = {
    (name, f"{each}{kind}", DISCRETE): "adds noise to continuous actions; this action space has no"
    for name in ("SAC", "CQL")
    for each in ("", "PerWorker")
    for kind in NOISES
}
for learner in ("DQN", "QMIX"):
    REFUSED_IN[learner, "StochasticSampling", DISCRETE] = "has nothing to sample from"
CASES = [
    (name, kind, env)
    for name in algorithm_names()
    for kind in OPTIONS
    for env in (DISCRETE, *([] if compares_actions(name) else [CONTINUOUS]))
]


@pytest.mark.parametrize(("name", "kind", "env"), CASES)
def test_type(name: str, kind: str, env: str) -> None:
    config_class = get_algorithm(name).config_class
    more: dict[str, Any] = {"exploration_config": {"type": kind}}
    more["env_config"] = {"max_episode_steps": 20}
    if samples(name):
        more["min_sample_timesteps_per_iteration"] = 120
    if kind in INTRINSIC_OPTIONS and "n_step" in config_class.settings():
        more["n_step"] = 1
    if "noisy" in config_class.settings():
        more |= {"noisy": False, "num_atoms": 1}
    settings = settings_of(name, env, **more)
    reason = REFUSED_IN.get((name, kind, env))
    if kind in INTRINSIC_OPTIONS:
        if config_class.why_no_intrinsic is not None:
            reason = f"is not supported by {name}: {config_class.why_no_intrinsic}"
    elif kind not in config_class.exploration_types:
        reason = f"is not supported by {name}: {config_class.why_no_exploration}"
    if reason is not None:
        with pytest.raises(ConfigError, match=f"{kind.removeprefix('PerWorker')}'.*{reason}"):
            get_algorithm(name)(settings)
        return
    with get_algorithm(name)(settings) as algo:
        algo.train()
        policy, obs = algo.get_policy(), gym.make(env).observation_space.sample()
        batch = np.repeat(obs[None], 40, 0)
        greedy = actions_in(policy.compute_actions(batch, explore=False))
        assert len(np.unique(greedy, axis=0)) == 1
        again = actions_in(policy.compute_actions(batch, explore=False))
        np.testing.assert_array_equal(again, greedy)
        np.testing.assert_array_equal(
            actions_in(algo.compute_single_action(obs, explore=False)),
            actions_in(policy.compute_actions(batch[:1], explore=False))[0],
        )
        explored = [actions_in(policy.compute_actions(batch, explore=True)) for _ in range(3)]
        assert all(policy.action_space.contains(action) for action in np.concatenate(explored))
        if kind != "ParameterNoise" or env == CONTINUOUS:  # that may leave the best action as it is
            assert not all(np.array_equal(actions, greedy) for actions in explored)


def test_why_a_type_is_not_supported() -> None:
    """Of the kinds of algorithms there are; `test_type` goes by what their configs say."""
    sampled = "it learns from actions that its policy sampled"
    for name, kind, why in [
        *((name, "EpsilonGreedy", sampled) for name in ("A2C", "APPO", "IMPALA", "PPO")),
        ("DQN", "GaussianNoise", "its actions are discrete"),
        ("SAC", "SoftQ", "its actions are not chosen by their values"),
    ]:
        settings = settings_of(name, home(name), exploration_config={"type": kind})
        with pytest.raises(ConfigError, match=f"{kind}' is not supported by {name}: {why}"):
            get_algorithm(name)(settings)


@pytest.mark.parametrize("name", algorithm_names())
def test_explore_false_takes_the_best_actions_in_training(name: str) -> None:
    if not samples(name):
        pytest.skip("it acts in evaluations only")
    config_class = get_algorithm(name).config_class
    has = [kind for kind in FAR_FROM_GREEDY if kind in config_class.exploration_types]
    more: dict[str, Any] = {"exploration_config": {"type": has[0]} if has else {}}
    more |= {"noisy": False} if "noisy" in config_class.settings() else {}
    with get_algorithm(name)(settings_of(name, home(name), explore=False, **more)) as algo:
        rollout = algo.env_runners.sample()[0]["default_policy"]
        policy, row = algo.get_policy(), rollout.obs[0]
        state = policy.initial_state(len(row))
        best = policy.act(row, False, state=state).actions.numpy()
        np.testing.assert_allclose(rollout.actions[0], best, atol=1e-6)
