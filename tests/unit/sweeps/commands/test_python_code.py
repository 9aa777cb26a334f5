"""Python as a person would write it: what is left out, how it is laid out, what is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import cli
from experiments.commands.show.python import python_source
from experiments.commands.show.python_code import Name, call, imports_of, render
from experiments.errors import SpecError
from experiments.schedulers.build import build_scheduler
from experiments.search.build import build_search
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import resolve_trainable
from experiments.sweep.load import load_spec, make_spec, spec_space
from search_spaces import SearchSpace


def example(a: int, b: str = "x", *, c: float | None = None, d: tuple[int, ...] = ()) -> None:
    """A function to write calls of."""


def test_defaults_are_left_out() -> None:
    assert render(call(example, 1, b="x", c=None, d=[])) == "example(1)"
    assert render(call(example, 1, b="y", c=0.0)) == 'example(1, b="y", c=0.0)'
    assert render(call(example, Name("one"), b='a"b')) == "example(one, b='a\"b')"


def test_long_calls_take_a_line_for_each_argument() -> None:
    text = render({"key": call(example, 1, b="y" * 80)})
    assert text == '{\n    "key": example(\n        1,\n        b="' + "y" * 80 + '",\n    ),\n}'
    assert render(call(example, ["y" * 50, "z" * 50])).startswith("example([\n    ")
    assert eval(render({"a": [1, 2.5, None, True], "b": (1, 2)})) == {
        "a": [1, 2.5, None, True],
        "b": (1, 2),
    }


def test_names_are_imported_from_where_people_import_them() -> None:
    assert imports_of(call(example, 1), SearchSpace) == (
        "from test_python_code import example",
        "from search_spaces import SearchSpace",
    )


SPACE = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "model.fcnet_hiddens": {"choice": [[64, 64], [32]]},
}
SEARCHES: list[Any] = [
    "random",
    {"algorithm": "random", "points_to_evaluate": [{"lr": 0.02}]},
    {"algorithm": "tpe", "n_startup_trials": 3, "group": True},
    {"algorithm": "sobol", "sequence": "halton"},
    {"algorithm": "gp", "n_startup_trials": 2},
    "grid",
]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_the_same_search(search: Any) -> None:
    """The script's searcher suggests what the sweep's does."""
    keys: dict[str, Any] = {"search_space": SPACE, "num_samples": 4}
    if search == "grid":
        keys = {"search_space": {"lr": {"grid": [0.1, 0.2]}, "num_epochs": {"choice": [2, 4]}}}
    halving = {"algorithm": "asha", "max_t": 1000, "reduction_factor": 3}
    stops = "gp" not in str(search)
    spec = make_spec(
        {
            "name": "x",
            "trainable": "sweep_dummy:Dummy",
            "search": search,
            "scheduler": halving if stops else "fifo",
            "max_concurrent": 4,
            "seed": 7,
            **keys,
        }
    )
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(python_source(spec).partition("tuner = ")[0], namespace)
    mine, theirs = build_search(spec, spec_space(spec), 4), namespace["search"]
    for number in range(4):
        assert theirs.suggest(str(number)) == mine.suggest(str(number))
    assert theirs.max_concurrent == mine.max_concurrent
    scheduler = namespace["scheduler"]
    if not stops:
        return
    assert (scheduler._max_t, scheduler._reduction_factor) == (1000, 3)
    assert scheduler._time_attr == "num_env_steps_sampled_lifetime"


SCHEDULERS: list[Any] = [
    "fifo",
    "hyperband",
    {"algorithm": "asha", "brackets": 2},
    {"algorithm": "median_stopping", "min_samples_required": 2},
    {"algorithm": "pbt", "mutations": ["lr"], "burn_in_period": 100, "quantile_fraction": 0.5},
    {"algorithm": "pb2", "perturbation_interval": 200, "mutations": ["lr"]},
    {"algorithm": "pbt_replay", "schedule": [[0, {"lr": 0.1}], [500, {"lr": 0.01}]]},
    {"algorithm": "resource_changing", "base": "asha"},
]


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=str)
def test_the_same_scheduler(scheduler: Any) -> None:
    spec = make_spec(
        {
            "name": "x",
            "trainable": "sweep_dummy:Dummy",
            "search_space": {} if "pbt_replay" in str(scheduler) else SPACE,
            "scheduler": scheduler,
            "stop": {"num_env_steps_sampled_lifetime": 1000},
            "num_samples": 1 if "pbt_replay" in str(scheduler) else 6,
            "seed": 7,
        }
    )
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(python_source(spec).partition("tuner = ")[0], namespace)
    mine = build_scheduler(spec, spec_space(spec), resolve_trainable(spec.trainable), 6)
    assert isinstance(namespace["scheduler"], type(mine))
    theirs = vars(namespace["scheduler"])
    plain = {key: value for key, value in vars(mine).items() if type(value) in (int, float, str)}
    assert {key: theirs[key] for key in plain} == plain


def test_the_tuner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be made; `fit` would run it."""
    monkeypatch.chdir(tmp_path)
    spec = load_spec("quickstart", ["seed=3", 'mlflow.tags={a: b"c}', "time_budget_s=60"])
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(python_source(spec).partition("results = ")[0], namespace)
    made = namespace["tuner"]._local_tuner
    assert made._tune_config.num_samples == spec.num_samples
    assert made._tune_config.time_budget_s == 60
    assert made._param_space == {**spec.config, "seed": 3}
    run = made.get_run_config()
    assert (run.stop, run.name) == (spec.stop, "quickstart")
    assert Path(run.storage_path) == tmp_path / "runs"
    assert run.checkpoint_config.checkpoint_frequency == spec.checkpoint.frequency
    keeper, logger = run.callbacks
    assert keeper is namespace["keeper"]
    assert logger.sweep.tags == {"a": 'b"c'}


def test_several_seeds() -> None:
    spec = make_spec(
        {
            "name": "x",
            "trainable": "sweep_dummy:Dummy",
            "stop": {"training_iteration": 1},
            "seeds": {"values": [3, 5, 8], "parallel": 1},
        }
    )
    source = python_source(spec)
    assert "tune.Tuner(\n    with_seeds(Dummy, [3, 5, 8]),\n    tune_config=" in source
    assert "from experiments.seeds.multi_seed import with_seeds" in source


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"search": {"algorithm": "tpe", "study_storage": "sqlite:///x"}}, "search.study_storage"),
        ({"search": {"algorithm": "tpe", "warm_start": [{"folder": "x"}]}}, "search.warm_start"),
    ],
)
def test_nothing_is_left_out_silently(keys: dict[str, Any], named: str) -> None:
    spec = SweepSpec.model_validate({"name": "x", "trainable": "sweep_dummy:Dummy", **keys})
    with pytest.raises(SpecError, match=f"{named} cannot be shown as Python"):
        python_source(spec)


def test_passwords_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    spec = make_spec(
        {
            "name": "x",
            "trainable": "sweep_dummy:Dummy",
            "stop": {"training_iteration": 1},
            "mlflow": {"tracking_uri": "http://me:${env:PASSWORD}@host"},
        }
    )
    source = python_source(spec)
    assert "secret" not in source
    assert '"http://me:" + os.environ["PASSWORD"] + "@host"' in source
    assert "import os\n" in source


def callbacks_of(spec: SweepSpec) -> dict[str, Any]:
    """The script's callbacks by class; the script runs as far as to its Tuner."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(python_source(spec).partition("results = ")[0], namespace)
    run = namespace["tuner"]._local_tuner.get_run_config()
    return {"storage": run.storage_path, **{type(c).__name__: c for c in run.callbacks}}


def test_every_option_of_tracking_and_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "0")  # put back by monkeypatch
    tracking = {
        "tracking_uri": "${env:NOT_SET:http://localhost:5000}",
        "log_model": True,
        "register_as": "best",
        "system_metrics": True,
        "max_pending_metrics": 7,
    }
    data = {"name": "x", "trainable": "sweep_dummy:Dummy", "stop": {"training_iteration": 1}}
    spec = make_spec({**data, "mlflow": tracking, "loggers": ["csv", "tensorboard"]})
    found = callbacks_of(spec)
    assert {"ResultRows", "CsvFiles", "TensorBoardFiles"} <= set(found)
    assert os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] == "1"
    logger = found["MLflowCallback"]
    assert logger.tracking_uri == "http://localhost:5000"
    assert (logger.sweep.log_model, logger.sweep.register_as) == (True, "best")
    assert (logger.system_metrics, logger.max_pending_metrics) == (True, 7)
    spec = make_spec({**data, "mlflow": {"log_model": False}})
    assert not callbacks_of(spec)["MLflowCallback"].sweep.log_model


def test_paths_are_those_of_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    data = {"name": "x", "trainable": "sweep_dummy:Dummy", "stop": {"training_iteration": 1}}
    found = callbacks_of(make_spec({**data, "storage": "~/runs"}))
    assert found["storage"] == str(tmp_path / "runs")
    assert found["MLflowCallback"].tracking_uri == f"sqlite:///{tmp_path}/runs/mlflow.db"
    found = callbacks_of(make_spec({**data, "storage": 'a"); b("'}))
    assert found["storage"] == str(tmp_path / 'a"); b("')


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
    compile(source, "sweep.py", "exec")
    assert '"seed": 5,' in source and "from trainables import PPO" in source
    assert "None" not in source and "= {}" not in source  # no defaults that do nothing
    assert command(monkeypatch, "quickstart", "--as", "pyton") == 2
    (tmp_path / "m.yaml").write_text("extends: quickstart\nmatrix: {seed: [1, 2]}\n")
    assert command(monkeypatch, str(tmp_path / "m.yaml")) == 0
    assert capsys.readouterr().out.count("---\n") == 1
    assert command(monkeypatch, str(tmp_path / "m.yaml"), "--as", "python") == 2
    assert "--set matrix." in capsys.readouterr().err
