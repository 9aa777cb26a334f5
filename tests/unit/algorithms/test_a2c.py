"""A2C: its loss by hand, one step a rollout, and gradients that are added up."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from refusals import Golden, refusals
from small_runs import settings_of
from thread_ranks import on_ranks
from torch import Tensor

from trainables import A2C, A2CConfig, Policy
from trainables.a2c import A2CCoefficients, a2c_loss
from trainables.core.data.batch import Batch, Rollout
from trainables.core.distributions.categorical import Categorical
from trainables.core.learning.advantages import with_advantages
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.networks.modules import ModuleOutput
from trainables.on_policy import on_policy_update
from trainables.runtime.learners.actor import shares
from trainables.runtime.learners.group import LearnerWorker

MEMORY = {"use_lstm": True, "lstm_cell_size": 4, "fcnet_hiddens": [4], "max_seq_len": 5}


def test_the_loss_by_hand() -> None:
    """Two rows: pi(0) = 0.8 and A = 2, V = 1 of R = 4; pi(1) = 0.5 and A = -1, V = 0 of R = 1."""
    logits = torch.log(torch.tensor([[0.8, 0.2], [0.5, 0.5]]))
    batch = {
        "actions": torch.tensor([0, 1]),
        "advantages": torch.tensor([2.0, -1.0]),
        "value_targets": torch.tensor([4.0, 1.0]),
    }
    output = ModuleOutput(logits, torch.tensor([1.0, 0.0]))
    coefficients = A2CCoefficients(value=0.5, entropy=0.1)
    loss, metrics = a2c_loss(output, batch, Categorical(2), coefficients)
    policy_loss = -(2 * math.log(0.8) - math.log(0.5)) / 2
    entropy = (-0.8 * math.log(0.8) - 0.2 * math.log(0.2) + math.log(2)) / 2
    assert metrics["policy_loss"].item() == pytest.approx(policy_loss)
    assert metrics["vf_loss"].item() == pytest.approx((3**2 + 1**2) / 2)
    assert metrics["entropy"].item() == pytest.approx(entropy)
    assert loss.item() == pytest.approx(policy_loss + 0.5 * 5 - 0.1 * entropy)


def test_the_gradient_is_the_score_times_the_advantage() -> None:
    """Of softmax logits: -(one_hot(a) - pi) A."""
    logits = torch.zeros(1, 2, requires_grad=True)
    batch = {
        "actions": torch.tensor([1]),
        "advantages": torch.tensor([3.0]),
        "value_targets": torch.zeros(1),
    }
    output = ModuleOutput(logits, torch.zeros(1))
    a2c_loss(output, batch, Categorical(2), A2CCoefficients(0.0, 0.0))[0].backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[1.5, -1.5]]


def rollout_of(policy: Policy, rewards: list[float], terminated: list[bool]) -> Rollout:
    """One slot; its episode goes on unless it terminates."""
    length = len(rewards)
    ends = np.array(terminated)[:, None]
    valid = np.ones((length, 1), bool)
    valid[1:] = ~ends[:-1]
    continues = valid & ~ends
    continues[-1] = False
    return Rollout(
        obs=np.linspace(-1, 1, 2 * (length + 1), dtype=np.float32).reshape(length + 1, 1, 2),
        actions=np.zeros((length, 1), np.int64),
        rewards=np.array(rewards, np.float32)[:, None],
        terminated=ends,
        truncated=np.zeros_like(ends),
        logp=np.zeros((length, 1), np.float32),
        valid=valid,
        continues=continues,
        weights_version=np.zeros(1, np.int64),
        follows=np.zeros(1, bool),
    )


def make_policy() -> Policy:
    box = gym.spaces.Box(-1, 1, (2,), np.float32)
    return Policy(box, gym.spaces.Discrete(2), {"fcnet_hiddens": [4]}, seed=0)


def test_targets_are_the_papers_returns() -> None:
    """R_t = r_t + gamma R_{t+1}, from V(s) at the rollout's end and from 0 at an episode's."""
    policy, config = make_policy(), A2CConfig().training(gamma=0.5)
    rollout = rollout_of(policy, [1.0, 2.0, 0.0, 3.0, 5.0], [False, True, False, False, False])
    last = float(policy.value(rollout.obs[5])[0])
    batch = with_advantages(rollout, policy, config)
    second = 5 + 0.5 * last
    expected = [1 + 0.5 * 2, 2.0, 3 + 0.5 * second, second]  # row 2 only resets
    assert batch["value_targets"].tolist() == pytest.approx(expected)
    values = policy.value(rollout.obs[[0, 1, 3, 4], 0])
    torch.testing.assert_close(batch["advantages"], torch.tensor(expected) - values)


def test_a_rollout_is_one_step_of_the_optimiser() -> None:
    with A2C(settings_of("A2C", min_sample_timesteps_per_iteration=None)) as algo:
        assert algo.config.get_rollout_fragment_length() == 16
        while algo.episodes.num_lifetime == 0:
            algo.train()
        (moments,) = algo.learners["default_policy"].get_state()["moments"].values()
        assert moments["step"].item() == algo.num_training_steps
        rows = 64 - algo.num_env_steps_sampled / algo.num_training_steps
        assert 0 <= rows < 4  # those that only reset
        assert algo.num_env_steps_trained == algo.num_env_steps_sampled


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [4]}, MEMORY])
@pytest.mark.parametrize("normalize", [True, False])
def test_microbatches_make_the_same_step(model: dict[str, Any], normalize: bool) -> None:
    weights, metrics = [], []
    for size in (None, 7, 1):
        settings = settings_of(
            "A2C",
            model=model,
            microbatch_size=size,
            normalize_advantages=normalize,
            min_sample_timesteps_per_iteration=64,
        )
        with A2C(settings) as algo:
            metrics.append(algo.train())
            weights.append(algo.learners["default_policy"].groups["all"].vector.clone())
    for other, found in zip(weights[1:], metrics[1:], strict=True):
        torch.testing.assert_close(other, weights[0], atol=2e-5, rtol=1e-4)
        for name in ("total_loss", "entropy", "grad_norm", "vf_explained_var"):
            name = f"learner/default_policy/{name}"
            assert found[name] == pytest.approx(metrics[0][name], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [4]}, MEMORY])
def test_two_learners_take_the_step_of_one(model: dict[str, Any]) -> None:
    """Each has two of four slots, and adds up parts of 10 rows or less."""
    with A2C(settings_of("A2C", model=model)) as algo:
        rollouts, config, policy = algo.sample(), algo.config, algo.get_policy()

    def learned(ranks: Ranks, microbatch_size: int | None) -> Tensor:
        own = Policy(policy.observation_space, policy.action_space, config.resolve().model, seed=3)
        own.set_weights(policy.get_weights())
        mine = config.copy(copy_frozen=False).training(microbatch_size=microbatch_size)
        learners = {"default_policy": A2C.make_learner(mine, own.module)}
        connectors = {"default_policy": LearnerConnectors(None)}
        worker = LearnerWorker(mine, {"default_policy": own}, learners, connectors, 7, ranks)
        part = shares(rollouts, ranks.size)[ranks.rank]
        used = {"default_policy": A2CCoefficients(value=0.5, entropy=0.01)}
        on_policy_update(worker, part, {"default_policy": 1e-2}, used, A2C)
        return learners["default_policy"].groups["all"].vector.detach().clone()

    alone = learned(ALONE, None)
    one, other = on_ranks(2, lambda ranks: learned(ranks, 10))
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one, alone, atol=1e-5, rtol=1e-4)


def test_no_more_than_a_microbatch_is_differentiated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    make_loss = A2C.make_loss

    def counting(*args: Any) -> Any:
        loss = make_loss(*args)

        def counted(module: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            seen.append(len(batch["advantages"]))
            return loss(module, batch)

        return counted

    monkeypatch.setattr(A2C, "make_loss", counting)
    with A2C(settings_of("A2C", microbatch_size=20)) as algo:
        algo.train()
        steps = algo.num_training_steps
    assert max(seen) <= 20
    assert len(seen) == 4 * steps
    assert sum(seen) == algo.num_env_steps_trained


def test_settings_that_are_refused(golden: Golden) -> None:
    cases = [
        {"num_epochs": 2},
        {"minibatch_size": 8},
        {"microbatch_size": 200},
        {"use_critic": False},
        {"clip_param": 0.1},
        {"sample_async": True},
    ]
    golden(
        "a2c/settings_that_are_refused",
        refusals(
            lambda settings: A2CConfig.from_dict({"env": "CartPole-v1", **settings}).validate(),
            cases,
        ),
    )


def test_without_a_critic_nothing_but_the_policy_learns() -> None:
    with A2C(settings_of("A2C", use_critic=False, use_gae=False)) as algo:
        before = algo.get_weights()["default_policy"]
        result = algo.train()
        after = algo.get_weights()["default_policy"]
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert moved and not any(name.startswith("value_") for name in moved)
    assert "learner/default_policy/vf_explained_var" not in result
