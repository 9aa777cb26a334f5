"""MARWIL's losses against slow loops and numbers worked by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_fakes import CARTPOLE, FakeSource, random_episodes
from torch import Tensor

from trainables.core.data.batch import Batch
from trainables.core.distributions.build import distribution_for
from trainables.core.distributions.gaussian import LOG_STD_MAX, LOG_STD_MIN
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.imitation import Imitated, imitated, imitation_sequences
from trainables.core.learning.recorded_actions import bounded_log_stds
from trainables.core.policy.policy import Policy
from trainables.marwil import (
    _MOMENTS,
    MARWIL,
    MAX_WEIGHT,
    MARWILCoefficients,
    MARWILConfig,
    _reported,
    advantage_weights,
    marwil_loss,
    marwil_update,
)
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import Episode
from trainables.runtime.offline.offline_data import OfflineData

GAMMA = 0.9
NO_WEIGHTS = MARWILCoefficients(beta=0.0, value=1.0, log_std=0.0)


def policy_of(**model: Any) -> Policy:
    return Policy(*CARTPOLE, {"fcnet_hiddens": [8], **model}, seed=0)


def norm(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


# ------------------------------------------------------------------ weights


def test_weights_by_hand() -> None:
    """c = 2: exp(0.5 * 4 / 2) = e, and what would be more than 20 is 20."""
    weights = advantage_weights(torch.tensor([4.0, 0.0, -4.0, 1e6]), 0.5, norm(4.0))
    assert weights.tolist() == pytest.approx([math.e, 1.0, 1 / math.e, MAX_WEIGHT], rel=1e-6)
    assert weights.dtype == torch.float32


@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_the_loss_of_discrete_actions_is_that_of_a_loop(beta: float) -> None:
    torch.manual_seed(0)
    distribution = distribution_for(gym.spaces.Discrete(3))
    rows = Imitated(
        torch.randn(5, 3),
        torch.tensor([0, 2, 1, 1, 0]),
        torch.randn(5) * 3,
        torch.randn(5) * 3,
    )
    coefficients = MARWILCoefficients(beta=beta, value=0.25, log_std=0.0)
    loss, metrics = marwil_loss(rows, distribution, coefficients, norm(2.0))
    policy_loss = value_loss = 0.0
    for inputs, action, value, ret in zip(*rows, strict=True):
        advantage = float(ret - value)
        weight = min(math.exp(beta * advantage / math.sqrt(2.0)), 20.0)
        policy_loss -= weight * float(inputs.log_softmax(0)[action]) / 5
        value_loss += 0.5 * advantage**2 / 5
    assert float(metrics["policy_loss"]) == pytest.approx(policy_loss, rel=1e-5)
    if beta:
        assert float(metrics["vf_loss"]) == pytest.approx(value_loss, rel=1e-5)
        assert float(metrics["sqd_adv"]) == pytest.approx(2 * value_loss, rel=1e-5)
        assert float(loss) == pytest.approx(policy_loss + 0.25 * value_loss, rel=1e-5)
    else:
        assert float(loss) == pytest.approx(policy_loss, rel=1e-5)
        assert "vf_loss" not in metrics


def test_no_gradient_flows_through_the_weights() -> None:
    """That of the values is of their own loss, that of the policy weighted by constants."""
    inputs = torch.zeros(2, 2, requires_grad=True)
    values = torch.tensor([1.0, -2.0], requires_grad=True)
    rows = Imitated(inputs, torch.tensor([0, 1]), values, torch.tensor([3.0, 0.0]))
    distribution = distribution_for(gym.spaces.Discrete(2))
    loss, _ = marwil_loss(rows, distribution, MARWILCoefficients(1.0, 1.0, 0.0), norm(1.0))
    loss.backward()
    assert values.grad is not None and inputs.grad is not None
    assert values.grad.tolist() == pytest.approx([-2.0 / 2, -2.0 / 2])  # (V - R) / M
    # d(-w log pi)/d logit = w (pi - 1) at uniform logits.
    assert inputs.grad[0, 0].item() == pytest.approx(-0.5 * math.exp(2.0) / 2, rel=1e-5)


def test_a_coefficient_of_log_sigma_rewards_wide_policies() -> None:
    """Its optimum, of actions with variance s2: sigma² = s2 / (1 - c) for one dimension."""
    distribution = distribution_for(gym.spaces.Box(-9, 9, (1,)))
    actions = torch.tensor([[-1.0], [1.0]])  # variance 1 around 0

    def gradient(coefficient: float, log_std: float) -> float:
        raw = torch.tensor([[0.0, log_std]], requires_grad=True)
        none = torch.empty(0)
        rows = Imitated(raw.expand(2, 2), actions, none, none)
        loss, _ = marwil_loss(
            rows, distribution, NO_WEIGHTS._replace(log_std=coefficient), norm(1.0)
        )
        loss.backward()
        assert raw.grad is not None
        return float(raw.grad[0, 1])

    assert gradient(0.0, 0.0) == pytest.approx(0.0, abs=1e-6)
    assert gradient(0.75, 0.0) == pytest.approx(-0.75, abs=1e-6)  # descent makes it wider
    assert gradient(0.75, math.log(2.0)) == pytest.approx(0.0, abs=1e-6)


# ------------------------------------------------------------------ bounds of log sigma


@pytest.mark.parametrize("squash", [False, True])
def test_log_sigma_comes_back_inside_its_bounds(squash: bool) -> None:
    """Whatever the likelihood would have: one that has no gradient outside would stay there."""
    distribution = distribution_for(gym.spaces.Box(-1, 1, (2,)), squash=squash)
    inputs = torch.tensor([[0.1, 0.2, LOG_STD_MIN - 3, LOG_STD_MAX + 1]], requires_grad=True)
    bounded, excess, mean = bounded_log_stds(inputs, distribution)
    assert bounded[0].tolist() == pytest.approx([0.1, 0.2, LOG_STD_MIN, LOG_STD_MAX])
    assert (excess.item(), mean.item()) == (4.0, (LOG_STD_MIN + LOG_STD_MAX) / 2)
    excess.backward()
    assert inputs.grad is not None
    assert inputs.grad[0].tolist() == [0.0, 0.0, -1.0, 1.0]


def test_what_is_always_the_same_is_cloned_and_nothing_blows_up() -> None:
    distribution = distribution_for(gym.spaces.Box(-1, 1, (1,)))
    raw = torch.zeros(2, requires_grad=True)  # mean and log sigma
    optimizer = torch.optim.Adam([raw], lr=0.05)
    none, losses = torch.empty(0), []
    for _ in range(600):
        rows = Imitated(raw.expand(8, 2), torch.full((8, 1), 0.5), none, none)
        loss, _ = marwil_loss(rows, distribution, NO_WEIGHTS, norm(1.0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert raw[0].item() == pytest.approx(0.5, abs=0.05)
    assert LOG_STD_MIN - 0.2 < raw[1].item() < LOG_STD_MIN + 1.0


def test_actions_that_have_none_have_none() -> None:
    inputs = torch.randn(4, 3)
    bounded, excess, mean = bounded_log_stds(inputs, distribution_for(gym.spaces.Discrete(3)))
    assert bounded is inputs and excess.item() == mean.item() == 0.0


# ------------------------------------------------------------------ returns


def data_of(episodes: list[Episode], policy: Policy, tmp_path: Path) -> OfflineData:
    data = load_data_set(FakeSource(episodes, CARTPOLE), cache=tmp_path)
    return OfflineData(data, policy, np.random.SeedSequence(0))


def value(policy: Policy, obs: np.ndarray) -> float:
    with torch.no_grad():
        return float(policy.value(obs[None])[0])


def test_returns_of_rows_are_those_of_a_loop(tmp_path: Path) -> None:
    """To the end of the episode: 0 follows a termination, V(last) a truncation or a cut."""
    policy = policy_of()
    episodes = random_episodes(CARTPOLE, [3, 4, 5])
    assert [(e.terminated, e.truncated) for e in episodes] == [(1, 0), (0, 1), (0, 0)]
    drawn = data_of(episodes, policy, tmp_path).sample(64, gamma=GAMMA, n_step="end")
    batch = {
        "features": policy.features(drawn["obs"]),
        "next_features": policy.features(drawn["next_obs"]),
        **{name: drawn[name] for name in ("actions", "rewards", "discounts")},
    }
    rows = imitated(policy.module, batch, GAMMA, values=True)
    expected = {}
    for episode in episodes:
        last = 0.0 if episode.terminated else value(policy, episode.obs[-1])
        for t in reversed(range(len(episode))):
            last = float(episode.rewards[t]) + GAMMA * last
            expected[episode.obs[t].tobytes()] = last
    for obs, found in zip(drawn["obs"].numpy(), rows.returns.tolist(), strict=True):
        assert found == pytest.approx(expected[obs.tobytes()], abs=1e-5)
    assert not rows.returns.requires_grad and rows.values.requires_grad


@pytest.mark.parametrize("model", [{"use_lstm": True}, {"use_gru": True}, {"use_attention": True}])
def test_returns_of_sequences_are_those_of_a_loop(model: dict[str, Any], tmp_path: Path) -> None:
    """They end with their episode, or with the sequence, and bootstrap from what comes then."""
    policy = policy_of(**model, max_seq_len=4)
    data = data_of(random_episodes(CARTPOLE, [3, 4, 5, 2, 6]), policy, tmp_path)
    batch, drawn = sequences(policy, data.sample_sequences(9, 4))
    rows = imitated(policy.module, batch, GAMMA, values=True)
    state = policy.module.initial_state(9)
    is_first = torch.cat([drawn["is_first"], torch.zeros(1, 9, dtype=torch.bool)])
    with torch.no_grad():
        features = policy.features(drawn["obs"])
        values = policy.module.unroll(features, state, is_first)[0].values
    number, seen = 0, set()
    for t in range(4):
        for b in range(9):
            if not drawn["valid"][t, b]:
                continue
            total, factor, k = 0.0, 1.0, t
            while True:
                total += factor * float(drawn["rewards"][k, b])
                factor *= GAMMA
                ended = "terminated" if drawn["terminated"][k, b] else ""
                ended = ended or ("truncated" if drawn["truncated"][k, b] else "")
                k += 1
                if ended or k == 4 or not drawn["valid"][k, b]:
                    break
            if ended != "terminated":
                total += factor * float(values[k, b])
            seen.add(ended)
            assert rows.returns[number].item() == pytest.approx(total, abs=1e-4)
            assert rows.values[number].item() == pytest.approx(float(values[t, b]), abs=1e-5)
            number += 1
    assert number == len(rows.returns) == len(rows.actions)
    assert seen == {"terminated", "truncated", ""}


def sequences(policy: Policy, drawn: Batch) -> tuple[Batch, Batch]:
    """What `imitated` takes of drawn sequences, and these."""
    given = {**drawn, "features": policy.features(drawn["obs"])}
    return imitation_sequences(given, policy.module.initial_state(drawn["valid"].shape[1])), drawn


def test_without_values_a_memory_says_the_same_of_actions(tmp_path: Path) -> None:
    policy = policy_of(use_lstm=True, max_seq_len=4)
    data = data_of(random_episodes(CARTPOLE, [3, 4, 5]), policy, tmp_path)
    batch, _ = sequences(policy, data.sample_sequences(6, 4))
    with_values, without = (imitated(policy.module, batch, GAMMA, values=v) for v in (True, False))
    torch.testing.assert_close(without.dist_inputs, with_values.dist_inputs)
    assert len(without.values) == 0


# ------------------------------------------------------------------ the moving average


def test_the_moving_average_is_that_of_a_loop(tmp_path: Path) -> None:
    """In float64: at the default rate 100 would never move in float32. A batch sees it before."""
    policy = policy_of()
    data = data_of(random_episodes(CARTPOLE, [5, 6, 7]), policy, tmp_path)
    columns = data.sample(8, 3, gamma=GAMMA, n_step="end")
    columns["features"] = policy.features(columns.pop("obs"))
    columns["next_features"] = policy.features(columns.pop("next_obs"))
    drawn = Drawn(columns, [8] * 3)
    for rate, lr in ((1e-8, 0.0), (0.5, 0.0)):
        config = MARWILConfig(input_="data", moving_average_sqd_adv_norm_update_rate=rate)
        learner = MARWIL.make_learner(config, policy.module)
        worker = LearnerWorker(config, {"a": policy}, {"a": learner}, {}, 0)
        found = marwil_update(worker, drawn, "a", MARWIL, lr, 100.0)
        average, weights = 100.0, []
        with torch.no_grad():
            for batch in drawn.batches():
                rows = imitated(policy.module, batch, config.gamma, values=True)
                advantages = (rows.returns - rows.values).double()
                weights.append((advantages / math.sqrt(average)).exp().clamp_max(20).mean())
                average += rate * (float(advantages.square().mean()) - average)
        assert found.sqd_adv_norm == pytest.approx(average, rel=1e-12)
        assert found.sqd_adv_norm != 100.0
        reported = found.scalars[:, found.names.index("mean_weight")]
        assert reported.tolist() == pytest.approx([float(w) for w in weights], rel=1e-5)


def test_explained_variance_and_mean_return_are_of_each_batch() -> None:
    returns, residuals = torch.randn(50).double() * 3 + 7, torch.randn(50).double()
    sums = (returns.mean(), returns.square().mean(), residuals.mean(), residuals.square().mean())
    names, scalars = _reported(["loss", *_MOMENTS], torch.tensor([[1.0, *sums]]).double())
    found = dict(zip(names, scalars[0].tolist(), strict=True))
    explained = 1 - residuals.var(correction=0) / returns.var(correction=0)
    assert found["loss"] == 1.0
    assert found["mean_ret"] == pytest.approx(float(returns.mean()))
    assert found["vf_explained_var"] == pytest.approx(float(explained), rel=1e-4)
