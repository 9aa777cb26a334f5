"""What a trial asks Ray for, and which bundle each of its actors gets."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from placed import PlacedOnFakeGPU
from ray.tune import PlacementGroupFactory

from trainables import DQNConfig, PPOConfig
from trainables.core.errors import ConfigError
from trainables.ppo import PPO
from trainables.runtime.actors.bundles import (
    ENV_RUNNERS,
    LEARNERS,
    Bundles,
)
from trainables.runtime.actors.feasibility import placement_problem
from trainables.runtime.metrics import reserved


def test_the_example_of_the_reference() -> None:
    config = PPOConfig().resources(num_gpus=1).rollouts(num_rollout_workers=2)
    request = PPO.default_resource_request(config)
    assert request.bundles == [{"GPU": 1, "CPU": 1}, {"CPU": 1}, {"CPU": 1}]
    assert PPO.default_resource_request(config.to_dict()) == request


def test_every_role_has_its_bundles_in_order() -> None:
    config = (
        PPOConfig()
        .env_runners(num_env_runners=2, num_gpus_per_env_runner=0.25)
        .env_runners(custom_resources_per_env_runner={"simulator": 1})
        .evaluation(evaluation_num_env_runners=1)
        .learners(num_learners=2, num_cpus_per_learner=3, num_gpus_per_learner=0.5)
        .resources(num_cpus_for_main_process=2, placement_strategy="SPREAD")
    )
    bundles = Bundles(config)
    request = bundles.request()
    env_runner = {"CPU": 1, "GPU": 0.25, "simulator": 1}
    learner = {"CPU": 3, "GPU": 0.5}
    assert request.bundles == [{"CPU": 2}, *[env_runner] * 3, learner, learner]
    assert request.strategy == "SPREAD"
    assert [bundles.first_index(role) for role in bundles.roles] == [0, 1, 3, 4]
    text = bundles.help()
    assert "1 driver of 2 CPU (num_cpus_for_main_process)" in text
    assert "2 env runners of 1 CPU, 0.25 GPU, 1 simulator (num_env_runners, " in text
    assert "2 learners of 3 CPU, 0.5 GPU (num_learners, " in text


@pytest.mark.parametrize("name", ["fake_gpus", "_fake_gpus"])
def test_faked_gpus_are_not_asked_for(name: str) -> None:
    """A machine without any could never place them."""
    faked = PPOConfig().resources(**{name: True}).env_runners(num_env_runners=1)
    in_process = faked.copy().learners(num_gpus_per_learner=0.5)
    assert Bundles(in_process).request().bundles == [{"CPU": 1}, {"CPU": 1}]
    apart = faked.copy().learners(num_learners=1, num_gpus_per_learner=1)
    apart.env_runners(num_gpus_per_env_runner=0.5)
    assert Bundles(apart).request().bundles == [{"CPU": 1}] * 3
    assert placement_problem(Bundles(apart).request().bundles, "PACK", [{"CPU": 3}]) is None
    only_gpu = PPOConfig().resources(num_gpus=1, fake_gpus=True, num_cpus_for_main_process=0)
    with pytest.raises(ConfigError, match="a trial without any resources cannot be scheduled"):
        Bundles(only_gpu).request()


def test_a_cluster_with_faked_gpus_can_be_asked_for_them() -> None:
    """For tests of where trials with GPUs are placed."""
    config = {"env": "CartPole-v1", "num_gpus_per_learner": 1, "fake_gpus": True}
    assert PPO.default_resource_request(config).bundles == [{"CPU": 1}]
    assert PlacedOnFakeGPU.default_resource_request(config).bundles == [{"CPU": 1, "GPU": 1}]


def test_several_gpus_of_one_learner_are_refused() -> None:
    """One of them would compute, the others would only be reserved."""
    advice = re.escape(
        "num_gpus_per_learner = 2 (num_gpus) is not allowed: a learner computes on one GPU, and "
        "has all of the model on it; for 2 GPUs set num_learners=2 and num_gpus_per_learner=1"
    )
    with pytest.raises(ConfigError, match=advice):
        PPOConfig().resources(num_gpus=2)
    with pytest.raises(ConfigError, match=r"for 1\.5 GPUs set num_learners=2 and num_gpus"):
        PPO.default_resource_request({"env": "CartPole-v1", "num_gpus_per_learner": 1.5})
    with pytest.raises(ConfigError, match="set num_learners=2"):
        DQNConfig().resources(num_gpus=2)
    with pytest.raises(ConfigError, match="for 4 GPUs set num_learners=4 and num_gpus_per_learner"):
        PPOConfig().resources(num_learner_workers=2, num_gpus_per_learner_worker=2)
    for amount in (0.25, 1):
        assert Bundles(PPOConfig().resources(num_gpus=amount)).request().bundles == [
            {"CPU": 1, "GPU": amount}
        ]
    two = PPOConfig().learners(num_learners=2, num_gpus_per_learner=1)  # what is advised
    assert Bundles(two).request().bundles == [{"CPU": 1}, *[{"CPU": 1, "GPU": 1}] * 2]


def test_who_needs_nothing_has_no_bundle() -> None:
    """Tune leaves an empty driver's bundle out, and Ray takes no empty one at all."""
    bundles = Bundles(
        PPOConfig().env_runners(num_env_runners=2).resources(num_cpus_for_main_process=0)
    )
    assert bundles.request().bundles == [{"CPU": 1}, {"CPU": 1}]
    assert bundles.first_index(ENV_RUNNERS) == 0
    idle = Bundles(
        PPOConfig()
        .env_runners(num_env_runners=2, num_cpus_per_env_runner=0)
        .evaluation(evaluation_num_env_runners=1)
        .learners(num_learners=1)
    )
    assert idle.request().bundles == [{"CPU": 1}, {"CPU": 1}]
    assert idle.options(ENV_RUNNERS).needs == {}
    assert (idle.first_index(LEARNERS), idle.options(LEARNERS).needs) == (1, {"CPU": 1})


def test_a_trial_without_any_resources_is_refused() -> None:
    config = PPOConfig().environment("CartPole-v1").resources(num_cpus_for_main_process=0)
    with pytest.raises(ConfigError, match="num_cpus_for_main_process = 0 and num_gpus_per_learner"):
        Bundles(config).request()
    config.learners(num_learners=1, num_gpus_per_learner=1, num_cpus_per_learner=0).validate()
    assert Bundles(config).request().bundles == [{"GPU": 1}]
    config.learners(num_learners=0, num_gpus_per_learner=0, num_cpus_per_learner=1)
    config.env_runners(num_env_runners=1).validate()
    assert Bundles(config).request().bundles == [{"CPU": 1}]


def test_resource_help_shows_the_request() -> None:
    text = PPO.resource_help({"env": "CartPole-v1", "num_env_runners": 3})
    assert "3 env runners of 1 CPU" in text
    assert "evaluation env runner" not in text  # there is none


def test_results_say_what_all_bundles_hold() -> None:
    request = PlacementGroupFactory([{"CPU": 2, "GPU": 0.5}, {"CPU": 1}, {"CPU": 1}])
    held = reserved(SimpleNamespace(trial_resources=request))
    assert held == {"num_cpus": 4.0, "num_gpus": 0.5}
    assert reserved(None) == {}  # outside Tune nothing is held
