"""`evaluation_config` as a config object: what was set in it and differs from the training's."""

from __future__ import annotations

import pytest

from trainables import DQNConfig, PPOConfig
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError


def training() -> PPOConfig:
    return PPOConfig().environment("CartPole-v1").training(lr=1e-2, gamma=0.9)


def test_what_differs_counts() -> None:
    changed = training().environment(env_config={"sutton_barto_reward": True})
    changed.exploration(explore=False)
    config = training().evaluation(evaluation_interval=1, evaluation_config=changed)
    expected = {"env_config": {"sutton_barto_reward": True}, "explore": False}
    assert config.evaluation_config == expected
    assert config.get_evaluation_config_object().explore is False
    later = PPOConfig(evaluation_config=PPOConfig().exploration(explore=False))
    assert later.evaluation_config == {"explore": False}
    assert PPOConfig().evaluation(evaluation_config=PPOConfig()).evaluation_config == {}


def test_the_order_of_a_dict_does_not_matter() -> None:
    given = {"evaluation_config": training().exploration(explore=False), **training().to_dict()}
    given["evaluation_config"] = training().exploration(explore=False)
    assert PPOConfig.from_dict(given).evaluation_config == {"explore": False}
    assert PPOConfig.from_dict(
        {"evaluation_config": training().exploration(explore=False), "lr": 1e-2, "gamma": 0.9}
        | {"env": "CartPole-v1"}
    ).evaluation_config == {"explore": False}


def test_objects_of_other_classes() -> None:
    plain = AlgorithmConfig().exploration(explore=False)
    assert training().evaluation(evaluation_config=plain).evaluation_config == {"explore": False}
    with pytest.raises(ConfigError, match="evaluation_config: dueling: not as in the training's"):
        training().evaluation(evaluation_config=DQNConfig().training(dueling=False))


def test_what_has_no_effect_is_named_shortly() -> None:
    changed = training().training(lr=1e-3, gamma=0.5).exploration(explore=False)
    with pytest.raises(ConfigError) as refusal:
        training().evaluation(evaluation_config=changed)
    said = str(refusal.value)
    assert said.startswith("evaluation_config: gamma, lr: not as in the training's config, which")
    assert "allowed: env, env_config, explore, num_env_runners, num_envs_per_env_runner" in said
    assert len(said) < 300


def test_training_evaluates_with_it() -> None:
    changed = training().exploration(explore=False)
    config = training().evaluation(
        evaluation_interval=1, evaluation_duration=1, evaluation_config=changed
    )
    config.training(train_batch_size_per_learner=64, minibatch_size=64, num_epochs=1)
    with config.build() as algo:
        assert algo.train()["evaluation/episode_return_mean"] > 0


def test_clip_actions_is_a_training_setting_of_sac() -> None:
    from trainables import SACConfig

    assert SACConfig().training(clip_actions=True).clip_actions is True
    with pytest.raises(ConfigError, match=r"'clip_actions' is not a setting of .training\(\)"):
        PPOConfig().training(clip_actions=True)
