"""IMPALA's loss, fragments and settings: signs, what must not move a gradient, what comes again."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from refusals import Golden, refusals
from small_runs import settings_of
from thread_ranks import on_ranks
from tiers import covering
from torch import Tensor

from trainables import IMPALA, IMPALAConfig
from trainables.core.data.batch import Batch, Rollout
from trainables.core.distributions.categorical import Categorical
from trainables.core.errors import ConfigError
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.fragments import (
    fragment_batch,
    fragments_per_step,
    unrolled_fragments,
)
from trainables.core.learning.impala_loss import IMPALACoefficients, impala_loss
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.learning.returns import Estimation, gae, vtrace
from trainables.core.networks.modules import ModuleOutput
from trainables.core.policy.policy import Policy
from trainables.impala import impala_update
from trainables.runtime.learners.actor import shares
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.sampling.fragment_queue import FragmentQueue
from trainables.runtime.sampling.group import Sample
from trainables.runtime.sampling.sampling_worker import Episodes

GAMMA = 0.9
ESTIMATES = Estimation(gamma=GAMMA, lambda_=1.0, vtrace=True, rho_bar=1.0, pg_rho_bar=1.0)
PLAIN = IMPALACoefficients(ESTIMATES, value=0.0, entropy=0.0, reduction="mean")

MODULE = "default_policy"


def fragments(seed: int = 0, length: int = 6, slots: int = 2) -> Batch:
    """Rows `[T, N]` with an episode's end and a row that only resets behind it."""
    random = torch.Generator().manual_seed(seed)
    truncated = torch.zeros(length, slots, dtype=torch.bool)
    truncated[2, 0] = True
    valid = torch.ones(length, slots, dtype=torch.bool)
    valid[3, 0] = False
    return {
        "actions": torch.randint(3, (length, slots), generator=random),
        "logp": -torch.rand(length, slots, generator=random) - 0.5,
        "rewards": torch.randn(length, slots, generator=random),
        "terminated": torch.zeros(length, slots, dtype=torch.bool),
        "continues": valid & ~truncated,
        "valid": valid,
    }


def outputs(seed: int = 1, length: int = 6, slots: int = 2) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(length + 1, slots, 3, generator=random).requires_grad_()
    return logits, torch.randn(length + 1, slots, generator=random).requires_grad_()


def loss_of(
    logits: Tensor, values: Tensor, batch: Batch, **changes: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    of_estimates = {name: changes.pop(name) for name in ESTIMATES._fields if name in changes}
    coefficients = PLAIN._replace(estimation=ESTIMATES._replace(**of_estimates), **changes)
    return impala_loss(ModuleOutput(logits, values), batch, Categorical(3), coefficients)


def log_rhos_of(logits: Tensor, batch: Batch) -> Tensor:
    chosen = logits[:-1].log_softmax(-1).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
    return chosen - batch["logp"]


def test_the_policys_gradient_is_of_log_pi_times_the_advantage() -> None:
    """And of nothing else: not of rho, nor of values."""
    batch, (logits, values) = fragments(), outputs()
    loss_of(logits, values, batch)[0].backward()
    log_rhos = log_rhos_of(logits.detach(), batch)
    given = (batch["rewards"], values[:-1], values[1:], batch["terminated"], batch["continues"])
    advantages = vtrace(log_rhos, *given, GAMMA).advantages
    again = logits.detach().clone().requires_grad_()
    valid = batch["valid"]
    (-(log_rhos_of(again, batch) * advantages)[valid].sum() / valid.sum()).backward()
    torch.testing.assert_close(logits.grad, again.grad)
    assert values.grad is None or not values.grad.any()


def test_the_value_loss_pulls_values_to_targets_and_not_targets_to_values() -> None:
    batch, (logits, values) = fragments(), outputs()
    loss_of(logits, values, batch, value=2.0)[0].backward()
    log_rhos = log_rhos_of(logits.detach(), batch)
    fixed = values.detach()
    given = (batch["rewards"], fixed[:-1], fixed[1:], batch["terminated"], batch["continues"])
    targets = vtrace(log_rhos, *given, GAMMA).targets
    valid = batch["valid"]
    expected = torch.zeros_like(fixed)
    expected[:-1][valid] = 2.0 * (fixed[:-1] - targets)[valid] / valid.sum()
    torch.testing.assert_close(values.grad, expected)  # none on the last row: it is a bootstrap


def test_rows_that_are_not_valid_move_nothing_even_if_they_are_no_numbers() -> None:
    batch, (logits, values) = fragments(), outputs()
    loss = loss_of(logits, values, batch, value=1.0, entropy=0.1)[0]
    batch["logp"][3, 0], batch["rewards"][3, 0] = math.nan, 1e6
    again = loss_of(logits, values, batch, value=1.0, entropy=0.1)[0]
    again.backward()
    assert loss.item() == again.item()
    assert logits.grad is not None and not logits.grad[3, 0].any() and not logits.grad[-1].any()


def test_a_sum_is_the_mean_times_the_rows() -> None:
    batch, (logits, values) = fragments(), outputs()
    mean, means = loss_of(logits, values, batch, value=0.5, entropy=0.1)
    total, sums = loss_of(logits, values, batch, value=0.5, entropy=0.1, reduction="sum")
    assert total.item() == pytest.approx(mean.item() * 11)
    assert sums["policy_loss"] == means["policy_loss"]
    assert sums["total_loss"] == means["total_loss"]  # does not depend on who has which rows


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_part_without_a_valid_row_counts_nothing(reduction: str) -> None:
    batch, (logits, values) = fragments(), outputs()
    batch["valid"] = torch.zeros_like(batch["valid"])
    loss, metrics = loss_of(logits, values, batch, value=0.5, entropy=0.1, reduction=reduction)
    loss.backward()
    assert not any(value.item() for value in metrics.values())
    assert logits.grad is not None and not logits.grad.any()


def test_entropy_bonus_raises_entropy() -> None:
    batch, (logits, values) = fragments(), outputs()
    before = loss_of(logits, values, batch)[1]["entropy"]
    grads = [
        torch.autograd.grad(loss_of(logits, values, batch, entropy=weight)[0], logits)[0]
        for weight in (0.0, 1.0)
    ]
    moved = (logits - 0.1 * (grads[1] - grads[0])).detach()
    assert loss_of(moved, values, batch)[1]["entropy"] > before


def test_without_vtrace_advantages_are_those_of_gae() -> None:
    batch, (logits, values) = fragments(), outputs()
    loss, metrics = loss_of(logits, values, batch, vtrace=False, lambda_=0.8, value=1.0)
    fixed = values.detach()
    given = (batch["rewards"], fixed[:-1], fixed[1:], batch["terminated"], batch["continues"])
    advantages, valid = gae(*given, GAMMA, 0.8), batch["valid"]
    logp = log_rhos_of(logits, batch) + batch["logp"]
    expected = (-logp * advantages + 0.5 * advantages.square())[valid].mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert metrics["vf_loss"].item() == pytest.approx(
        0.5 * advantages.square()[valid].mean().item()
    )


@pytest.mark.parametrize("bound", ["rho_bar", "pg_rho_bar"])
def test_each_bound_does_its_own_part(bound: str) -> None:
    batch, (logits, values) = fragments(), outputs()
    plain, other = (loss_of(logits, values, batch, **c)[1] for c in ({}, {bound: 0.3}))
    assert plain["policy_loss"] != other["policy_loss"]
    assert (plain["vf_loss"] != other["vf_loss"]) == (bound == "rho_bar")


# ---------------------------------------------------------------------- fragments


MEMORIES: dict[str, dict[str, Any]] = {
    "feed-forward": {},
    "filter": {"observation_filter": "MeanStdFilter"},
    "frames": {"frame_stack": 3},
    "lstm": {"model": {"use_lstm": True, "lstm_cell_size": 8, "lstm_use_prev_action": True}},
    "gru": {"model": {"use_gru": True, "lstm_cell_size": 8, "vf_share_layers": True}},
    "attention": {"model": {"use_attention": True, "attention_memory_inference": 5}},
}


@pytest.mark.parametrize("kind", MEMORIES)
def test_what_is_unrolled_is_what_acted(kind: str) -> None:
    """From the fragment's own first state, over ends of episodes: rho is 1 at every row."""
    more = {"env_config": {"max_episode_steps": 11}, **MEMORIES[kind]}
    with IMPALA(settings_of("IMPALA", **more)) as algo:
        policy = algo.get_policy()
        for _ in range(3):  # amid episodes, with states that are not zero
            rollout = algo.env_runners.sample()[0]["default_policy"]
        batch = fragment_batch(rollout, policy)
        with torch.no_grad():
            output, rows = unrolled_fragments(policy.module, batch)
        logp = policy.distribution.logp(output.dist_inputs[:-1], rows["actions"])
        valid = rows["valid"]
        assert not valid.all()
        torch.testing.assert_close(logp[valid], rows["logp"][valid], rtol=0, atol=1e-5)
        assert output.values.shape == (17, 4)


def test_only_the_state_before_a_fragment_is_stored() -> None:
    model = {"use_lstm": True, "lstm_cell_size": 8}
    with IMPALA(settings_of("IMPALA", model=model)) as algo:
        rollout = algo.env_runners.sample()[0]["default_policy"]
    assert {len(state) for state in rollout.states.values()} == {1}


def test_fragments_of_two_lengths_train_as_each_by_itself() -> None:
    """Padding is not trained on, and the shorter fragment bootstraps where it ends."""
    with IMPALA(settings_of("IMPALA")) as algo:
        policy, runner = algo.get_policy(), algo.env_runners.local_env_runner
        parts = [runner.sample(length)[0]["default_policy"] for length in (16, 9)]
        policy.module.policy_head[0].weight.data.mul_(50)  # so that rho is not 1

        def policy_loss(rollout: Rollout) -> Tensor:
            output, rows = unrolled_fragments(policy.module, fragment_batch(rollout, policy))
            loss = impala_loss(output, rows, policy.distribution, PLAIN._replace(reduction="sum"))[
                0
            ]
            return loss.detach()

        together = policy_loss(Rollout.concatenate(parts))
        torch.testing.assert_close(together, sum(policy_loss(part) for part in parts))


@pytest.mark.parametrize(
    ("minibatch_size", "expected"), [(None, None), (100, 2), (99, 1), (10, 1), (500, 10)]
)
def test_minibatches_are_whole_fragments(minibatch_size: int | None, expected: int | None) -> None:
    config = IMPALAConfig().training(minibatch_size=minibatch_size)
    with IMPALA(settings_of("IMPALA")) as algo:
        rollout = algo.env_runners.sample()[0]["default_policy"]
    assert fragments_per_step(config, rollout, ALONE) == expected


def test_minibatches_of_whole_episodes_go_by_their_mean_length() -> None:
    """Of all learners' episodes: each takes as many steps."""
    with IMPALA(settings_of("IMPALA", batch_mode="complete_episodes")) as algo:
        rollout = algo.env_runners.sample()[0]["default_policy"]
    mean = rollout.num_env_steps // 4
    assert mean > algo.config.get_rollout_fragment_length()
    config = algo.config.copy(copy_frozen=False).training(minibatch_size=3 * mean)
    assert fragments_per_step(config, rollout, ALONE) == 3
    halves = shares(rollout, 2)
    assert on_ranks(2, lambda r: fragments_per_step(config, halves[r.rank], r)) == [3, 3]


def test_learners_with_fragments_of_other_lengths_take_as_many_steps() -> None:
    """'auto' gives the first env runners a row more, and with them the first learner."""
    config = IMPALAConfig().training(train_batch_size_per_learner=100, minibatch_size=67)
    config.env_runners(num_env_runners=3, num_envs_per_env_runner=1, rollout_fragment_length="auto")
    assert [config.get_rollout_fragment_length(i) for i in (1, 2, 3)] == [34, 33, 33]
    settings = settings_of("IMPALA", num_envs_per_env_runner=1)
    with IMPALA(settings) as algo:
        runner, coefficients = algo.env_runners.local_env_runner, algo.coefficients()
        sampled = [runner.sample(length)[0] for length in (34, 34, 33, 33)]
        policy = algo.get_policy()

    def num_steps(ranks: Ranks) -> int:
        worker = worker_of(config, policy, ranks)
        learner, count = worker.learners["default_policy"], 0
        step = learner.update_step

        def counting(*args: Any, **more: Any) -> dict[str, Tensor]:
            nonlocal count
            count += 1
            return step(*args, **more)

        learner.update_step = counting  # type: ignore[method-assign]
        part = shares(sampled, 2)[ranks.rank]
        impala_update(worker, part, {MODULE: 1e-3}, {MODULE: coefficients})
        return count

    assert on_ranks(2, num_steps) == [4, 4]


def worker_of(config: IMPALAConfig, policy: Policy, ranks: Ranks) -> LearnerWorker:
    """One that starts with a policy's weights."""
    own = Policy(policy.observation_space, policy.action_space, config.resolve().model, seed=3)
    own.set_weights(policy.get_weights())
    learners = {"default_policy": IMPALA.make_learner(config, own.module)}
    policies, connectors = {"default_policy": own}, {"default_policy": LearnerConnectors(None)}
    return LearnerWorker(config, policies, learners, connectors, 7, ranks)


@pytest.mark.parametrize(
    ("model", "minibatch_size", "reduction"),
    covering([{}, {"use_gru": True, "lstm_cell_size": 8}], [None, 48], ["mean", "sum"]),
)
def test_two_learners_do_what_one_does(
    model: dict[str, Any], minibatch_size: int | None, reduction: str
) -> None:
    """Of five fragments one has three, the other two; rows that only reset count for neither."""
    more = {"env_config": {"max_episode_steps": 9}, "num_envs_per_env_runner": 1, "model": model}
    more |= {"minibatch_size": minibatch_size, "num_epochs": 3, "grad_clip": 0.05}
    more |= {"loss_reduction": reduction}
    settings = settings_of("IMPALA", **more)
    with IMPALA(settings) as algo:
        sampled = [algo.env_runners.sample()[0] for _ in range(5)]
        config, policy = algo.config, algo.get_policy()
        coefficients = algo.coefficients()._replace(entropy=0.1)

    def learned(ranks: Ranks) -> tuple[Tensor, dict[str, float]]:
        worker = worker_of(config, policy, ranks)
        part = sampled if ranks.size == 1 else shares(sampled, 2)[ranks.rank]
        results = impala_update(worker, part, {MODULE: 1e-2}, {MODULE: coefficients})[MODULE]
        vector = worker.learners["default_policy"].groups["all"].vector
        return vector.detach().clone(), results

    alone, expected = learned(ALONE)
    for weights, results in on_ranks(2, learned):
        torch.testing.assert_close(weights, alone, rtol=0, atol=2e-5)
        assert results.keys() == expected.keys()
        losses = ("total_loss", "policy_loss", "vf_loss", "entropy", "mean_rho")
        for name in (*losses, "vf_explained_var"):
            assert results[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-4), name


# ---------------------------------------------------------------------- the queue


def sample(number: int, num_env_steps: int = 10) -> Sample:
    return Sample(0, num_env_steps, Episodes(), number, {})


def numbers(queue: FragmentQueue) -> list[int] | None:
    batch = queue.next_batch()
    return None if batch is None else [fragment.weights_version for fragment in batch]


def queue_of(batch_size: int, proportion: float = 0.0, slots: int = 0) -> FragmentQueue:
    return FragmentQueue(batch_size, proportion, slots, np.random.SeedSequence(3))


def test_fragments_are_trained_on_once_and_in_order() -> None:
    queue = queue_of(25)
    for number in range(7):
        queue.add(sample(number))
    assert numbers(queue) == [0, 1, 2]
    assert numbers(queue) == [3, 4, 5]
    assert numbers(queue) is None and len(queue) == 1
    queue.add(sample(7, num_env_steps=15))
    assert numbers(queue) == [6, 7]


@pytest.mark.parametrize("proportion", [0.5, 1.0, 2.5])
def test_replay_brings_back_as_many_as_asked_out_of_the_last_ones(proportion: float) -> None:
    queue, seen, replayed = queue_of(40, proportion, slots=5), 0, 0
    for number in range(400):
        queue.add(sample(number))
        for trained in numbers(queue) or []:
            if trained == seen:
                seen += 1
                continue
            replayed += 1
            assert seen - 6 <= trained < seen  # of the five before the newest one
    assert replayed / seen == pytest.approx(proportion, rel=0.05)


def test_each_learner_gets_a_fragment() -> None:
    queue = FragmentQueue(10, 0.0, 0, np.random.SeedSequence(3), min_fragments=2)
    for number in range(3):
        queue.add(sample(number, num_env_steps=50))
    assert numbers(queue) == [0, 1] and numbers(queue) is None


def test_without_slots_nothing_is_kept() -> None:
    queue = queue_of(10)
    queue.add(sample(0))
    assert numbers(queue) == [0]
    assert len(queue) == 0 and not queue._stored


# ---------------------------------------------------------------------- settings and metrics


def test_the_policy_lag_is_in_versions() -> None:
    """Weights are sent every third batch, so that batches in between are of the same version."""
    more = {"broadcast_interval": 3, "min_sample_timesteps_per_iteration": 0}
    more |= {"env_config": {"max_episode_steps": 5}}
    with IMPALA(settings_of("IMPALA", **more)) as algo:
        results = [algo.train() for _ in range(7)]
        assert algo.env_runners.weights_version == 2
    assert {result["learner/default_policy/policy_lag"] for result in results} == {0.0}
    assert {result["learner_queue_length"] for result in results} == {0}


def test_evaluations_between_two_broadcasts_are_told_apart() -> None:
    more = {"broadcast_interval": 3, "min_sample_timesteps_per_iteration": 0}
    more |= {"env_config": {"max_episode_steps": 5}, "evaluation_duration": 1}
    with IMPALA(settings_of("IMPALA", **more)) as algo:
        evaluations = []
        for _ in range(2):
            algo.train()
            evaluations.append(algo.evaluate())
    assert [e["weights_version"] for e in evaluations] == [0, 0]
    assert [e["num_training_step_calls"] for e in evaluations] == [1, 2]


def test_the_references_names_of_the_optimiser() -> None:
    config = IMPALAConfig().training(opt_type="rmsprop", decay=0.9).training(epsilon=0.1)
    config.momentum = 0.5
    assert config.optimizer == {"type": "rmsprop", "decay": 0.9, "eps": 0.1, "momentum": 0.5}
    again = IMPALAConfig.from_dict({"optimizer": {"type": "rmsprop"}, "epsilon": 0.1})
    assert again.optimizer == {"type": "rmsprop", "eps": 0.1}
    with pytest.raises(ConfigError, match="'eps' is given twice"):
        IMPALAConfig.from_dict({"optimizer": {"eps": 0.2}, "epsilon": 0.1})
    with pytest.raises(ConfigError, match=r"type = 'lion' is not allowed"):
        IMPALAConfig().training(opt_type="lion")


def test_a_separate_value_optimiser_has_its_own_rate_and_clipping() -> None:
    more = {"_separate_vf_optimizer": True, "_lr_vf": [[0, 0.5], [1000, 0.0]], "lr": 1e-3}
    with IMPALA(settings_of("IMPALA", **more)) as algo:
        result = algo.train()
        learner = algo.learners["default_policy"]
        groups = zip(learner.groups, learner.optimizer.param_groups, strict=True)
        rates = {name: group["lr"] for name, group in groups}
        names = {n for n, _ in algo.get_policy().module.named_parameters()}
    assert rates["policy"] == 1e-3 and 0 < rates["vf"] < 0.5
    assert any(name.startswith("value_") for name in names)
    prefix = "learner/default_policy/"
    assert f"{prefix}vf_grad_norm" in result and f"{prefix}policy_grad_norm" in result
    assert 0 < result[f"{prefix}curr_vf_lr"] < 0.5


def test_what_has_no_effect_is_refused(golden: Golden) -> None:
    cases = [
        {"rollout_fragment_length": 1},
        {"replay_proportion": 1.0},
        {"replay_buffer_num_slots": 9},
        {"_lr_vf": 0.1},
        {"_separate_vf_optimizer": True, "model": {"vf_share_layers": True}},
        {"vtrace": False, "vtrace_clip_rho_threshold": 2.0},
        {"model": {"use_lstm": True, "max_seq_len": 10}},
        {"num_aggregation_workers": 2},
        {"num_gpu_loader_threads": 4},
        {"timeout_s_sampler_manager": 1.0},
        {"minibatch_buffer_size": 4},
    ]
    golden(
        "impala/what_has_no_effect_is_refused",
        refusals(
            lambda settings: IMPALAConfig.from_dict({"env": "CartPole-v1", **settings}).validate(),
            cases,
        ),
    )
