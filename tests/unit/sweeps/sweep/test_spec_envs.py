"""A sweep's environments are tried before it starts, where they can do no harm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from broken_envs import NAME

from experiments.errors import SpecWarning
from experiments.spec.schema import SweepSpec
from experiments.sweep import env_checks
from experiments.sweep.load import make_spec
from search_spaces.documents import SpecError


def spec(**keys: Any) -> SweepSpec:
    return make_spec({"name": "s", "trainable": "PPO", "stop": {"training_iteration": 1}, **keys})


WRONG = [
    ("dtype", "reset's observation has dtype float64, the space has float32"),
    ("shape", r"reset's observation has shape \(3,\), the space has \(2,\)"),
    ("range", r"reset's observation is 5.0 at \[0\], the space has \[-1.0, 1.0\] there"),
    ("reward", "step's reward is nan"),
    ("tuple", "step returns 4 values"),
    ("reset", "reset raised OSError: no connection"),
    ("make", "cannot be made with env_config={'how': 'make'}: KeyError: 'map'"),
    ("crash", "ended the process that it was tried in: SIGKILL"),
    ("exit", "ended the process that it was tried in: exit status"),
]


@pytest.mark.parametrize(("how", "message"), WRONG, ids=[how for how, _ in WRONG])
def test_one_error_names_the_environment_and_what_is_wrong(how: str, message: str) -> None:
    with pytest.raises(SpecError, match=rf"config.env: env '{NAME}'.*{message}"):
        spec(config={"env": NAME, "env_config": {"how": how}})


def test_an_environment_that_takes_no_seed_is_refused() -> None:
    with pytest.raises(SpecError, match="reset takes no seed"):
        spec(config={"env": "broken_envs:Unseeded"})


def test_one_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_checks, "LIMIT_S", 0.5)
    config = {"env": NAME, "env_config": {"how": "hang"}}
    with pytest.raises(SpecError, match=r"was not made, reset and stepped within 0\.5 s"):
        spec(config=config)
    spec(config={**config, "disable_env_checking": True})  # slow ones are let pass


def test_the_check_can_be_left_out() -> None:
    spec(config={"env": NAME, "env_config": {"how": "dtype"}, "disable_env_checking": True})


def test_it_is_tried_in_another_process(tmp_path: Path) -> None:
    made = tmp_path / "made"
    spec(config={"env": NAME, "env_config": {"made": str(made)}})
    lines = made.read_text().splitlines()
    assert lines and os.getpid() not in [int(line.split()[1]) for line in lines]


def test_every_environment_of_the_search_space_is_tried(tmp_path: Path) -> None:
    config = {"env": NAME, "env_config": {"made": str(tmp_path / "made")}}
    hows = {"env_config.how": {"choice": ["range", "dtype"]}}
    with pytest.raises(SpecError, match=r"search_space.env_config.how: env .* is 5.0 at"):
        spec(config=config, search_space=hows)
    envs = {"env": {"grid": ["CartPole-v1", "broken_envs:Unseeded"]}}
    with pytest.raises(SpecError, match=r"search_space\.env: env 'broken_envs:Unseeded'"):
        spec(search_space=envs)
    # A setting that only one of the environments has.
    envs = {"env": {"choice": ["CartPole-v1", NAME]}}
    hows = {"env_config.how": {"choice": ["range", "shape"], "when": {"env": NAME}}}
    with pytest.raises(SpecError, match=rf"search_space.env: env '{NAME}' does not keep"):
        spec(search_space=envs | hows)


def test_one_that_fails_with_some_settings_only_is_a_warning() -> None:
    hows = {"env_config.how": {"choice": ["nothing", "shape"]}}
    with pytest.warns(SpecWarning, match=r"env_config.how: env .* shape \(3,\).*would fail"):
        spec(config={"env": NAME}, search_space=hows)


def test_the_environment_of_evaluations_is_tried_too() -> None:
    config = {"env": NAME, "evaluation_config": {"env_config": {"how": "make"}}}
    spec(config=config)  # nothing is evaluated
    with pytest.raises(SpecError, match=r"config.evaluation_config: env .* cannot be made"):
        spec(config={**config, "evaluation_interval": 1})


def test_how_many_are_tried_is_bounded(tmp_path: Path) -> None:
    made = tmp_path / "made"
    config = {"env": NAME, "env_config": {"made": str(made)}}
    spec(config=config, search_space={"env_config.how": {"choice": [f"{n}" for n in range(40)]}})
    assert len(made.read_text().splitlines()) <= env_checks.MOST


def test_on_a_cluster_it_is_not_tried_here() -> None:
    spec(
        config={"env": NAME, "env_config": {"how": "crash"}}, resources={"address": "10.0.0.1:6379"}
    )
