"""Trials of earlier sweeps become Optuna's, from folders and from MLflow."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysis_sweeps import make_sweep, row
from rich.console import Console

from experiments.commands.show.plan import show_plan
from experiments.errors import PreflightError
from experiments.running.warm_start import History, load_history
from experiments.search.build import build_search
from experiments.sweep.load import make_spec, spec_space
from experiments.sweep.sweep import Sweep
from experiments.tracking.names import as_params
from experiments.tracking.store import connect
from search_spaces import SpecError

RETURN = "episode_return_mean"
SPACE = {
    "lr": {"loguniform": [1e-4, 1e-1]},
    "gamma": {"loguniform": [1e-3, 0.1], "transform": "one_minus"},
    "model.fcnet_hiddens": {"choice": [[64, 64], [32]]},
    "num_epochs": {"choice": [1, 2]},
    "minibatch_size": {"choice": [32, 64], "when": {"num_epochs": 2}},
}


def config(**changed: Any) -> dict[str, Any]:
    whole = {
        "lr": 0.01,
        "gamma": 0.97,
        "model": {"fcnet_hiddens": [32]},
        "num_epochs": 1,
        "minibatch_size": 5,  # inactive: it may be what it likes
        **changed,
    }
    return {key: value for key, value in whole.items() if value is not None}


def ended(value: float, settings: dict[str, Any], *, pruned: bool = False) -> dict[str, Any]:
    rows = [row(1, value / 2), row(2, value, done=True, pruned=pruned)]
    return {"rows": [{**r, "config": settings} for r in rows], "config": settings}


TRIALS = {
    "good": ended(3.0, config()),
    "nested": ended(4.0, config(num_epochs=2, minibatch_size=64)),
    "pruned": ended(2.0, config(lr=0.02), pruned=True),
    "outside": ended(9.0, config(lr=0.5)),
    "absent": ended(9.0, config(gamma=None)),
    "inside out": ended(9.0, config(num_epochs=2)),
    "nan": ended(float("nan"), config()),
    "error": {**ended(9.0, config()), "status": "ERROR"},
}


def spec(sources: list[dict[str, Any]], algorithm: str = "tpe", **keys: Any) -> Any:
    return make_spec(
        {
            "name": "sweep",
            "trainable": "sweep_dummy:Dummy",
            "search_space": SPACE,
            "search": {"algorithm": algorithm, "warm_start": sources, **keys},
            "num_samples": 3,
            "seed": 0,
        }
    )


def load(sources: list[dict[str, Any]], **keys: Any) -> History:
    sweep = spec(sources, **keys)
    return load_history(Sweep.of(sweep))


def check_trials(history: History) -> None:
    """What is left of `TRIALS`."""
    assert [t.user_attrs["trial_id"] for t in history.trials] == ["good", "nested", "pruned"]
    good, nested, pruned = history.trials
    assert good.state.name == nested.state.name == "COMPLETE" and good.value == 3.0
    assert good.params.pop("one_minus_gamma") == pytest.approx(0.03)
    assert good.params == {"lr": 0.01, "model.fcnet_hiddens": "[32]", "num_epochs": 1}
    assert nested.params["minibatch_size"] == 64
    assert pruned.state.name == "PRUNED" and pruned.intermediate_values == {100: 1.0, 200: 2.0}
    (line,) = history.lines
    assert line.startswith("Warm start: 3 of 7 trials of ")
    assert "1 outside the space in lr" in line


def test_from_a_folder(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, TRIALS)
    check_trials(load([{"folder": str(folder)}]))
    (folder / "tuner.pkl").write_bytes(b"not a pickle")  # nothing of the kind is read
    assert len(load([{"folder": str(folder)}, {"folder": str(folder)}]).trials) == 6


def test_from_mlflow(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = connect(uri)
    experiment = client.create_experiment("old")
    for name, trial in TRIALS.items():
        tags = {"tunescape.kind": "trial", "tunescape.trial_id": name}
        if trial["rows"][-1]["pruned"]:
            tags["tunescape.outcome"] = "pruned"
        run = client.create_run(experiment, tags=tags).info.run_id
        for key, text in as_params(trial["config"]).items():
            client.log_param(run, key, text)
        for one in trial["rows"]:
            client.log_metric(run, RETURN, one[RETURN], step=one["num_env_steps_sampled_lifetime"])
        client.set_terminated(run, "FAILED" if name == "error" else "FINISHED")
    client.create_run(experiment, tags={"tunescape.kind": "sweep"})
    check_trials(load([{"mlflow_experiment": "old", "tracking_uri": uri}]))
    with pytest.raises(PreflightError, match=r"no experiment 'odl'; it has: .*did you mean 'old'"):
        load([{"mlflow_experiment": "odl", "tracking_uri": uri}])


def mutated() -> dict[str, Any]:
    """A trial that took over another's rate and layers for its second half."""
    trial = ended(9.0, config(lr=0.03, model={"fcnet_hiddens": [64, 64]}))
    trial["rows"][0]["config"] = config()
    return trial


def test_what_a_population_changed_teaches_nothing(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, {"good": TRIALS["good"], "mutated": mutated()})
    history = load([{"folder": str(folder)}])
    assert [t.user_attrs["trial_id"] for t in history.trials] == ["good"]
    assert history.lines[0].endswith("(left out: 1 mutated in mid-run)")

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = connect(uri)
    experiment = client.create_experiment("old")
    for name in ("good", "number", "text", "another setting"):
        tags = {"tunescape.kind": "trial", "tunescape.trial_id": name}
        if name == "text":
            tags["tunescape.config.model/fcnet_hiddens"] = "[64, 64] (from env step 100)"
        run = client.create_run(experiment, tags=tags).info.run_id
        for key, text in as_params(config()).items():
            client.log_param(run, key, text)
        client.log_metric(run, RETURN, 3.0, step=200)
        if name in ("number", "another setting"):
            client.log_metric(run, "config/lr" if name == "number" else "config/grad_clip", 0.03)
        client.set_terminated(run, "FINISHED")
    history = load([{"mlflow_experiment": "old", "tracking_uri": uri}])
    assert [t.user_attrs["trial_id"] for t in history.trials] == ["good", "another setting"]
    assert history.lines[0].endswith("(left out: 2 mutated in mid-run)")


def test_the_plan_shows_what_comes_first(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path, TRIALS)
    first = {"lr": 0.02, "num_epochs": 2, "minibatch_size": 64}
    sweep = spec([{"folder": str(folder)}], points_to_evaluate=[first])
    sweep.mlflow.enabled = False
    console = Console(file=io.StringIO(), width=500)
    show_plan(Sweep.of(sweep), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert any(line.startswith("# Warm start: 3 of 7 trials of ") for line in lines)
    examples = [line for line in lines if line.startswith("# a trial may have: ")]
    assert "{lr: 0.02," in examples[0] and "minibatch_size: 64" in examples[0]
    assert len(examples) == 3 and "{lr: 0.02," not in examples[1]


def test_what_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="there is no such sweep folder"):
        load([{"folder": str(tmp_path / "none")}])
    folder = make_sweep(tmp_path, {"outside": TRIALS["outside"]})
    with pytest.raises(PreflightError, match=r"0 of 1 trials .* 1 outside the space in lr"):
        load([{"folder": str(folder)}])
    good = make_sweep(tmp_path, TRIALS, "good")
    with pytest.raises(PreflightError, match="cmaes needs 10 complete trials, not 2"):
        load([{"folder": str(good)}], algorithm="cmaes")
    with pytest.raises(PreflightError, match=r"the MLflow tracking server .* cannot be reached"):
        load([{"mlflow_experiment": "x", "tracking_uri": "http://127.0.0.1:9"}])
    for source in ({}, {"folder": "a", "mlflow_experiment": "b"}):
        with pytest.raises(SpecError, match="needs either folder or mlflow_experiment"):
            spec([source])
    with pytest.raises(SpecError, match="tracking_uri belongs to mlflow_experiment"):
        spec([{"folder": "a", "tracking_uri": "b"}])


@pytest.mark.parametrize("algorithm", ["tpe", "cmaes", "gp", "nsga2", "nsga3"])
def test_every_sampler_learns_from_it(algorithm: str, tmp_path: Path) -> None:
    """Earlier trials span the space; the closer to a rate of 10 ** -3.8 the better they are."""
    exponents = np.random.default_rng(0).uniform(-4, -1, 30)
    settings = [config(lr=10**e, gamma=0.95 + n / 1000) for n, e in enumerate(exponents)]
    past = {
        f"t{n}": ended(-abs(e + 3.8), s)
        for n, (e, s) in enumerate(zip(exponents, settings, strict=True))
    }
    options = {"population_size": 5, "mutation_prob": 0.0} if "nsga" in algorithm else {}
    sweep = spec([{"folder": str(make_sweep(tmp_path, past))}], algorithm, **options)
    space = spec_space(sweep)
    search = build_search(sweep, space, 5, history=load_history(Sweep.of(sweep)).trials)
    rates: list[Any] = [search.suggest(str(n)) for n in range(5)]
    distance = np.mean([abs(math.log10(rate["lr"]) + 3.8) for rate in rates])
    assert distance < 0.8  # of random trials: 1.31
