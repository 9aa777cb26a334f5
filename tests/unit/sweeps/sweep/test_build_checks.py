"""What no trial could be built of is found before a sweep, and by `--dry-run`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from broken_envs import NAME
from refusals import Golden, refusals

from experiments.sweep import build_checks, load
from experiments.sweep.load import load_spec, make_spec
from search_spaces.documents import SpecError

BUILDS = True

CARTPOLE, PENDULUM = {"env": "CartPole-v1"}, {"env": "Pendulum-v1"}
AGENTS = {"env": "multi_agent_cartpole", "policies": ["a", "b"]}
NO_MODEL = "torch.nn:Linear"  # needs what it is not given


def spec(**keys: Any) -> None:
    make_spec({"name": "s", "stop": {"training_iteration": 1}, **keys})


WRONG: list[dict[str, Any]] = [
    {"trainable": "DQN", "config": PENDULUM},
    {"config": {**AGENTS, "policy_mapping_fn": {"agent_0": "a"}}},
    {"config": {**CARTPOLE, "model": {"custom_model": NO_MODEL}}},
    {"config": CARTPOLE, "search_space": {"model.custom_model": {"choice": [None, NO_MODEL]}}},
    {"config": CARTPOLE, "search_space": {"model.conv_filters": {"grid": [[[16, 4, 2]]]}}},
    {"trainable": "DQN", "search_space": {"env": {"grid": ["CartPole-v1", "Pendulum-v1"]}}},
    {
        "config": CARTPOLE,
        "search_space": {
            "model.use_lstm": {"choice": [False, True]},
            "model.custom_model": {"choice": [NO_MODEL], "when": {"model.use_lstm": True}},
        },
    },
]


def test_what_cannot_be_built_is_one_error(golden: Golden) -> None:
    golden("sweeps/unbuildable", refusals(lambda keys: spec(**keys), WRONG, SpecError))


def test_the_error_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("config:\n  env: CartPole-v1\nsearch_space:\n"
        f"  lr: {{uniform: [0, 1]}}\n  model.custom_model: {{grid: ['{NO_MODEL}']}}\n")  # fmt: skip
    with pytest.raises(SpecError, match=r"s\.yaml:5: search_space\.model\.custom_model = 'torch"):
        load_spec(file)


def test_a_value_that_goes_with_some_of_the_others_passes() -> None:
    envs = {"env": {"grid": ["CartPole-v1", "Pendulum-v1"]}}
    filters = {"model.fcnet_hiddens": {"choice": [[8], [16]]}}
    spec(search_space=envs | filters)


def test_how_many_environments_are_made_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "check_env", lambda *_: None)
    monkeypatch.setattr(build_checks, "MOST", 2)
    made = tmp_path / "made"
    hows = {"env_config.how": {"choice": ["a", "b", "c", "d"]}}
    spec(config={"env": NAME, "env_config": {"made": str(made)}}, search_space=hows)
    assert len(made.read_text().splitlines()) == 2


def test_nothing_is_built_for_a_cluster() -> None:
    spec(trainable="DQN", config=PENDULUM, resources={"address": "auto"})


def test_it_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large is not waited for, and long lists are not tried to their end."""

    def slow(*_: Any) -> str:
        time.sleep(60)
        return "[]"

    start = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(build_checks, "_problems", slow)
        patch.setattr(build_checks, "LIMIT_S", 0.2)
        spec(config=CARTPOLE)
    monkeypatch.setattr(build_checks, "BUDGET_S", 0.0)
    spec(config=CARTPOLE, search_space={"model.custom_model": {"choice": [None, NO_MODEL]}})
    assert time.monotonic() - start < 10
