"""Masked actions are never taken, are no part of any gradient, and do not hinder learning."""

from __future__ import annotations

import itertools
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tiers import rarely

from trainables import DQN, PPO, SAC, Algorithm
from trainables.core.data.batch import Batch
from trainables.core.data.features import ACTION_MASK, VECTOR, FeatureSpec
from trainables.core.distributions.categorical import Categorical
from trainables.core.errors import ConfigError
from trainables.core.networks.modules import ActorCritic
from trainables.core.policy.policy import Policy
from trainables.ppo import PPOCoefficients, ppo_loss
from trainables.runtime.envs.checks import check_env
from trainables.runtime.envs.games.own import MASKED_BANDIT, MaskedBandit
from trainables.runtime.evaluation.play import evaluate_policy

BANDIT: dict[str, Any] = {"env": MASKED_BANDIT, "gamma": 0.0, "seed": 0}
ON_POLICY = {**BANDIT, "num_envs_per_env_runner": 32, "train_batch_size_per_learner": 1024}
REPLAY = {
    **BANDIT,
    "num_envs_per_env_runner": 32,
    "train_batch_size_per_learner": 64,
    "training_intensity": 8,
    "num_steps_sampled_before_learning_starts": 1000,
    "replay_buffer_config": {"capacity": 20_000},
    "model": {"fcnet_hiddens": [32]},
}
LEARNING: dict[type[Algorithm], dict[str, Any]] = {
    PPO: {**ON_POLICY, "lr": 3e-3, "num_epochs": 6, "model": {"fcnet_hiddens": [32]}},
    DQN: {**REPLAY, "lr": 3e-3, "epsilon": 0.3},
    SAC: {**REPLAY, "lr": 3e-3, "initial_alpha": 0.1, "target_entropy": 0.1},
}
# Hardly any learning, which takes most of the time; an iteration ends when there was some.
NEVER = {
    "num_steps_sampled_before_learning_starts": 5_000,
    "rollout_fragment_length": 32,
    "num_envs_per_env_runner": 128,
    "replay_buffer_config": {"capacity": 8_000},
}
EXPLORING: list[Any] = [
    (PPO, {**ON_POLICY, "num_epochs": 1, "minibatch_size": None}),
    (DQN, {**REPLAY, **NEVER, "epsilon": 1.0}),
    (SAC, {**REPLAY, **NEVER, "random_warmup": True}),
    pytest.param(DQN, {**REPLAY, **NEVER, "epsilon": 0.0, "noisy": True}, marks=pytest.mark.full),
    pytest.param(SAC, {**REPLAY, **NEVER, "random_warmup": False}, marks=pytest.mark.full),
]


def every_observation() -> list[dict[str, Any]]:
    """All contexts with all masks that allow something."""
    contexts, arms = MaskedBandit.payoffs.shape
    masks = [np.array(mask, np.int8) for mask in itertools.product((0, 1), repeat=arms)]
    return [
        {"context": context, "action_mask": mask}
        for context in range(contexts)
        for mask in masks
        if mask.any()
    ]


@pytest.mark.parametrize("algorithm", rarely(list(LEARNING), [next(iter(LEARNING))]))
def test_it_learns_the_best_legal_action(algorithm: type[Algorithm]) -> None:
    with algorithm(config=LEARNING[algorithm]) as algo:
        while algo.num_env_steps_sampled < 12_000:
            algo.train()
        observations = every_observation()
        actions = algo.compute_actions(observations, explore=False)
    got, best = [], []
    for obs, action in zip(observations, actions, strict=True):
        assert obs["action_mask"][action]
        payoffs = MaskedBandit.payoffs[obs["context"]]
        got.append(payoffs[action])
        best.append(payoffs[obs["action_mask"] == 1].max())
    assert np.mean(np.equal(got, best)) > 0.9
    assert np.mean(got) > 0.98 * np.mean(best)


@pytest.mark.parametrize(("algorithm", "config"), EXPLORING)
def test_no_illegal_action_in_5_000_steps(
    algorithm: type[Algorithm], config: dict[str, Any]
) -> None:
    """The environment raises at the first one, also at final observations, which allow nothing."""
    with algorithm(config=config) as algo:
        while algo.num_env_steps_sampled < 5_000:
            algo.train()


def test_checks_of_an_environment_take_no_illegal_action() -> None:
    check_env(gym.make(MASKED_BANDIT), "bandit")
    with pytest.raises(ValueError, match="may not be pulled"):
        check_env(gym.make(MASKED_BANDIT), "bandit", "another_key")


def test_the_bandit_refuses_what_its_mask_forbids() -> None:
    env = gym.make(MASKED_BANDIT)
    obs, _ = env.reset(seed=0)
    assert 0 < obs["action_mask"].sum() < 6
    with pytest.raises(ValueError, match=r"arm \d may not be pulled"):
        env.step(int(obs["action_mask"].argmin()))


def test_masked_gradient_by_hand() -> None:
    """Logits (0, 5, ln 3) of which the second is masked: probabilities 1/4, 0, 3/4.

    With the ratio 1, d(-A log p(a)) / d logit i = -A (1[i = a] - p_i). Row 1: a = 2, A = 2 gives
    (1/2, 0, -1/2). Row 2: a = 0, A = 1 gives (-3/4, 0, 3/4). Their mean is (-1/8, 0, 1/8).
    """
    module = ActorCritic(FeatureSpec(1, num_mask=3), Categorical(3), {"fcnet_hiddens": []})
    bias = module.policy_head.get_parameter("0.bias")
    with torch.no_grad():
        module.policy_head.get_parameter("0.weight").zero_()
        bias[:] = torch.tensor([0.0, 5.0, np.log(3.0)])
    features = {VECTOR: torch.ones(2, 1), ACTION_MASK: torch.tensor([[True, False, True]] * 2)}
    batch: Batch = {
        "actions": torch.tensor([2, 0]),
        "logp": torch.log(torch.tensor([3 / 4, 1 / 4])),
        "advantages": torch.tensor([2.0, 1.0]),
        "value_targets": torch.zeros(2),
    }
    coefficients = PPOCoefficients(clip=0.2, entropy=0.0, kl=0.0, value=0.0, value_clip=None)
    loss, metrics = ppo_loss(module(features), batch, Categorical(3), coefficients)
    loss.backward()
    assert bias.grad is not None
    torch.testing.assert_close(bias.grad, torch.tensor([-1 / 8, 0.0, 1 / 8]))
    # -(2 * 1 + 1 * 1) / 2, and H = -(1/4 log 1/4 + 3/4 log 3/4)
    assert loss.item() == pytest.approx(-1.5)
    assert metrics["entropy"].item() == pytest.approx(0.5623351)


class DeadEnd(gym.Env):
    """Slot 1's mask allows nothing at step 3, which is in the middle of its episode."""

    observation_space = gym.spaces.Dict(
        {"obs": gym.spaces.Box(-1, 1, (1,)), "action_mask": gym.spaces.MultiBinary(2)}
    )
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: Any):
        self._dies = config.vector_index == 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        return self._obs(), 0.0, self.t >= 5, False, {}

    def _obs(self) -> dict[str, Any]:
        allowed = 0 if self._dies and self.t == 3 else 1
        return {"obs": np.zeros(1, np.float32), "action_mask": np.full(2, allowed, np.int8)}


NAMED = re.escape(f"env '{__name__}:DeadEnd': its 'action_mask' allows no action at step 3 of the")


def test_a_mask_that_allows_nothing_names_environment_slot_and_step() -> None:
    with (
        PPO(config={**ON_POLICY, "env": DeadEnd, "num_envs_per_env_runner": 3}) as algo,
        pytest.raises(ConfigError, match=NAMED + " episode in slot 1"),
    ):
        algo.train()


def test_an_evaluation_names_it_too() -> None:
    policy = Policy(DeadEnd.observation_space, DeadEnd.action_space)
    with pytest.raises(ConfigError, match=NAMED + " episode in slot 1"):
        evaluate_policy(policy, DeadEnd, num_episodes=4)


def test_acting_on_a_mask_that_allows_nothing_names_the_observation() -> None:
    policy = Policy(DeadEnd.observation_space, DeadEnd.action_space)
    obs = {"obs": np.zeros((3, 1), np.float32), "action_mask": np.array([[1, 0], [0, 0], [1, 1]])}
    with pytest.raises(ConfigError, match="observation 1: 'action_mask' allows no action"):
        policy.compute_actions(obs)
