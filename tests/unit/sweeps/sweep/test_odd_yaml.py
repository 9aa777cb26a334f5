"""Odd values anywhere in a spec: one message of ours with file and line, whatever is written."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import Golden, refusals

from analysis.errors import ResultsError
from experiments.errors import ExperimentError
from experiments.sweep import build_checks
from experiments.sweep.load import SpecError, load_specs
from trainables.core.errors import ConfigError

BUILDS = True

ENV = {"env": "CartPole-v1"}
STOP = {"num_env_steps_sampled_lifetime": 1000}
SPECS: dict[str, dict[str, Any]] = {
    "full": {
        "name": "s",
        "trainable": "PPO",
        "config": {
            **ENV,
            "env_config": {"max_episode_steps": 50},
            "lr_schedule": [[0, 0.1], [10, 0.01]],
            "model": {"fcnet_hiddens": [8], "fcnet_activation": "relu"},
            "optimizer": {"type": "adam", "eps": 1e-5},
            "clip_rewards": [-1, 1],
            "evaluation_interval": 2,
            "evaluation_config": {"explore": False},
            "exploration_config": {"type": "StochasticSampling"},
        },
        "search_space": {
            "gamma": {"uniform": [0.9, 0.99], "transform": None},
            "clip_param": {"choice": [0.1, 0.2]},
            "model": {"vf_share_layers": {"choice": [True, False]}},
            "num_epochs": {"randint": [1, 4], "when": {"clip_param": 0.1}},
        },
        "search": {"algorithm": "tpe", "points_to_evaluate": [{"gamma": 0.95}]},
        "scheduler": {"algorithm": "asha", "grace_period": 10, "max_t": 100},
        "objective": {"metric": "episode_return_mean", "mode": "max"},
        "stop": STOP,
        "num_samples": 4,
        "time_budget_s": 10,
        "seed": 1,
        "seeds": {"values": [1, 2], "parallel": "auto"},
        "final": {"top": 2, "seeds": 3},
        "resources": {"address": None, "num_cpus": 2, "custom": {"x": 1}},
        "checkpoint": {"num_to_keep": 2, "frequency": 1},
        "storage": "runs",
        "loggers": ["json"],
        "mlflow": {"tracking_uri": None, "tags": {"a": "b"}, "register_as": "m"},
    },
    "pbt": {
        "config": ENV,
        "search_space": {"lr": {"loguniform": [1e-5, 1e-3]}},
        "scheduler": {"algorithm": "pbt", "perturbation_interval": 100, "mutations": ["lr"]},
        "stop": STOP,
        "num_samples": 4,
    },
    "replay": {
        "config": ENV,
        "scheduler": {"algorithm": "pbt_replay", "schedule": [[0, {"lr": 0.1}], [10, {"lr": 0.2}]]},
        "stop": STOP,
    },
    "matrix": {
        "config": ENV,
        "stop": STOP,
        "matrix": {"trainable": ["PPO", "SAC"], "exclude": [{"trainable": "SAC"}]},
    },
    "off_policy": {
        "trainable": "DQN",
        "config": {**ENV, "replay_buffer_config": {"capacity": 1000}, "n_step": [1, 3]},
        "search_space": {"gamma": {"quniform": [0.9, 1.0, 0.1]}, "lr": {"grid": [0.1, 0.2]}},
        "objective": [{"metric": "episode_return_mean"}, {"metric": "time_total_s", "mode": "min"}],
        "stop": STOP,
    },
    "rllib": {
        "x": {
            "run": "DQN",
            "env": "CartPole-v1",
            "stop": {"timesteps_total": 10},
            "checkpoint_config": {"checkpoint_frequency": 1},
            "config": {"lr": {"grid_search": [0.1]}, "buffer_size": 3000, "horizon": 3},
        }
    },
}
ODD = (
    *("null", "[]", "{}", "[[]]", "{a: 1}", "[null]", "{null: 1}", "true", "''", "'[red]'"),
    *(".nan", ".inf", "-.inf", "-1", "0", "0.5", "1e308", "-1e308", f"1{'0' * 300}", str(2**64)),
    *("9" * 5000, f"0x{'f' * 2000}", "!!int abc", "!!bool abc", "!!binary aGk=", "!!timestamp x"),
    *("2024-13-45", "2024-01-01", '"\\u0000"', '"\\u200b"', '"\\ud800"', "x" * 5000, "'\u202e'"),
    *("/dev/null", "~nouser/x", "${env:NOPE}", "${", "a/b/c/d", "os:system", "http://x/y"),
    *("{uniform: [1, 0]}", "{uniform: []}", "{uniform: [0, .inf]}", "{randint: [0, 1e300]}"),
    *("{choice: []}", "{choice: {}}", "{choice: [[1], {a: b}, null]}", "{grid_search: 1}"),
    *("{uniform: [0, 1], when: {lr: null}}", "{uniform: [0, 1], transform: []}", "{base: 3}"),
)
HOLE = "@@"
OURS = (SpecError, ConfigError, ExperimentError, ResultsError)


@pytest.fixture(autouse=True)
def _only_what_would_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to build is chosen of odd values, too; what fails in the child is an error anyway."""
    monkeypatch.setattr(build_checks, "told_apart", lambda *_, **__: "[]")


def places(node: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    if isinstance(node, list):
        node = dict(enumerate(node))
    for key, value in node.items() if isinstance(node, dict) else ():
        yield from places(value, (*here, key))


def with_odd(spec: Any, place: tuple[Any, ...], odd: str) -> str:
    """The spec as text, with an odd value in one place."""
    if place:
        spec = node = json.loads(json.dumps(spec))
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = HOLE
    else:
        spec = HOLE
    return json.dumps(spec, indent=1).replace(f'"{HOLE}"', odd)


def problem(file: Path, text: str) -> str | None:
    """What is wrong with how the text is refused; None if nothing is, or it is accepted."""
    file.write_text(text, encoding="utf-8")
    try:
        load_specs(file)
    except OURS as error:
        said = str(error)
        # One line each, of several wrong settings.
        return None if all(line.startswith(f"{file}:") for line in said.split("\n")) else said
    except BaseException as error:
        return repr(error)
    return None


def test_the_specs_are_sound(tmp_path: Path) -> None:
    """Else the drill below would stop at the first check."""
    for name, spec in SPECS.items():
        (tmp_path / name).with_suffix(".yaml").write_text(json.dumps(spec))
        assert load_specs((tmp_path / name).with_suffix(".yaml"))


@pytest.mark.parametrize("name", SPECS)
def test_odd_values_anywhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = SPECS[name]
    cases = [(place, odd) for place in places(spec) for odd in ODD]
    # Seeds without end are another matter.
    cases = [(p, odd) for p, odd in cases if not (p[:1] == ("seeds",) and odd == str(2**64))]
    found = {}
    for place, odd in random.Random(3).sample(cases, 35):
        wrong = problem(tmp_path / "s.yaml", with_odd(spec, place, odd))
        if wrong is not None:
            found[place, odd[:40]] = wrong
    assert not found


HEAD = "name: s\nconfig: {env: CartPole-v1}\n"


LINES = [
    "seed: a\x01b",
    'storage: "a\\0b"',
    "seed: !!int abc",
    "seed: !!timestamp abc",
    "seed: 2024-13-45",
    f"seed: {'9' * 5000}",
    f"seed: 0x{'f' * 300}",
    "storage: ~nouser/x",
    "mlflow: {tracking_uri: ~nouser/x}",
    "extends: ~nouser/x",
    "stop: {training_iteration: .inf}",
    "stop: {training_iteration: 1e999}",
    "time_budget_s: .inf",
    "search: {algorithm: {a: 1}}",
    "search_space: {lr: {uniform: [0, 1], transform: []}}",
    "search_space: {seed: {randint: [0, 1e300]}}",
    "scheduler: {algorithm: pbt_replay, schedule: [[]]}",
]


def test_the_line_is_named(tmp_path: Path, golden: Golden) -> None:
    def read(line: str) -> None:
        file = tmp_path / "s.yaml"
        file.write_text(f"{HEAD}{line}\n", encoding="utf-8")
        load_specs(file)

    cases = {repr(line)[:60]: line for line in LINES}
    golden("sweeps/odd_yaml", refusals(read, cases, *OURS, replace={str(tmp_path): "<folder>"}))


def test_a_date_is_text(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: 2024-01-02\nconfig: {env: CartPole-v1}\n", encoding="utf-8")
    assert load_specs(file)[0].name == "2024-01-02"
