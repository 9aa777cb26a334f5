"""`workers.local_worker()`: the trial's own copy of what env runners in actors have."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.remote_workers import LocalWorker


def worker(push_policies: Any = None) -> LocalWorker:
    policy = Policy(Box(-1, 1, (2,)), Discrete(2), {"fcnet_hiddens": [4]}, seed=0)
    return LocalWorker(PPOConfig(), {DEFAULT_MODULE_ID: policy}, 3, push_policies)


def test_it_has_the_learners_policy() -> None:
    local = worker()
    assert local.worker_index == 0 and local.weights_version == 3 and local.env is None
    assert local.get_policy() is local.policy is local.policy_map["default_policy"]
    assert local.foreach_policy(lambda policy, policy_id: policy_id) == ["default_policy"]
    assert local.foreach_env(lambda env: env) == []
    assert local.foreach_env_with_context(lambda env, context: env) == []
    with pytest.raises(KeyError, match=r"no policy 'other'; there are \['default_policy'\]"):
        local.get_weights(["other"])


def test_weights_that_are_set_reach_learners() -> None:
    pushed: list[list[str]] = []
    local = worker(pushed.append)
    weights = {
        module_id: {name: np.zeros_like(part) for name, part in arrays.items()}
        for module_id, arrays in local.get_weights().items()
    }
    local.set_weights(weights)
    assert pushed == [["default_policy"]]
    assert not any(part.any() for part in local.get_weights()["default_policy"].values())
    with pytest.raises(ConfigError):
        local.set_weights({"default_policy": {}})
    with pytest.raises(KeyError, match="no policy 'other'"):
        local.set_weights({"other": {}})


def test_what_only_a_worker_with_environments_has_says_where_to_look() -> None:
    local: Any = worker()
    with pytest.raises(AttributeError, match=r"local_worker\(\)\.sample does not exist.*foreach_w"):
        local.sample()
    assert copy.copy(local).policy is local.policy
