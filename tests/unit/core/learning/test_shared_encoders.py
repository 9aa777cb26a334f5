"""Copies of one encoder: who takes over whose, and which networks can have one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from refusals import Golden, refusals

from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner
from trainables.core.learning.shared_encoders import SharedEncoders
from trainables.core.policy.policy import Policy

SIGHT, MOVES = Box(-1, 1, (3,), np.float32), Discrete(2)
APART = ("encoder.0.weight", "encoder.0.bias", "value_encoder.0.weight", "value_encoder.0.bias")


def policy(seed: int, moves: gym.Space = MOVES, sight: gym.Space = SIGHT, **model: Any) -> Policy:
    """One of which no weight, and no bias, is that of another seed."""
    made = Policy(sight, moves, {"fcnet_hiddens": [4], **model}, seed=seed)
    with torch.no_grad():
        for parameter in made.module.parameters():
            parameter.add_(1.0 + seed)
    return made


def equal(one: Policy, other: Policy) -> list[str]:
    ours, theirs = one.get_weights(), other.get_weights()
    return [name for name, value in ours.items() if np.array_equal(value, theirs.get(name))]


def test_encoders_are_handed_on_and_heads_are_not() -> None:
    policies = {m: policy(seed) for seed, m in enumerate("abcd")}
    before = policies["c"].get_weights()
    shared = SharedEncoders([["a", "b"], ["c", "d"]], policies)
    shared.hand_on("b")
    assert equal(policies["a"], policies["b"]) == [*APART]
    assert equal(policies["c"], policies["d"]) == []
    for name, value in policies["c"].get_weights().items():
        assert np.array_equal(value, before[name])


def test_one_of_no_group_hands_on_nothing() -> None:
    policies = {m: policy(seed) for seed, m in enumerate("abc")}
    SharedEncoders([["a", "b"]], policies).hand_on("c")
    assert equal(policies["a"], policies["b"]) == equal(policies["a"], policies["c"]) == []


def test_shared_layers_of_values_and_actions_of_other_kinds() -> None:
    one, other = policy(0, vf_share_layers=True), policy(1, Box(-1, 1, (2,)), vf_share_layers=True)
    SharedEncoders([["a", "b"]], {"a": one, "b": other}).hand_on("a")
    assert equal(one, other) == ["encoder.0.weight", "encoder.0.bias"]


def test_a_memory_is_part_of_the_encoder() -> None:
    one, other = policy(0, use_gru=True), policy(1, use_gru=True)
    SharedEncoders([["a", "b"]], {"a": one, "b": other}).hand_on("a")
    handed = {name.partition(".")[0] for name in equal(one, other)}
    assert handed == {"encoder", "value_encoder"}
    assert any("memory" in name for name in equal(one, other))


def test_what_a_learner_steps_is_what_was_handed_on() -> None:
    """Its parameters are views into one vector, which must stay the memory that it steps."""
    one, other = policy(0), policy(1)
    learner = Learner(other.module, {"type": "sgd"})
    learner.set_lr(1.0)
    SharedEncoders([["a", "b"]], {"a": one, "b": other}).hand_on("a")
    learner.update_step({}, lambda module, batch: (module.encoder[0].bias.sum(), {}))
    expected = one.get_weights()["encoder.0.bias"] - 1.0
    np.testing.assert_allclose(other.get_weights()["encoder.0.bias"], expected, rtol=1e-6)
    flat = learner.groups["all"]
    assert flat.vector.data_ptr() in [p.data_ptr() for p in other.module.parameters()]


@pytest.mark.parametrize(
    ("known", "source"),
    [((), "a"), ((["c"],), "c"), ((["c", "b"],), "b"), (([], ["c"]), "c"), ((["c"], ["b"]), "c")],
)
def test_whose_they_begin_with(known: Any, source: str) -> None:
    policies = {m: policy(seed) for seed, m in enumerate("abc")}
    weights = policies[source].get_weights()
    shared = SharedEncoders([["a", "b", "c"]], policies)
    others = [m for m in "abc" if m != source]
    assert shared.begin(*known) == {source: others}
    for own in policies.values():
        for name in APART:
            assert np.array_equal(own.get_weights()[name], weights[name])
    assert shared.begin(*known) == {source: []}


def test_buffers_are_handed_on() -> None:
    one, other = (policy(seed, custom_model=Counting) for seed in (0, 1))
    one.module.encoder.model.seen.fill_(3)
    SharedEncoders([["a", "b"]], {"a": one, "b": other}).hand_on("a")
    assert other.module.encoder.model.seen.item() == 3


class Counting(torch.nn.Module):
    """Has a buffer, as batch normalisation does."""

    def __init__(self, spec: Any):
        super().__init__()
        self.width = 4
        self.layer = torch.nn.Linear(spec.num_features, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.layer(features)


def test_networks_that_cannot_have_one(golden: Golden) -> None:
    cases = [
        ({}, {"sight": Box(-1, 1, (4,), np.float32)}),
        ({}, {"sight": Box(-2, 1, (3,), np.float32)}),
        ({}, {"fcnet_hiddens": [5]}),
        ({}, {"fcnet_activation": "relu"}),
        ({}, {"vf_share_layers": True}),
        (
            {"use_lstm": True, "lstm_use_prev_action": True},
            {"use_lstm": True, "lstm_use_prev_action": True, "moves": Discrete(3)},
        ),
    ]
    golden(
        "shared_encoders/networks_that_cannot_have_one",
        refusals(
            lambda one, other: SharedEncoders(
                [["a", "b"]], {"a": policy(0, **one), "b": policy(1, **other)}
            ),
            cases,
        ),
    )


def test_a_network_without_an_encoder() -> None:
    q = Policy(SIGHT, MOVES, {"fcnet_hiddens": [4]}, module={"type": "q_network"}, seed=0)
    with pytest.raises(ConfigError, match="'a', QNetwork, has no encoder"):
        SharedEncoders([["a", "b"]], {"a": q, "b": q})


def test_one_that_does_not_learn() -> None:
    with pytest.raises(ConfigError, match="'b' does not learn"):
        SharedEncoders([["a", "b"]], {"a": policy(0)})


def test_weights_that_somebody_gives() -> None:
    policies = {m: policy(seed) for seed, m in enumerate("abc")}
    shared = SharedEncoders([["a", "b"]], policies)
    weights = {m: own.get_weights() for m, own in policies.items()}
    shared.check_given({m: weights[m] for m in "ac"})
    with pytest.raises(ConfigError, match=r"'a' and 'b' have one encoder.*encoder\.0\.weight"):
        shared.check_given(weights)
    shared.begin()
    shared.check_given({m: own.get_weights() for m, own in policies.items()})  # other heads
