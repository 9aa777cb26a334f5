"""Two or three learners that share the rows of a batch learn what one learns from all of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from thread_ranks import on_ranks
from torch import Tensor

from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Batch, Rollout
from trainables.core.learning.advantages import with_advantages
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.learner import Metrics
from trainables.core.learning.minibatches import (
    consecutive_ids,
    minibatches,
    row_ids,
    shared_minibatches,
)
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.learning.returns import moments
from trainables.core.networks.modules import PolicyModule
from trainables.core.policy.policy import Policy
from trainables.on_policy import on_policy_update
from trainables.ppo import PPO, PPOCoefficients, ppo_loss
from trainables.runtime.envs.make import make_vector_env
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.sampling.env_runner import EnvRunner

NUM_SLOTS = 5  # two ranks have three and two
PLAIN_ADVANTAGES = {"normalize_advantages": False}
COEFFICIENTS = PPOCoefficients(clip=0.2, entropy=0.01, kl=0.3, value=0.5, value_clip=None)


def make_config(**training: Any) -> PPOConfig:
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs_per_env_runner=NUM_SLOTS, observation_filter="MeanStdFilter")
        .training(
            **{"minibatch_size": 50, "num_epochs": 3, "use_kl_loss": True, "grad_clip": 0.05}
            | training
        )
    )


def make_worker(config: PPOConfig, env: Any, ranks: Ranks = ALONE) -> LearnerWorker:
    policy = Policy(
        env.single_observation_space,
        env.single_action_space,
        config.resolve().model,
        observation_filter=config.observation_filter,
        seed=3,
    )
    learner = PPO.make_learner(config, policy.module)
    policies, connectors = {"p": policy}, {"p": LearnerConnectors(None)}
    return LearnerWorker(config, policies, {"p": learner}, connectors, 7, ranks)


def sampled(config: PPOConfig, env: Any, num_steps: int) -> Rollout:
    worker = make_worker(config, env)
    runner = EnvRunner(
        config, {DEFAULT_MODULE_ID: worker.policies["p"]}, env, np.random.SeedSequence(5)
    )
    return runner.sample(num_steps)[0]["default_policy"]


def weights(worker: LearnerWorker) -> Tensor:
    return worker.learners["p"].groups["all"].vector.detach().clone()


@pytest.mark.parametrize(
    ("size", "training"),
    [
        (2, {}),
        (3, {}),
        (3, {"shuffle_batch_per_epoch": False, "grad_clip_by": "norm", **PLAIN_ADVANTAGES}),
        (2, {"minibatch_size": None, "use_critic": False, "use_gae": False}),
        (3, {"minibatch_size": 3, "num_epochs": 1}),  # a rank has no row of some minibatches
        (2, {"model": {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 7}}),
    ],
    ids=["plain_2", "plain_3", "in_order", "whole", "small", "lstm"],
)
def test_several_learners_learn_what_one_does(training: dict[str, Any], size: int) -> None:
    config = make_config(**training)
    env = make_vector_env("CartPole-v1", {}, NUM_SLOTS)
    rollout = sampled(config, env, 25)
    before = weights(make_worker(config, env))

    def learn(ranks: Ranks) -> tuple[Tensor, dict[str, float]]:
        worker = make_worker(config, env, ranks)
        edges = np.linspace(0, NUM_SLOTS, ranks.size + 1).round().astype(int)
        part = rollout.slots(edges[ranks.rank], edges[ranks.rank + 1])
        for _ in range(2):
            metrics = on_policy_update(worker, {"p": part}, {"p": 3e-3}, {"p": COEFFICIENTS}, PPO)[
                "p"
            ]
        return weights(worker), metrics

    alone, expected = learn(ALONE)
    assert (alone - before).abs().max() > 1e-3
    for learned, metrics in on_ranks(size, learn):
        torch.testing.assert_close(learned, alone, atol=2e-5, rtol=1e-4)
        assert metrics == pytest.approx(expected, abs=2e-4, rel=1e-3)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize(
    ("floor", "learned_from"),
    [
        (0.01, 1e-3),  # over 1 % of 100, the value targets
        (1e-6, 1.0),  # a deviation of 1e-3 is above the floor: that of a plain normalisation
        (0.0, 1.0),
    ],
)
def test_noise_beside_large_values_stays_small(
    floor: float, learned_from: float, memory: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solved task: values of 100 everywhere, advantages of 1e-3."""
    model = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 7} if memory else {}
    config = make_config(model=model, minibatch_size=None, advantage_std_floor=floor)
    env = make_vector_env("CartPole-v1", {}, NUM_SLOTS)
    rollout, seen = sampled(config, env, 40), []

    def solved(*args: Any, **kwargs: Any) -> dict[str, Tensor]:
        batch = with_advantages(*args, **kwargs)
        noise = torch.linspace(-1e-3, 1e-3, batch["advantages"].numel())
        noise = 1e-3 * (noise / noise.std()).view_as(batch["advantages"])
        return batch | {"advantages": noise, "value_targets": 100 + noise}

    def recorded(output: Any, batch: dict[str, Tensor], *rest: Any) -> Any:
        seen.append(batch["advantages"])
        return ppo_loss(output, batch, *rest)

    monkeypatch.setattr("trainables.on_policy.with_advantages", solved)
    monkeypatch.setattr("trainables.ppo.ppo_loss", recorded)

    def learn(ranks: Ranks) -> dict[str, float]:
        worker = make_worker(config, env, ranks)
        edges = np.linspace(0, NUM_SLOTS, ranks.size + 1).round().astype(int)
        part = rollout.slots(edges[ranks.rank], edges[ranks.rank + 1])
        return on_policy_update(worker, {"p": part}, {"p": 3e-3}, {"p": COEFFICIENTS}, PPO)["p"]

    for metrics in on_ranks(size, learn) if size > 1 else [learn(ALONE)]:
        assert metrics["advantage_std"] == pytest.approx(1e-3, rel=0.1)
    spread = torch.cat(seen).std().item()
    assert spread == pytest.approx(learned_from, rel=0.1)


def test_ranks_stay_equal_to_the_bit_and_reduce_gradients_once() -> None:
    config = make_config(normalize_advantages=False, num_epochs=1)
    env = make_vector_env("CartPole-v1", {}, NUM_SLOTS)
    rollout = sampled(config, env, 40)
    steps = -(-int(rollout.valid.sum()) // 50)

    def learn(ranks: Ranks) -> tuple[Tensor, int]:
        worker = make_worker(config, env, ranks)
        part = rollout.slots(*((0, 1) if ranks.rank == 0 else (1, NUM_SLOTS)))  # one has few rows
        before = ranks.num_sums  # type: ignore[attr-defined]
        on_policy_update(worker, {"p": part}, {"p": 3e-3}, {"p": COEFFICIENTS}, PPO)
        return weights(worker), ranks.num_sums - before  # type: ignore[attr-defined]

    (one, sums), (two, _) = on_ranks(2, learn)
    assert torch.equal(one, two)
    # One for each step; whether there are rows, their number, their shares, the metrics.
    assert sums == steps + 4


def test_shared_minibatches_are_those_of_one_learner() -> None:
    rows = torch.arange(23.0)
    batch = {"x": rows, "y": rows.square()}

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(1)

    whole = list(minibatches(batch, 2, 4, generator(), {"y": 200.0}))

    def part(ranks: Ranks) -> list[tuple[dict[str, Tensor], Tensor]]:
        ids = torch.arange(23)[torch.arange(23) % 5 == 0] if ranks.rank else None
        ids = torch.arange(23)[torch.arange(23) % 5 != 0] if ids is None else ids
        mine = {name: column[ids] for name, column in batch.items()}
        return list(shared_minibatches(mine, ids, ranks, 2, 4, generator(), {"y": 200.0}))

    for expected, *shared in zip(whole, *on_ranks(2, part), strict=True):
        assert sum(float(share) for _, share in shared) == pytest.approx(1)
        found = torch.cat([m["x"] for m, share in shared if share > 0])
        assert sorted(found.tolist()) == sorted(expected["x"].tolist())
        normal = torch.cat([m["y"] for m, share in shared if share > 0])
        torch.testing.assert_close(normal.sort().values, expected["y"].sort().values)


def test_a_metric_keeps_its_digits_over_unequal_shares() -> None:
    """A variance that is a hundred-millionth of the mean square; shares are 2/7 and 5/7."""
    config = make_config()
    env = make_vector_env("CartPole-v1", {}, NUM_SLOTS)
    rows = 100 + 0.01 * torch.linspace(-1, 1, 7, dtype=torch.float64)

    def of_moments(module: PolicyModule, batch: Batch) -> tuple[Tensor, Metrics]:
        loss = 0.0 * sum(parameter.sum() for parameter in module.parameters())
        mean, square = moments(batch["x"])
        return loss, {"mean": mean, "square": square}

    def variance(ranks: Ranks) -> float:
        learner = make_worker(config, env, ranks).learners["p"]
        part = rows if ranks.size == 1 else rows[2:] if ranks.rank else rows[:2]
        found = learner.update({"x": part}, of_moments, ids=consecutive_ids(len(part), ranks))
        return found["square"] - found["mean"] ** 2

    expected = rows.var(correction=0).item()
    assert variance(ALONE) == pytest.approx(expected, rel=1e-3)
    for found in on_ranks(2, variance):
        assert found == pytest.approx(expected, rel=1e-3)


def test_rows_have_the_numbers_that_one_learner_gives_them() -> None:
    valid = torch.rand(6, 5, generator=torch.Generator().manual_seed(0)) > 0.3
    values = torch.arange(30).view(6, 5)

    def ids(ranks: Ranks) -> tuple[Tensor, Tensor]:
        slots = slice(0, 2) if ranks.rank == 0 else slice(2, 5)
        return row_ids(valid[:, slots], ranks), values[:, slots][valid[:, slots]]

    found = torch.full((int(valid.sum()),), -1)
    for numbers, mine in on_ranks(2, ids):
        found[numbers] = mine
    assert found.tolist() == values[valid].tolist()


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "max_seq_len": 7}], ids=["mlp", "lstm"])
def test_a_rank_without_a_valid_row_takes_part(model: dict[str, Any]) -> None:
    """Its env runners may all have died."""
    config = make_config(model=model, num_epochs=1)
    env = make_vector_env("CartPole-v1", {}, NUM_SLOTS)
    rollout = sampled(config, env, 40)

    def learn(ranks: Ranks) -> Tensor:
        worker = make_worker(config, env, ranks)
        part = rollout.without_steps() if ranks.rank else rollout
        on_policy_update(worker, {"p": part}, {"p": 3e-3}, {"p": COEFFICIENTS}, PPO)
        return weights(worker)

    alone = learn(ALONE)
    for learned in on_ranks(2, learn):
        torch.testing.assert_close(learned, alone, atol=2e-5, rtol=1e-4)
