"""What the base class of algorithms offers by itself, or says is to be written."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from trainables import PPO, Algorithm, PPOConfig
from trainables.core.errors import ConfigError


class Idle(Algorithm):
    config_class = PPOConfig


def test_without_a_training_step_one_error_says_what_to_write() -> None:
    message = r"Idle has no training_step\. To learn as PPO does, subclass it: `class Idle\(PPO\)`"
    with Idle(PPOConfig().environment("CartPole-v1")) as algo:
        with pytest.raises(NotImplementedError, match=message):
            algo.train()
        assert algo.evaluate()["num_episodes"] == 10  # all else works


def test_merged_configs_keep_unknown_names_where_they_may() -> None:
    first: dict[str, Any] = {"num_sgd_iter": 3, "model": {"fcnet_hiddens": [8]}, "mine": {"a": 1}}
    second: dict[str, Any] = {"lr": 0.1, "model": {"use_lstm": True}, "mine": {"b": 2}, "more": 3}
    merged = PPO.merge_trainer_configs(first, second, _allow_unknown_configs=True)
    assert merged == {
        "num_epochs": 3,
        "lr": 0.1,
        "model": {"fcnet_hiddens": [8], "use_lstm": True},
        "mine": {"a": 1, "b": 2},
        "more": 3,
    }
    assert first["mine"] == {"a": 1}
    for allow in (None, False):
        with pytest.raises(ConfigError, match="'mine'"):
            PPO.merge_trainer_configs(first, second, _allow_unknown_configs=allow)
    with pytest.raises(ConfigError, match="eager_max_retraces"):  # known, and never taken
        PPO.merge_trainer_configs({}, {"eager_max_retraces": 7}, _allow_unknown_configs=True)


@pytest.mark.parametrize("name", ["record_env", "monitor"])
def test_a_missing_video_extra_is_found_before_a_trial(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=r"record_env needs imageio-ffmpeg.*tunescape\[video\]"):
        PPO.default_resource_request({"env": "CartPole-v1", name: True})
    PPO.default_resource_request({"env": "CartPole-v1"})
