"""A team's Q: the mixers against slow loops, and why each agent's best action is the team's."""

from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from refusals import Golden, refusals
from torch.nn.functional import elu, relu

from trainables.core.distributions.base import ILLEGAL
from trainables.core.distributions.epsilon_greedy import TeamEpsilonGreedy
from trainables.core.networks.mixers import MonotonicMixer, SumMixer
from trainables.core.networks.team_q import TeamQ
from trainables.core.policy.policy import Policy

AGENTS, ACTIONS = 3, 4


def mixer_of(hidden: int = 5) -> MonotonicMixer:
    return MonotonicMixer(AGENTS, 6, 7, hidden, generator=torch.Generator().manual_seed(1))


def some(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def team(mixer: str = "qmix", model: dict[str, Any] | None = None, **parts: gym.Space) -> Policy:
    """A policy of three agents that see two numbers each, and a state of five."""
    seen: dict[str, gym.Space] = {
        "agents": spaces.Box(-1, 1, (AGENTS, 2), np.float32),
        "state": spaces.Box(-1, 1, (5,), np.float32),
    }
    return Policy(
        spaces.Dict(seen | parts),
        spaces.MultiDiscrete([ACTIONS] * AGENTS),
        {"fcnet_hiddens": [8], **(model or {})},
        module={"type": "team_q", "monotonic": mixer == "qmix"},
        exploration={"type": "EpsilonGreedy"},
        seed=3,
    )


def network_of(policy: Policy) -> TeamQ:
    assert isinstance(policy.module, TeamQ)
    return policy.module


def observations(policy: Policy, count: int) -> Any:
    policy.observation_space.seed(4)
    rows = [policy.observation_space.sample() for _ in range(count)]
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def features_of(policy: Policy, obs: Any) -> Any:
    return policy.features({key: torch.from_numpy(part) for key, part in obs.items()})


@pytest.mark.parametrize("hidden", [5, 0])
def test_mixer_is_that_of_the_paper_sample_by_sample_and_agent_by_agent(hidden: int) -> None:
    mixer, q_values, states = mixer_of(hidden), some(9, AGENTS), some(9, 6, seed=2)
    mixed = mixer(q_values, states)

    def said(network: Any, state: torch.Tensor) -> torch.Tensor:
        x = state
        for layer in [one for one in network if hasattr(one, "weight")]:
            x = layer.weight @ (x if x is state else relu(x)) + layer.bias
        return x

    for row in range(9):
        weights = said(mixer.first_weights, states[row]).abs()
        bias = mixer.first_biases.weight @ states[row] + mixer.first_biases.bias
        last = said(mixer.last_weights, states[row]).abs()
        total = said(mixer.last_bias, states[row])[0]
        for unit in range(7):
            inside = bias[unit]
            for agent in range(AGENTS):
                inside = inside + q_values[row, agent] * weights[agent * 7 + unit]
            total = total + elu(inside) * last[unit]
        torch.testing.assert_close(mixed[row], total)


def test_no_weight_of_the_mixer_is_negative() -> None:
    """The state's own part may fall: only what an agent's value changes has a sign."""
    for seed in range(5):
        q_values = (10 * some(50, AGENTS, seed=seed)).requires_grad_()
        mixer_of()(q_values, 10 * some(50, 6, seed=seed + 9)).sum().backward()
        assert q_values.grad is not None
        assert (q_values.grad >= 0).all() and (q_values.grad > 0).any()


def test_vdn_is_the_sum() -> None:
    q_values = some(9, AGENTS)
    total = SumMixer()(q_values, some(9, 6))
    for row in range(9):
        torch.testing.assert_close(total[row], sum(q_values[row, agent] for agent in range(AGENTS)))


@pytest.mark.parametrize("mixer", ["qmix", "vdn"])
def test_the_best_joint_action_is_that_of_each_agent(mixer: str) -> None:
    policy = team(mixer)
    network, features = network_of(policy), features_of(policy, observations(policy, 6))
    with torch.no_grad():
        q_values, states = network.q_values(features), network.states(features)
        greedy = policy.distribution.mode(network.dist_inputs(features))
        for row in range(6):
            joint = torch.tensor([*product(range(ACTIONS), repeat=AGENTS)])
            chosen = q_values[row].expand(len(joint), -1, -1).gather(2, joint.unsqueeze(2))
            totals = network.mixer(chosen.squeeze(2), states[row].expand(len(joint), -1))
            assert joint[totals.argmax()].tolist() == greedy[row].tolist()


def test_agents_share_one_network_and_see_themselves_alone() -> None:
    """An agent's values are a function of its own part and of which one it is."""
    policy = team()
    network, obs = network_of(policy), observations(policy, 5)
    with torch.no_grad():
        found = network.q_values(features_of(policy, obs))
        for row, agent in product(range(5), range(AGENTS)):
            own = torch.from_numpy(obs["agents"][row, agent])
            alone = network.agents.q_values(torch.cat([own, torch.eye(AGENTS)[agent]]))
            torch.testing.assert_close(found[row, agent], alone)
        obs["state"] = obs["state"] + 1
        assert torch.equal(network.q_values(features_of(policy, obs)), found)
        assert torch.equal(network.states(features_of(policy, obs)), torch.from_numpy(obs["state"]))


def test_without_a_state_it_is_what_all_see() -> None:
    space = spaces.Dict({"agents": spaces.Box(-1, 1, (2, 3), np.float32)})
    module = {"type": "team_q"}
    policy = Policy(space, spaces.MultiDiscrete([2, 2]), module=module, seed=0)
    obs = observations(policy, 4)
    states = network_of(policy).states(features_of(policy, obs))
    np.testing.assert_array_equal(states, obs["agents"].reshape(4, 6))


def test_masks_are_of_each_agent() -> None:
    policy = team(action_mask=spaces.Box(0, 1, (AGENTS * ACTIONS,), np.int8))
    obs = observations(policy, 20)
    mask = np.random.default_rng(0).random((20, AGENTS, ACTIONS)) < 0.5
    mask[..., 1] = True
    obs["action_mask"] = mask.reshape(20, -1).astype(np.int8)
    network = network_of(policy)
    q_values = network.q_values(features_of(policy, obs))
    np.testing.assert_array_equal(q_values.detach().numpy() != ILLEGAL, mask)
    policy.set_exploration(epsilon=1.0)
    for _ in range(20):
        actions = np.asarray(policy.compute_actions(obs, explore=True))
        assert np.take_along_axis(mask, actions[..., None], 2).all()


def test_each_agent_explores_by_itself() -> None:
    """With epsilon 0.5 of two agents one explores without the other half of the time."""
    distribution = TeamEpsilonGreedy(2, 100)
    distribution.epsilon = 0.5
    inputs = torch.zeros(20_000, 200)
    inputs[:, [0, 100]] = 1.0  # the first action is best
    actions = distribution.sample(inputs, torch.Generator().manual_seed(0))
    explored = (actions != 0).double()
    assert explored.mean(0).tolist() == pytest.approx([0.495, 0.495], abs=0.02)
    assert (explored[:, 0] != explored[:, 1]).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert torch.equal(distribution.mode(inputs), torch.zeros(20_000, 2, dtype=torch.int64))
    logp = distribution.logp(inputs, torch.tensor([[0, 7]]).expand(20_000, -1))[0]
    assert logp.exp().item() == pytest.approx(0.505 * 0.005)


@pytest.mark.parametrize("memory", ["use_gru", "use_lstm"])
def test_a_memory_is_each_agents_own(memory: str) -> None:
    """Of a sequence, the values of an agent are those of its network alone."""
    policy = team(model={memory: True, "lstm_cell_size": 4})
    network = network_of(policy)
    features = some(6, 5, AGENTS * 2 + 5)
    is_first = torch.zeros(6, 5, dtype=torch.bool)
    is_first[3, 2] = True
    with torch.no_grad():
        together, after = network.unroll_logits(features, network.initial_state(5), is_first)
        seen = network.agents_features(features)
        assert isinstance(seen, torch.Tensor)
        for agent in range(AGENTS):
            start = network.agents.initial_state(5)
            alone, last = network.agents.unroll_logits(seen[:, :, agent], start, is_first)
            torch.testing.assert_close(together[:, :, agent], alone)
            for name, part in last.items():
                torch.testing.assert_close(after[name][:, agent], part)


def test_what_no_team_has_is_refused(golden: Golden) -> None:
    cases = [
        (spaces.Box(0, 1, (3,)), spaces.MultiDiscrete([2, 3])),
        (spaces.Box(0, 1, (3,)), spaces.Box(0, 1, (3,))),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Discrete(2)),
        (spaces.Dict({"agents": spaces.Box(0, 1, (3,))}), spaces.MultiDiscrete([2, 2])),
    ]
    golden(
        "team_q/what_no_team_has_is_refused",
        refusals(
            lambda space, action_space: Policy(space, action_space, module={"type": "team_q"}),
            cases,
        ),
    )
