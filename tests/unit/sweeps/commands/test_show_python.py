"""A spec as a script: it says the same sweep, in full, and holds no password."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import cli
from experiments.commands.show_spec import python_source
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import load_spec, make_spec

SPACE = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "model.fcnet_hiddens": {"choice": [[64, 64], [32]]},
}
END = {"stop": {"num_env_steps_sampled_lifetime": 1000}}
SPECS: dict[str, dict[str, Any]] = {
    "grid": {"search": "grid", "search_space": {"lr": {"grid": [0.1, 0.2]}}, "num_samples": 1},
    "points": {"search": {"algorithm": "random", "points_to_evaluate": [{"lr": 0.02}]}},
    "tpe": {"search": {"algorithm": "tpe", "n_startup_trials": 3, "group": True}, "seed": 7},
    "sobol": {"search": {"algorithm": "sobol", "sequence": "halton"}},
    "asha": {"scheduler": {"algorithm": "asha", "brackets": 2}, "max_concurrent": 4},
    "hyperband": {"scheduler": "hyperband"},
    "median": {"scheduler": {"algorithm": "median_stopping", "min_samples_required": 2}},
    "pbt": {"scheduler": {"algorithm": "pbt", "mutations": ["lr"], "quantile_fraction": 0.5}},
    "pb2": {"scheduler": {"algorithm": "pb2", "perturbation_interval": 200, "mutations": ["lr"]}},
    "replay": {
        "scheduler": {"algorithm": "pbt_replay", "schedule": [[0, {"lr": 0.1}], [5, {"lr": 0.01}]]},
        "search_space": {},
        "num_samples": 1,
    },
    "resources": {"scheduler": {"algorithm": "resource_changing", "base": "asha"}},
    "seeds": {"seeds": {"values": [3, 5, 8], "parallel": 1}, "search_space": {}},
    "tracking": {
        "mlflow": {"tags": {"a": 'b"c'}, "log_model": False},
        "loggers": ["csv", "tensorboard"],
        "storage": 'a"); b("',
    },
    "study": {"search": {"algorithm": "tpe", "study_storage": "sqlite:///x.db"}},
    "objective": {"objective": {"metric": "episode_return_mean", "mode": "min"}},
}


def spec_of(source: str) -> SweepSpec:
    """The spec that a script makes, before it trains."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source.partition("\nwith ")[0], namespace)
    made: SweepSpec = namespace["spec"]
    return made


def test_the_script_has_the_whole_spec() -> None:
    for name, given in SPECS.items():
        keys = {"search_space": SPACE, "num_samples": 6, **END, **given}
        spec = make_spec({"name": "x", "trainable": "sweep_dummy:Dummy", **keys})
        assert spec_of(python_source(spec)) == spec, name


@pytest.mark.parametrize("name", ["quickstart", "stateless_cartpole", "tuned/ppo/cartpole"])
def test_shipped_specs(name: str) -> None:
    spec = load_spec(name, ["seed=3", "time_budget_s=60"])
    source = python_source(spec)
    assert spec_of(source) == spec
    assert all(len(line) <= 100 for line in source.splitlines())
    assert "None" not in source  # no defaults that do nothing


def test_values_that_json_does_not_have() -> None:
    config = {"lr": 0.1, "model": {"text": "a\nb", "far": float("inf"), "on": True, "no": None}}
    spec = make_spec({"name": "x", "trainable": "sweep_dummy:Dummy", "config": config, **END})
    assert spec_of(python_source(spec)).config == config


def test_passwords_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    uri = "http://me:${env:PASSWORD}@host"
    spec = make_spec(
        {"name": "x", "trainable": "sweep_dummy:Dummy", "mlflow": {"tracking_uri": uri}, **END}
    )
    source = python_source(spec)
    assert "secret" not in source and f'"tracking_uri": "{uri}"' in source
    assert spec_of(source).mlflow.tracking_uri == "http://me:secret@host"


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tunescape", "show", *arguments])
    with pytest.raises(SystemExit) as status:
        cli.main()
    return int(status.value.code or 0)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "quickstart", "--set", "num_samples=3") == 0
    assert "num_samples: 3\n" in capsys.readouterr().out
    assert command(monkeypatch, "quickstart", "--as", "python", "--set", "seed=5") == 0
    source = capsys.readouterr().out
    assert '"seed": 5,' in source and "build_tuner(spec)" in source
    assert spec_of(source) == load_spec("quickstart", ["seed=5"])
    assert command(monkeypatch, "quickstart", "--as", "pyton") == 2
    (tmp_path / "m.yaml").write_text("extends: quickstart\nmatrix: {seed: [1, 2]}\n")
    assert command(monkeypatch, str(tmp_path / "m.yaml")) == 0
    assert capsys.readouterr().out.count("---\n") == 1
    assert command(monkeypatch, str(tmp_path / "m.yaml"), "--as", "python") == 2
    assert "--set matrix." in capsys.readouterr().err
