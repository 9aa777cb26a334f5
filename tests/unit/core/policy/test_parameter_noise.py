"""Noise on parameters: sigma finds its target, and the learner's network is never touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from small_runs import settings_of, without_clocks
from torch.nn.functional import kl_div

from trainables import DQN, SAC, Algorithm, Policy
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.distributions.gaussian import SquashedGaussian
from trainables.core.policy.noise import action_distance, default_target

OBS = gym.spaces.Box(-1, 1, (3,), np.float32)
SPACES = {
    "q_network": gym.spaces.Discrete(4),
    "soft_actor_critic": gym.spaces.Box(-1, 1, (2,), np.float32),
}
KINDS = list(SPACES)


def noisy_policy(kind: str, seed: int = 0, **options: Any) -> Policy:
    exploration = {"type": "ParameterNoise", **options}
    return Policy(OBS, SPACES[kind], module={"type": kind}, exploration=exploration, seed=seed)


def observations(count: int = 64) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (count, 3)).astype(np.float32)


def test_distances_by_hand() -> None:
    gaussian = SquashedGaussian((2,))
    clean, noisy = torch.zeros(5, 4), torch.zeros(5, 4)
    noisy[:, 0] = torch.tensor(0.6).atanh()
    assert action_distance(gaussian, clean, noisy) == pytest.approx((0.36 / 2) ** 0.5)
    values = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(1))
    p, q = values.log_softmax(-1)
    expected = kl_div(q, p, log_target=True, reduction="batchmean").item()
    assert action_distance(EpsilonGreedy(4), *values) == pytest.approx(expected)
    assert default_target(EpsilonGreedy(4)) == pytest.approx(-np.log(0.9 + 0.1 / 4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("initial", [1e-2, 2.0])
def test_sigma_adapts_to_the_target_from_both_sides(kind: str, initial: float) -> None:
    policy = noisy_policy(kind, initial_stddev=initial, target_distance=0.1)
    explorer: Any = policy.explorer
    features, random = policy.features(observations()), torch.Generator().manual_seed(1)
    for _ in range(500):
        stddev = explorer.adapted(policy.module, features, random)
        assert stddev / explorer.stddev in (pytest.approx(1.01), pytest.approx(1 / 1.01))
        policy.set_exploration(stddev=stddev)
    clean, distances = policy.module.dist_inputs(features), []
    for seed in range(50):
        moved = explorer.module(policy.module, None, {"seed": torch.tensor([seed])})
        with torch.no_grad():
            distances.append(
                action_distance(policy.distribution, clean, moved.dist_inputs(features))
            )
    assert 0.05 < np.median(distances) < 0.2
    assert policy.get_state()["exploration"]["stddev"] == explorer.stddev


@pytest.mark.parametrize("kind", KINDS)
def test_the_learners_network_is_never_touched(kind: str) -> None:
    policy = noisy_policy(kind, initial_stddev=1.0)
    before = policy.get_weights()
    clean = policy.module.dist_inputs(policy.features(observations()))
    random = torch.Generator().manual_seed(1)
    slots = policy.explorer.start(64)
    inputs = policy.act(observations(), True, random, slots=slots).inputs
    assert (inputs - clean).abs().max() > 0.1
    torch.testing.assert_close(policy.act(observations(), False).inputs, clean, rtol=0, atol=0)
    after = policy.get_weights()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert all(p.requires_grad for p in policy.module.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_stays_for_an_episode_of_slot_0_and_follows_the_weights(kind: str) -> None:
    policy = noisy_policy(kind, initial_stddev=1.0)
    random, slots = torch.Generator().manual_seed(1), policy.explorer.start(64)

    def noise() -> torch.Tensor:
        acting = policy.explorer.module(policy.module, random, slots)
        mine, theirs = (list(m.acting_parameters()) for m in (acting, policy.module))
        return torch.cat([(a - b).detach().flatten() for a, b in zip(mine, theirs, strict=True)])

    first = noise()
    begins = np.zeros(64, bool)
    begins[1:] = True
    policy.explorer.restart(slots, begins)
    torch.testing.assert_close(noise(), first, rtol=0, atol=0)
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.add_(1.0)  # a gradient step
    torch.testing.assert_close(noise(), first, rtol=0, atol=1e-5)
    begins[0] = True
    policy.explorer.restart(slots, begins)
    assert (noise() - first).abs().mean() > 0.5


RUNS: list[tuple[type[Algorithm], str, dict[str, Any]]] = [
    (DQN, "CartPole-v1", {"noisy": False}),
    (SAC, "Pendulum-v1", {"env_config": {"max_episode_steps": 25}}),
    (SAC, "CartPole-v1", {}),
]


@pytest.mark.parametrize(("algorithm", "env", "more"), RUNS)
def test_training_adapts_sigma_and_resumes_to_the_bit(
    algorithm: type[Algorithm], env: str, more: dict[str, Any], tmp_path: Path
) -> None:
    exploration = {"type": "ParameterNoise", "initial_stddev": 0.05}
    settings = settings_of(
        algorithm.__name__,
        env,
        exploration_config=exploration,
        min_sample_timesteps_per_iteration=150,
        **more,
    )
    with algorithm(settings) as algo:
        first = algo.train()
        assert first["exploration/stddev"] != 0.05
        saved = algo.save(str(tmp_path))
        expected = without_clocks(algo.train())
    with algorithm(settings) as algo:
        algo.restore(saved)
        assert without_clocks(algo.train()) == expected
