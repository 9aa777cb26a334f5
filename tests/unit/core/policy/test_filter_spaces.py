"""`MeanStdFilter` with nested observations: the vector part is scaled, all else stays as it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.policy_kinds import SPACES, settings_of
from trainables import Policy, PPOConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.features import ACTION_MASK, VECTOR
from trainables.core.data.preprocessor import Preprocessor
from trainables.core.errors import ConfigError

KIND = settings_of("nested_and_masked") | {"num_envs_per_env_runner": 3}


def vectors(rollout: Rollout, num_rows: int) -> np.ndarray:
    """Of the first rows: two elements and a one-hot of three, by hand."""
    numbers, choice = rollout.obs["parts/0"][:num_rows], rollout.obs["parts/1"][:num_rows]
    return np.concatenate([numbers, np.eye(3)[choice - 1]], -1).reshape(-1, 5)


@pytest.fixture(scope="module")
def sampled() -> tuple[Policy, list[Rollout]]:
    """Two rollouts, after each of which the statistics were merged."""
    with PPOConfig.from_dict(KIND).build() as algorithm:
        rollouts = []
        for _ in range(2):
            rollouts.append(algorithm.sample()["default_policy"])
            algorithm.env_runners.sync_weights()
        return algorithm.get_policy(), rollouts


def test_statistics_count_every_frame_once(sampled: tuple[Policy, list[Rollout]]) -> None:
    """Also final observations, whose row is not trained on: a policy's values see them."""
    policy, rollouts = sampled
    assert policy.observations.filter is not None
    assert not all(rollout.valid.all() for rollout in rollouts)
    frames = np.concatenate([vectors(r, len(r.rewards)) for r in rollouts])
    moments = policy.observations.filter.moments
    assert moments.count == len(frames)
    np.testing.assert_allclose(moments.mean, frames.mean(0), rtol=1e-6)
    np.testing.assert_allclose(moments.std, frames.std(0, ddof=1), rtol=1e-6)


def test_the_vector_alone_is_scaled(sampled: tuple[Policy, list[Rollout]]) -> None:
    policy, rollouts = sampled
    obs = rollouts[1].obs
    features = policy.features(obs)
    assert isinstance(features, dict) and policy.observations.filter is not None
    moments = policy.observations.filter.moments
    expected = (vectors(rollouts[1], len(obs)) - moments.mean) / moments.std
    np.testing.assert_allclose(features[VECTOR].reshape(-1, 5), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(features["camera/rgb"], obs["camera/rgb"])
    np.testing.assert_array_equal(features[ACTION_MASK], obs["action_mask"] == 1)
    again = policy.features(obs)  # what was raw has not been scaled in place
    assert isinstance(again, dict)
    torch.testing.assert_close(again[VECTOR], features[VECTOR])


def test_images_alone_have_nothing_to_scale() -> None:
    assert Preprocessor(SPACES["image"]).num_features == 0
    with pytest.raises(ConfigError, match="'MeanStdFilter' has no effect on images"):
        Policy(SPACES["image"], SPACES["nested"]["parts"][1], observation_filter="MeanStdFilter")  # type: ignore[index]
