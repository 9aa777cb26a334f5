"""APPO's loss: the paper's ratio, what it is without a target network, and what it leaves alone."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from trainables.appo import APPO
from trainables.core.data.batch import Batch, Rollout
from trainables.core.distributions.categorical import Categorical
from trainables.core.learning.fragments import fragment_batch
from trainables.core.learning.impact import (
    APPOCoefficients,
    appo_loss,
    impact_batch,
    surrogate_ratio,
)
from trainables.core.learning.returns import Estimation, gae, vtrace
from trainables.core.networks.modules import ModuleOutput
from trainables.core.policy.policy import Policy

ESTIMATES = Estimation(gamma=0.9, lambda_=0.95, vtrace=True, rho_bar=1.0, pg_rho_bar=1.0)
PLAIN = APPOCoefficients(clip=0.2, target_worker_clipping=2.0, value=0.0, entropy=0.0, kl=0.0)


# ---------------------------------------------------------------------- the loss by itself


def log(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def test_ratio_by_hand() -> None:
    """pi = 0.6; worker 0.5, target 0.4: .6 / .4; worker 0.5, target 0.1: 2 (not 5) x .6 / .5."""
    ratio = surrogate_ratio(log(0.6, 0.6, 0.6), log(0.5, 0.5, 0.1), log(0.4, 0.1, 0.9), 2.0)
    torch.testing.assert_close(ratio, torch.tensor([1.5, 2.4, 0.6 / 0.9], dtype=torch.float64))


def test_where_target_and_worker_agree_it_is_ppos_ratio() -> None:
    logp, worker = log(0.6, 0.2), log(0.5, 0.5)
    torch.testing.assert_close(surrogate_ratio(logp, worker, worker, 2.0), (logp - worker).exp())


def random_case(seed: int, rows: int = 40, actions: int = 3) -> tuple[ModuleOutput, Batch]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    chosen = torch.randint(actions, (rows,), generator=generator)
    target, worker = draw(rows, actions), draw(rows, actions)
    distribution = Categorical(actions)
    batch = {
        "actions": chosen,
        "logp": distribution.logp(worker, chosen),
        "target_logp": distribution.logp(target, chosen),
        "target_inputs": target,
        "advantages": draw(rows),
        "value_targets": draw(rows),
    }
    return ModuleOutput(draw(rows, actions), draw(rows)), batch


def slow_loss(output: ModuleOutput, batch: Batch, given: APPOCoefficients) -> float:
    """Row by row, in probabilities, as the paper writes it."""
    losses = []
    for row in range(len(output.values)):
        pi = output.dist_inputs[row].softmax(-1).tolist()
        target = batch["target_inputs"][row].softmax(-1).tolist()
        action = int(batch["actions"][row])
        worker, advantage = math.exp(batch["logp"][row]), float(batch["advantages"][row])
        ratio = min(worker / target[action], given.target_worker_clipping) * pi[action] / worker
        clipped = min(max(ratio, 1 - given.clip), 1 + given.clip)
        error = float(output.values[row] - batch["value_targets"][row])
        entropy = -sum(p * math.log(p) for p in pi)
        kl = sum(t * math.log(t / p) for t, p in zip(target, pi, strict=True))
        losses.append(
            -min(ratio * advantage, clipped * advantage)
            + given.value * 0.5 * error**2
            - given.entropy * entropy
            + given.kl * kl
        )
    return float(np.mean(losses))


@pytest.mark.parametrize(
    ("clip", "bound", "kl", "value", "entropy"),
    [(0.2, 2.0, 0.0, 0.0, 0.0), (0.4, 1.5, 0.3, 0.0, 0.0), (0.1, 0.8, 1.0, 0.5, 0.01)],
)
def test_loss_equals_the_papers_row_by_row(
    clip: float, bound: float, kl: float, value: float, entropy: float
) -> None:
    output, batch = random_case(seed=5)
    coefficients = APPOCoefficients(clip, bound, value, entropy, kl)
    loss, metrics = appo_loss(output, batch, Categorical(3), coefficients)
    assert loss.item() == pytest.approx(slow_loss(output, batch, coefficients), rel=1e-9)
    assert metrics["total_loss"].item() == loss.item()


def gradient_of_logits(logp_of: dict[str, float], advantage: float, **changes: Any) -> float:
    """d loss / d logit of the action, one row; probabilities of `pi`, `worker` and `target`."""
    logits = torch.log(torch.tensor([[logp_of["pi"], 1 - logp_of["pi"]]])).requires_grad_()
    target = torch.log(torch.tensor([[logp_of["target"], 1 - logp_of["target"]]]))
    batch = {
        "actions": torch.tensor([0]),
        "logp": torch.log(torch.tensor([logp_of["worker"]])),
        "target_logp": target[:, 0],
        "target_inputs": target,
        "advantages": torch.tensor([advantage]),
        "value_targets": torch.zeros(1),
    }
    output = ModuleOutput(logits, torch.zeros(1))
    appo_loss(output, batch, Categorical(2), PLAIN._replace(**changes))[0].backward()
    assert logits.grad is not None
    return logits.grad[0, 0].item()


def test_a_better_action_becomes_more_likely_up_to_the_clip_from_the_target() -> None:
    """It is the target's probability that bounds a step, not the worker's."""
    near = {"pi": 0.5, "target": 0.5, "worker": 0.3}
    far = {"pi": 0.7, "target": 0.5, "worker": 0.68}
    assert gradient_of_logits(near, advantage=1.0) < 0 < gradient_of_logits(near, advantage=-1.0)
    assert gradient_of_logits(far, advantage=1.0) == 0  # 0.7 / 0.5 is above 1.2
    assert gradient_of_logits(far, advantage=-1.0) > 0


def test_the_bound_of_worker_over_target_bounds_the_step_of_a_stale_row() -> None:
    """The worker liked the action 8 times as much as the target does: its row counts for less."""
    stale = {"pi": 0.1, "target": 0.1, "worker": 0.8}
    bounded, free = (
        gradient_of_logits(stale, -1.0, target_worker_clipping=bound, clip=9.0)
        for bound in (2.0, 10.0)
    )
    assert free == pytest.approx(4 * bounded, rel=1e-5)  # 0.1 / 0.1 against 2 * 0.1 / 0.8


def test_the_kl_penalty_pulls_towards_the_target() -> None:
    away = {"pi": 0.9, "target": 0.5, "worker": 0.5}
    assert gradient_of_logits(away, advantage=0.0, kl=0.0) == 0
    assert gradient_of_logits(away, advantage=0.0, kl=1.0) > 0


# ---------------------------------------------------------------------- from rollouts


def make_policy(seed: int = 0, **settings: Any) -> Policy:
    box = gym.spaces.Box(-10, 10, (3,), np.float32)
    return Policy(box, gym.spaces.Discrete(2), seed=seed, **settings)


def make_rollout(policy: Policy, length: int = 12, slots: int = 4) -> Rollout:
    """Of a policy, with rows that only reset after ends of both kinds."""
    random = np.random.default_rng(0)
    obs = random.normal(size=(length + 1, slots, 3)).astype(np.float32)
    flat = obs[:-1].reshape(-1, 3)
    actions, _, inputs, _ = policy.act(flat, True, torch.Generator().manual_seed(0))
    logp = policy.distribution.logp(inputs, actions).numpy().reshape(length, slots)
    valid, ends = np.ones((length, slots), bool), np.zeros((length, slots), bool)
    for row, slot in ((3, 0), (7, 1), (11, 2), (5, 3)):
        ends[row, slot] = True
        if row + 1 < length:
            valid[row + 1, slot] = False
    terminated = ends & (np.arange(slots) % 2 == 0)
    continues = valid & ~ends
    return Rollout(
        obs=obs,
        actions=actions.numpy().reshape(length, slots),
        rewards=random.normal(size=(length, slots)).astype(np.float32),
        terminated=terminated,
        truncated=ends & ~terminated,
        logp=logp,
        valid=valid,
        continues=continues,
        weights_version=np.zeros(slots, np.int64),
        follows=np.zeros(slots, bool),
    )


def rows_of(rollout: Rollout, policy: Policy, target: Policy, **changes: Any) -> Batch:
    return impact_batch(rollout, policy, target.module, ESTIMATES._replace(**changes))


def test_without_a_target_network_it_is_the_clipped_loss_of_v_trace() -> None:
    """The target is the policy that acted: ratio pi / pi_worker, and V-trace with rho = 1."""
    acting, learning = make_policy(0), make_policy(1)
    rollout = make_rollout(acting)
    batch = rows_of(rollout, learning, target=acting)
    output = learning.module(batch["features"])
    coefficients = PLAIN._replace(value=0.5, entropy=0.01)
    loss, _ = appo_loss(output, batch, learning.distribution, coefficients)
    loss.backward()
    gradients = [p.grad.clone() for p in learning.module.parameters() if p.grad is not None]

    learning.module.zero_grad()
    expected = clipped_vtrace_loss(rollout, learning, torch.from_numpy(rollout.logp))
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    others = [p.grad for p in learning.module.parameters() if p.grad is not None]
    assert len(gradients) == len(others) > 0
    for mine, theirs in zip(gradients, others, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def clipped_vtrace_loss(rollout: Rollout, policy: Policy, acting_logp: Tensor) -> Tensor:
    """min(r A, clip(r) A), r = pi / pi_worker, A of V-trace with rho = 1; masked, not gathered."""
    tensors = {n: torch.from_numpy(getattr(rollout, n)) for n in ("rewards", "terminated")}
    continues, valid = torch.from_numpy(rollout.continues), torch.from_numpy(rollout.valid).float()
    output = policy.module(torch.from_numpy(rollout.obs))
    values = output.values.detach()
    estimates = vtrace(
        torch.zeros_like(acting_logp),
        tensors["rewards"],
        values[:-1],
        values[1:],
        tensors["terminated"],
        continues,
        gamma=ESTIMATES.gamma,
        lambda_=ESTIMATES.lambda_,
    )
    logp, entropy = policy.distribution.logp_and_entropy(
        output.dist_inputs[:-1], torch.from_numpy(rollout.actions)
    )
    ratio = (logp - acting_logp).exp()
    surrogate = torch.minimum(
        ratio * estimates.advantages, ratio.clamp(0.8, 1.2) * estimates.advantages
    )
    error = 0.5 * (output.values[:-1] - estimates.targets).square()
    return ((-surrogate + 0.5 * error - 0.01 * entropy) * valid).sum() / valid.sum()


def test_v_trace_corrects_from_the_worker_to_the_target() -> None:
    """Not to the policy that learns: of that one only the values count."""
    acting, target, learning = (make_policy(seed) for seed in range(3))
    rollout = make_rollout(acting)
    batch = rows_of(rollout, learning, target)
    flat = torch.from_numpy(rollout.obs)
    actions = torch.from_numpy(rollout.actions)
    with torch.no_grad():
        values = learning.module.value(flat)
        target_logp = target.distribution.logp(target.module.dist_inputs(flat[:-1]), actions)
    expected = vtrace(
        target_logp - torch.from_numpy(rollout.logp),
        torch.from_numpy(rollout.rewards),
        values[:-1],
        values[1:],
        torch.from_numpy(rollout.terminated),
        torch.from_numpy(rollout.continues),
        gamma=ESTIMATES.gamma,
        lambda_=ESTIMATES.lambda_,
    )
    kept = torch.from_numpy(rollout.valid).T  # slot by slot
    torch.testing.assert_close(batch["advantages"], expected.advantages.T[kept])
    torch.testing.assert_close(batch["value_targets"], expected.targets.T[kept])
    torch.testing.assert_close(batch["target_logp"], target_logp.T[kept])
    assert len(batch["logp"]) == rollout.valid.sum()
    assert not any(column.requires_grad for column in batch.values())


def test_without_vtrace_advantages_are_gae() -> None:
    acting, target, learning = (make_policy(seed) for seed in range(3))
    rollout = make_rollout(acting)
    batch = rows_of(rollout, learning, target, vtrace=False)
    with torch.no_grad():
        values = learning.module.value(torch.from_numpy(rollout.obs))
    expected = gae(
        torch.from_numpy(rollout.rewards),
        values[:-1],
        values[1:],
        torch.from_numpy(rollout.terminated),
        torch.from_numpy(rollout.continues),
        ESTIMATES.gamma,
        ESTIMATES.lambda_,
    )
    torch.testing.assert_close(batch["advantages"], expected.T[torch.from_numpy(rollout.valid).T])


def test_rows_that_only_reset_change_nothing() -> None:
    """Whatever the learner is told of them, also what is no number."""
    acting, target, learning = (make_policy(seed) for seed in range(3))
    clean, dirty = make_rollout(acting), make_rollout(acting)
    invalid = ~dirty.valid
    dirty.rewards[invalid], dirty.logp[invalid] = 1e9, -np.inf
    dirty.actions[invalid] = 1 - dirty.actions[invalid]
    before, after = (rows_of(rollout, learning, target) for rollout in (clean, dirty))
    for name, column in before.items():
        torch.testing.assert_close(column, after[name])


MEMORIES: list[dict[str, Any]] = [
    {},
    {"use_lstm": True, "lstm_cell_size": 4, "lstm_use_prev_action": True},
    {"use_gru": True, "lstm_cell_size": 4, "vf_share_layers": True},
    {"use_attention": True, "attention_dim": 4, "attention_head_dim": 4},
]


@pytest.mark.parametrize("model", MEMORIES, ids=lambda model: next(iter(model), "plain"))
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_a_target_that_is_the_policy_that_acted_finds_its_actions_as_likely(
    env: str, model: dict[str, Any]
) -> None:
    """Through filters, memories and ends of episodes: ratios of 1 wherever a row is trained on."""
    settings = {
        "env": env,
        "seed": 0,
        "model": {"fcnet_hiddens": [8], **model},
        "observation_filter": "MeanStdFilter",
        "num_envs_per_env_runner": 3,
        "rollout_fragment_length": 40,
        "train_batch_size_per_learner": 120,
        "max_env_steps_without_episode": 10**6,
    }
    with APPO(config=settings) as algo:
        policy, worker = algo.get_policy(), algo.learners.worker
        [target] = worker.learners["default_policy"].targets.values()
        for _ in range(2):
            rollout = algo.env_runners.sample()[0]["default_policy"]
            batch = impact_batch(rollout, policy, target.network, ESTIMATES)
            if policy.is_recurrent:
                valid = batch["valid"]
                difference = (batch["target_logp"] - batch["logp"])[valid]
            else:
                difference = batch["target_logp"] - batch["logp"]
            assert len(difference) == rollout.num_env_steps
            torch.testing.assert_close(difference, torch.zeros_like(difference), rtol=0, atol=2e-5)
            assert fragment_batch(rollout, policy)["valid"].sum() == len(difference)
