"""What an algorithm refuses after `stop()`, before it touches anything; and how it is reset."""

from __future__ import annotations

import gc
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_row import check_rows
from own_algorithms import SMALL, MyConfig, MyPPO

from trainables import PPO, Algorithm, DQNConfig, PPOConfig
from trainables.core.errors import ConfigError
from trainables.lifecycle.folder_trainable import StoppedError

OBS = np.zeros(4, np.float32)
CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "train()": lambda algo, folder: algo.train(),
    "step()": lambda algo, folder: algo.step(),
    "sample()": lambda algo, folder: algo.sample(),
    "evaluate()": lambda algo, folder: algo.evaluate(),
    "save()": lambda algo, folder: algo.save(str(folder)),
    "save_checkpoint()": lambda algo, folder: algo.save_checkpoint(str(folder)),
    "restore()": lambda algo, folder: algo.restore(str(folder)),
    "load_checkpoint()": lambda algo, folder: algo.load_checkpoint(str(folder)),
    "get_state()": lambda algo, folder: algo.get_state(),
    "set_state()": lambda algo, folder: algo.set_state({}),
    "set_weights()": lambda algo, folder: algo.set_weights(algo.get_weights()),
    "compute_single_action()": lambda algo, folder: algo.compute_single_action(OBS),
    "compute_actions()": lambda algo, folder: algo.compute_actions(OBS[None]),
    "reset()": lambda algo, folder: algo.reset(SMALL),
    "reset_config()": lambda algo, folder: algo.reset_config(SMALL),
    "env_runners": lambda algo, folder: algo.env_runners.foreach_worker(len),
    "workers": lambda algo, folder: algo.workers.foreach_worker(len),
    "learners": lambda algo, folder: algo.sync_weights(),
    "eval_env_runner_group": lambda algo, folder: algo.eval_env_runner_group,
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Algorithm, Path]:
    folder = tmp_path_factory.mktemp("stopped") / "c"
    with PPO(config=SMALL) as algo:
        algo.train()
        algo.save(str(folder))
    return algo, folder


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_call_after_stop_is_refused_and_touches_nothing(stopped: tuple[Algorithm, Path]) -> None:
    def check(call: str) -> None:
        algo, folder = stopped
        before = digests(folder)
        assert before
        name = call.replace("(", r"\(").replace(")", r"\)")
        says = rf"^PPO\.{name}: it was stopped \(by stop\(\).*PPO\.from_checkpoint\(folder\)"
        with pytest.raises(StoppedError, match=says):
            CALLS[call](algo, folder)
        assert digests(folder) == before
        assert algo.iteration == 1

    check_rows(check, CALLS)


def test_what_was_learned_can_be_read_after_stop(stopped: tuple[Algorithm, Path]) -> None:
    algo, folder = stopped
    algo.stop()  # twice is fine
    assert algo.get_policy().compute_single_action(OBS) in (0, 1)
    assert algo.get_weights()["default_policy"]
    assert not hasattr(algo, "env_runners")
    with PPO.from_checkpoint(folder) as again:
        assert again.train()["training_iteration"] == 2


def test_an_empty_log_folder_goes_with_the_algorithm() -> None:
    with PPO(config=SMALL) as stopped, PPO(config=SMALL) as used:
        Path(used.logdir, "notes.txt").touch()
    left = PPO(config=SMALL)
    folders = [Path(algo.logdir) for algo in (stopped, used, left)]
    left.cleanup()
    assert [folder.is_dir() for folder in folders] == [False, True, True]
    del left
    gc.collect()
    assert not folders[2].exists()
    shutil.rmtree(folders[1])


def test_a_method_of_ones_own_need_not_look() -> None:
    with MyPPO(config=SMALL) as algo:
        pass
    with pytest.raises(StoppedError, match=r"MyPPO\.sample\(\): it was stopped"):
        algo.training_step()


def test_a_buffered_train_is_refused_as_the_table_says() -> None:
    with PPO(config=SMALL) as algo:
        with pytest.raises(AttributeError, match=r"PPO\.train_buffered is not supported: call tr"):
            algo.train_buffered(1.0, 2)
        assert algo.iteration == 0


# ------------------------------------------------------------------ reset


@pytest.mark.parametrize("method", ["reset", "reset_config"])
def test_a_reset_takes_a_config_object(method: str) -> None:
    with PPO(config=SMALL) as algo:
        algo.train()
        config = PPOConfig.from_dict({**SMALL, "lr": 0.25, "env": "Acrobot-v1"})
        assert getattr(algo, method)(config) is True
        assert (algo.config.lr, algo.config.env) == (0.25, "Acrobot-v1")
        assert not config.is_frozen
        assert algo.train()["num_env_steps_sampled_lifetime"] > 0
        getattr(algo, method)(MyConfig(bonus=2.0).update_from_dict(SMALL))
        assert (type(algo.config), algo.config.bonus) == (MyConfig, 2.0)
        getattr(algo, method)(dict(SMALL, lr=0.5))
        assert algo.config.lr == 0.5


def test_a_reset_that_is_refused_leaves_everything() -> None:
    with PPO(config=SMALL) as algo:
        with pytest.raises(ConfigError, match="lr"):
            algo.reset({**SMALL, "lr": -1})
        with pytest.raises(ConfigError, match="a DQNConfig is given; allowed: PPOConfig, dict"):
            algo.reset(DQNConfig())
        assert algo.config.lr == PPOConfig().lr
        assert algo.train()["training_iteration"] == 1


def test_a_reset_that_fails_says_so_afterwards() -> None:
    with PPO(config=SMALL) as algo:
        with pytest.raises(ConfigError, match="NoSuch-v7"):
            algo.reset({**SMALL, "env": "NoSuch-v7"})
        with pytest.raises(StoppedError, match=r"train\(\): its last reset failed.*reset it again"):
            algo.train()
        algo.reset(SMALL)
        assert algo.train()["training_iteration"] == 1


# ------------------------------------------------------------------ a config is like a dict


def test_a_config_is_iterated_like_a_dict() -> None:
    config = PPOConfig(lr=0.1)
    names = list(config)
    assert names == list(config.keys()) == [name for name in config]
    assert len(config) == len(names) == len(PPOConfig.settings())
    assert dict(config) == {**config} == config.to_dict()
    assert bool(config)
    assert "lr" in names
