"""Every type of exploration with every algorithm: it trains, or is refused with the reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from small_runs import actions_in, compares_actions, home, samples, settings_of

from trainables.core.config.exploration import INTRINSIC_OPTIONS, OPTIONS
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

CONTINUOUS, DISCRETE = "Pendulum-v1", "CartPole-v1"
NOISES = ("GaussianNoise", "OrnsteinUhlenbeckNoise")
FAR_FROM_GREEDY = ("OrnsteinUhlenbeckNoise", "ParameterNoise")
# Types that an algorithm has, but not with every action space, or not with these settings.
REFUSED_IN = {
    **{
        (name, f"{each}{kind}", DISCRETE): "adds noise to continuous actions; this action space has"
        for name in ("SAC", "CQL")
        for each in ("", "PerWorker")
        for kind in NOISES
    },
    ("DQN", "StochasticSampling", DISCRETE): "has nothing to sample from",
    ("QMIX", "StochasticSampling", DISCRETE): "has nothing to sample from",
}


def is_allowed(name: str, kind: str) -> bool:
    config_class = get_algorithm(name).config_class
    if kind in INTRINSIC_OPTIONS:
        return config_class.why_no_intrinsic is None
    return kind in config_class.exploration_types


def pairs(*, allowed: bool) -> Iterator[tuple[str, str]]:
    for name in algorithm_names():
        yield from ((name, kind) for kind in OPTIONS if is_allowed(name, kind) == allowed)


def cases() -> Iterator[Any]:
    """What trains. Bonuses go with all algorithms alike: each with one of them by default."""
    bonuses = [*INTRINSIC_OPTIONS]
    for name, kind in pairs(allowed=True):
        for env in (DISCRETE, *([] if compares_actions(name) else [CONTINUOUS])):
            if (name, kind, env) in REFUSED_IN:
                continue
            mine = bonuses[algorithm_names().index(name) % len(bonuses)]
            first = env == home(name) and not kind.startswith("PerWorker")
            first &= kind not in bonuses or kind == mine
            yield pytest.param(name, kind, env, marks=[] if first else [pytest.mark.full])


def exploring(name: str, kind: str, env: str) -> dict[str, Any]:
    settings = get_algorithm(name).config_class.settings()
    more: dict[str, Any] = {"exploration_config": {"type": kind}}
    more["env_config"] = {"max_episode_steps": 20}
    if samples(name):
        more["min_sample_timesteps_per_iteration"] = 120
    if kind in INTRINSIC_OPTIONS and "n_step" in settings:
        more["n_step"] = 1
    if "noisy" in settings:
        more |= {"noisy": False, "num_atoms": 1}
    return settings_of(name, env, **more)


@pytest.mark.parametrize(("name", "kind", "env"), [*cases()])
def test_type(name: str, kind: str, env: str) -> None:
    with get_algorithm(name)(exploring(name, kind, env)) as algo:
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


def test_why_a_type_is_not_supported(golden: Callable[..., None]) -> None:
    """By the config itself, or where an algorithm sees that the action space has no use for it."""

    def message(make: Callable[[dict[str, Any]], Any], row: tuple[str, str, str]) -> str:
        with pytest.raises(ConfigError) as raised:
            make(exploring(*row))
        return str(raised.value)

    kinds = defaultdict[tuple[str, str], list[str]](list)  # by algorithm and message
    for name, kind in pairs(allowed=False):
        told = message(get_algorithm(name).config_class.from_dict, (name, kind, home(name)))
        kinds[name, told.replace(f"'{kind}' is not", "<type> is not")].append(kind)
    texts = {f"{name}: {', '.join(of)}": told for (name, told), of in kinds.items()}
    texts |= {", ".join(row): message(get_algorithm(row[0]), row) for row in REFUSED_IN}
    golden("exploration_types", texts)


@pytest.mark.parametrize("name", [*filter(samples, algorithm_names())])
def test_explore_false_takes_the_best_actions_in_training(name: str) -> None:
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
