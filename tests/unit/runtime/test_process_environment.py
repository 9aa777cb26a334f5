"""Environment variables of a trial's own process: set at set-up, and taken back."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from trainables import PPO, PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.process_environment import ProcessEnvironment, num_threads

SMALL = {"env": "CartPole-v1", "train_batch_size_per_learner": 64, "minibatch_size": 32}


def test_the_drivers_variables_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.delenv("SHAPE", raising=False)
    threads = torch.get_num_threads()
    given = {"COLOUR": "green", "SHAPE": "round", "OMP_NUM_THREADS": "2"}
    algo = PPO(config={**SMALL, "extra_python_environs_for_driver": given})
    assert (os.environ["COLOUR"], os.environ["SHAPE"]) == ("green", "round")
    assert torch.get_num_threads() == 2
    algo.reset_config({**SMALL, "extra_python_environs_for_driver": {"SHAPE": "square"}})
    assert (os.environ["COLOUR"], os.environ["SHAPE"]) == ("red", "square")
    assert torch.get_num_threads() == 1
    algo.stop()
    assert os.environ["COLOUR"] == "red"
    assert "SHAPE" not in os.environ
    torch.set_num_threads(threads)


@pytest.mark.parametrize("first", [0, 1])
def test_two_that_set_the_same_may_end_in_any_order(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "red")
    both = ProcessEnvironment(), ProcessEnvironment()
    both[0].set({"COLOUR": "green"})
    both[1].set({"COLOUR": "blue"})
    both[first].take_back()
    assert os.environ["COLOUR"] == ("blue", "green")[first]
    both[1 - first].take_back()
    assert os.environ["COLOUR"] == "red"


def test_a_set_up_that_fails_leaves_nothing() -> None:
    given = {"SHAPE": "round"}
    with pytest.raises(ValueError, match="no-such"):
        PPO(config={**SMALL, "env": "no-such-v0", "extra_python_environs_for_driver": given})
    assert "SHAPE" not in os.environ


def test_what_has_no_effect_is_refused() -> None:
    refused: list[tuple[str, dict[Any, Any], str]] = [
        ("worker", {"DEPTH": 3}, "'DEPTH': 3 is not allowed; .* strings"),
        ("worker", {1: "x"}, "strings"),
        ("driver", {"A=B": "x"}, "strings"),
        ("worker", {"OMP_NUM_THREADS": "0"}, "whole number >= 1"),
        ("worker", {"CUDA_VISIBLE_DEVICES": "0"}, "Ray sets it"),
        ("driver", {"PYTHONPATH": "/x"}, "has no effect.*for_worker"),
    ]
    for where, variables, reason in refused:
        name = f"extra_python_environs_for_{where}"
        config = PPOConfig().environment("CartPole-v1").python_environment(**{name: variables})
        with pytest.raises(ConfigError, match=f"{name}: .*{reason}"):
            config.validate()


def test_threads() -> None:
    assert num_threads({}, 0.5) == 1
    assert num_threads({}, 3.0) == 3
    assert num_threads({"OMP_NUM_THREADS": "2"}, 8) == 2
