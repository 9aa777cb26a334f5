"""A trial's dict may have a setting by two names: what a scheduler added later is what is meant."""

from __future__ import annotations

from typing import Any

import pytest
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.schedulers.pbt import _fill_config

from trainables import PPO, IMPALAConfig, PPOConfig, SACConfig
from trainables.core.errors import ConfigError
from trainables.lifecycle.configuring import with_one_name_each

OBJECT = PPOConfig().environment("CartPole-v1").training(train_batch_size_per_learner=256)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (OBJECT.to_dict(), {"train_batch_size": 512}),
        ({"train_batch_size_per_learner": 256}, {"train_batch_size": 512}),
        ({"train_batch_size": 256}, {"train_batch_size_per_learner": 512}),
    ],
)
def test_the_later_name_counts(given: dict[str, Any], added: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="given twice"):
        PPOConfig.from_dict({**given, **added})
    config = PPOConfig.from_dict(with_one_name_each(PPOConfig, {**given, **added}))
    assert config.train_batch_size_per_learner == 512
    assert config.to_dict() == PPOConfig.from_dict(given).update_from_dict(added).to_dict()


def test_every_older_name_that_ray_mutates() -> None:
    """As Ray fills a trial's dict, from a config object."""
    scheduler = PopulationBasedTraining(
        hyperparam_mutations={
            "train_batch_size": [512, 1024],
            "num_sgd_iter": [3, 4],
            "sgd_minibatch_size": [32, 64],
            "lambda": tune.uniform(0.5, 0.6),
            "lr_schedule": [[[0, 1e-3], [1000, 1e-4]]],
            "entropy_coeff_schedule": [[[0, 0.1], [1000, 0.0]]],
        },
        metric="episode_reward_mean",
        mode="max",
    )
    trial = Trial("PPO", config=OBJECT.to_dict(), stub=True)
    for attribute, domain in scheduler._hyperparam_mutations.items():
        _fill_config(trial.config, attribute, domain)
    config = PPOConfig.from_dict(with_one_name_each(PPOConfig, trial.config))
    assert config.train_batch_size_per_learner == trial.config["train_batch_size"] >= 512
    assert config.num_epochs == trial.config["num_sgd_iter"]
    assert config.minibatch_size == trial.config["sgd_minibatch_size"]
    assert config.lambda_ == trial.config["lambda"] < 0.95
    assert config.lr == [[0, 1e-3], [1000, 1e-4]]
    assert config.entropy_coeff == [[0, 0.1], [1000, 0.0]]
    assert PPO.default_resource_request(trial.config).bundles == [{"CPU": 1}]


def test_names_that_stand_for_several_settings() -> None:
    """As a scheduler adds them to what a config object has."""
    impala = IMPALAConfig().training(momentum=0.5, opt_type="rmsprop").to_dict()
    given = with_one_name_each(IMPALAConfig, {**impala, "momentum": 0.9})
    optimizer = IMPALAConfig.from_dict(given).optimizer
    assert optimizer == {"momentum": 0.9, "type": "rmsprop"}
    rates = {"actor_learning_rate": 0.1, "critic_learning_rate": 0.2}
    sac = {**SACConfig().to_dict(), "optimization_config": rates}
    with pytest.raises(ConfigError, match="given twice"):
        SACConfig.from_dict(sac)
    config = SACConfig.from_dict(with_one_name_each(SACConfig, sac))
    assert (config.actor_lr, config.critic_lr) == (0.1, 0.2)
    assert config.alpha_lr == SACConfig().alpha_lr


def test_what_a_running_trial_cannot_change_is_an_error_as_ever() -> None:
    given = {"num_workers": 1, "num_env_runners": 2}
    assert with_one_name_each(PPOConfig, given) == given
    with pytest.raises(ConfigError, match="'num_env_runners' is given twice"):
        PPO.default_resource_request(given)


def test_outside_tune_two_names_are_an_error() -> None:
    with pytest.raises(ConfigError, match="'num_epochs' is given twice"):
        PPO(config={"env": "CartPole-v1", "num_epochs": 2, "num_sgd_iter": 3})
