"""How much actions change where a number of the observation is another step's."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from tests.recorded_mdp import Rows
from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.feature_importance import FeatureImportance
from trainables.core.estimation.target_policy import TargetPolicy
from trainables.core.policy.policy import Policy

STEPS = 500


def importance(action_space: gym.Space, weights: list[float], **options: Any) -> dict[str, float]:
    """Of a policy whose first output is a linear function of three features."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(STEPS + 1, 3)).astype(np.float32)
    policy = Policy(
        gym.spaces.Box(-10, 10, (3,)), action_space, model={"fcnet_hiddens": []}, seed=0
    )
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.zero_()
        for parameter in policy.module.parameters():
            if parameter.dim() == 2 and parameter.shape[1] == 3 and parameter.shape[0] > 1:
                parameter[0] = torch.tensor(weights)
    is_first = np.zeros(STEPS + 1, bool)
    rows = Rows(obs, np.zeros((STEPS + 1,), np.int64), is_first)
    ends = np.zeros(STEPS, bool)
    lengths = np.array([STEPS])
    recorded = RecordedEpisodes(
        "steps", rows, np.arange(STEPS), lengths, np.zeros(STEPS), ends, np.zeros(STEPS), 0.9
    )
    target = TargetPolicy(policy, False, rows)
    return FeatureImportance.of(options).evaluate(recorded, target, np.random.default_rng(1))


def test_choices() -> None:
    found = importance(gym.spaces.Discrete(2), [1.0, 0.0, 0.0], repeat=3)
    assert found["feature_1"] == found["feature_2"] == 0
    assert found["feature_0"] == pytest.approx(0.5, abs=0.05)  # half of the signs change


def test_numbers() -> None:
    found = importance(gym.spaces.Box(-1, 1, (2,)), [0.2, 0.1, 0.0], limit_fraction=0.9)
    # E|x - x'| of two independent normal numbers is 2 / sqrt(pi); the second action stays 0.
    expected = 0.2 * 2 / np.sqrt(np.pi) / 2
    assert found["feature_0"] == pytest.approx(expected, rel=0.15)
    assert found["feature_1"] == pytest.approx(expected / 2, rel=0.15)
    assert found["feature_2"] == 0


def test_other_observations_are_refused() -> None:
    from tests.recorded_mdp import Mdp

    mdp = Mdp()
    recorded = mdp.record(3, 0)
    with pytest.raises(ConfigError, match="needs observations of one Box"):
        target = mdp.target_policy(recorded)
        FeatureImportance().evaluate(recorded, target, np.random.default_rng(0))
