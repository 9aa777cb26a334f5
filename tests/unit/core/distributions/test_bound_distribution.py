"""`policy.dist_class(inputs)` takes actions as lists and arrays, too."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from every_row import check_rows
from gymnasium import spaces

from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy

SPACES: list[tuple[Any, str, dict[str, Any]]] = [
    (spaces.Discrete(3), "actor_critic", {}),
    (spaces.MultiDiscrete([2, 3]), "actor_critic", {}),
    (spaces.MultiBinary(2), "actor_critic", {}),
    (spaces.Box(-1, 1, (2,), np.float32), "actor_critic", {}),
    (spaces.Box(-1, 1, (2, 2), np.float32), "actor_critic", {"squash_actions": True}),
    (
        spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32))),
        "actor_critic",
        {},
    ),
    (spaces.Discrete(3), "q_network", {}),
]


@pytest.fixture(params=SPACES, ids=lambda case: f"{type(case[0]).__name__}-{case[1]}")
def policy(request: pytest.FixtureRequest) -> Policy:
    space, module, model = request.param
    observations: gym.Space[Any] = spaces.Box(-1, 1, (4,), np.float32)
    options = {"fcnet_hiddens": [8], **model}
    return Policy(observations, space, options, module={"type": module}, seed=0)


def test_actions_are_tensors_arrays_or_lists(policy: Policy) -> None:
    def check(num_rows: int) -> None:
        inputs = policy.forward(np.ones((num_rows, 4), np.float32))
        inputs = inputs if isinstance(inputs, torch.Tensor) else inputs[0]
        dist = policy.dist_class(inputs)
        actions = dist.sample(torch.Generator().manual_seed(0))
        expected = dist.logp(actions)
        assert expected.shape == (num_rows,)
        for given in (actions.numpy(), actions.tolist(), tuple(actions.tolist()), list(actions)):
            torch.testing.assert_close(dist.logp(given), expected)
        one = dist.logp(actions[0].tolist())  # for every row
        torch.testing.assert_close(one, dist.logp(actions[:1].expand_as(actions)))
        with pytest.raises(
            ConfigError, match=r"actions of shape \(5.* are not allowed; allowed: \("
        ):
            dist.logp([actions[0].tolist()] * 5)

    check_rows(check, [1, 3])


def test_narrow_integers_are_actions() -> None:
    policy = Policy(spaces.Box(-1, 1, (4,)), spaces.Discrete(3), {"fcnet_hiddens": [8]}, seed=0)
    dist = policy.dist_class(torch.zeros(1, 3))
    for given in ([1], np.array([1], np.uint8), torch.tensor([1], dtype=torch.int32), 1):
        torch.testing.assert_close(dist.logp(given), -torch.log(torch.tensor([3.0])))
