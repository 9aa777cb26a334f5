"""`DEFAULT_CONFIG` of each algorithm: code of the reference's older form begins with a copy."""

from __future__ import annotations

import copy
import importlib
import pickle

import pytest
from every_row import check_rows

from trainables.core.config.reference.compatibility import ALIASES
from trainables.core.config.reference.default_config import DefaultConfig
from trainables.ppo import DEFAULT_CONFIG, PPO
from trainables.registry import algorithm_names, get_algorithm


def test_every_algorithm_has_one_that_loads() -> None:
    def check(name: str) -> None:
        kind = get_algorithm(name)
        module = importlib.import_module(kind.__module__)
        config = kind.config_class.from_dict(module.DEFAULT_CONFIG)
        assert config.to_dict() == kind.config_class().to_dict()
        with pytest.raises(AttributeError, match=f"'{kind.__module__}' has no attribute 'NO_SUCH'"):
            _ = module.NO_SUCH

    check_rows(check, algorithm_names())


def test_every_algorithm_is_imported_from_the_module_of_its_name() -> None:
    def check(name: str) -> None:
        module = importlib.import_module(f"trainables.{name.lower()}")
        assert getattr(module, name) is get_algorithm(name)
        assert getattr(module, f"{name}Config") is get_algorithm(name).config_class

    check_rows(check, algorithm_names())


def test_the_older_way_to_train() -> None:
    config = DEFAULT_CONFIG.copy()
    config["num_gpus"] = 0
    config["num_workers"] = 0
    config["train_batch_size"] = 128
    config["sgd_minibatch_size"] = 64
    config.update({"num_sgd_iter": 1, "lr_schedule": None, "lambda": 0.9})
    config["model"]["fcnet_hiddens"] = [8]
    algo = PPO(config=config, env="CartPole-v1")
    assert algo.config.train_batch_size_per_learner == 128
    assert (algo.config.num_epochs, algo.config.lambda_) == (1, 0.9)
    assert algo.config.model == {"fcnet_hiddens": [8]}
    algo.train()
    algo.stop()


def test_nothing_is_shared() -> None:
    module = importlib.import_module("trainables.ppo")
    module.DEFAULT_CONFIG["model"]["fcnet_hiddens"] = [8]
    assert module.DEFAULT_CONFIG["model"] == {}
    first = DEFAULT_CONFIG.copy()
    first["model"]["fcnet_hiddens"] = [8]
    assert DEFAULT_CONFIG["model"] == {} == (DEFAULT_CONFIG | {"lr": 0.1})["model"]


def test_an_older_name_is_another_name_of_the_entry() -> None:
    config = DefaultConfig({"num_env_runners": 0})
    config["num_workers"] = 3
    assert dict(config) == {"num_env_runners": 3} and "num_workers" in config
    assert config["num_rollout_workers"] == config.get("num_workers") == 3
    assert dict(config | {"num_workers": 4}) == {"num_env_runners": 4}
    assert config.get("no_such", 7) == 7
    assert pickle.loads(pickle.dumps(config)) == copy.copy(config) == config
    assert not set(ALIASES) & set(DEFAULT_CONFIG.keys())
