"""Sweeps over trainables of one's own: classes and functions as Ray Tune takes them."""

from __future__ import annotations

import functools
import importlib
import io
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from cheap_sweeps import drawn
from page_blocks import blocks
from rich.console import Console
from sweep_processes import finish, rows, spec_file, start, wait_until
from tiers import rarely

from analysis import ResultsError, load_sweep
from experiments.commands.evaluation.policy_sources import find_policy
from experiments.commands.export import export_policy
from experiments.commands.results.summary import show_outcome
from experiments.commands.show.plan import show_plan
from experiments.errors import SweepError
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.sweep.load import load_spec, make_spec
from experiments.sweep.sweep import Sweep

pytestmark = pytest.mark.usefixtures("ray_here")
OWN: dict[str, Any] = {
    "search_space": {"x": {"grid": [0.1, 0.2, 0.3]}},
    "objective": {"metric": "loss", "mode": "min"},
    "stop": {"training_iteration": 4},
    "mlflow": {"enabled": False},
}


def sweep(tmp_path: Path, name: str, console: Console | None = None, **keys: Any) -> Outcome:
    data = {"name": "own", "trainable": f"own_trainables:{name}", "storage": str(tmp_path)}
    return run_sweep(Sweep.of(make_spec({**data, **OWN, **keys})), console=console)


def said(outcome: Outcome, name: str) -> str:
    console = Console(width=200, file=io.StringIO())
    spec = make_spec({"name": "own", "trainable": f"own_trainables:{name}", **OWN})
    show_outcome(outcome, spec, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def workers(outcome: Outcome) -> int:
    return len({int(trial.frame["worker"].iloc[-1]) for trial in load_sweep(outcome.folder).trials})


@pytest.fixture(scope="module")
def run_once(
    tmp_path_factory: pytest.TempPathFactory, ray_here: None
) -> Callable[[str], tuple[Outcome, str]]:
    """Gives the sweep of a class, and what it showed while it ran."""

    @functools.cache
    def run(name: str) -> tuple[Outcome, str]:
        shown = io.StringIO()
        with drawn():
            outcome = sweep(tmp_path_factory.mktemp(name), name, Console(width=200, file=shown))
        return outcome, shown.getvalue()

    return run


@pytest.mark.parametrize("name", ["Quadratic", pytest.param("Refuses", marks=pytest.mark.full)])
def test_a_class_that_cannot_be_reset_has_a_process_for_each_trial(
    run_once: Callable[[str], tuple[Outcome, str]], name: str
) -> None:
    """Tune would wait for ever for the trial that could not be started."""
    outcome, _ = run_once(name)
    assert outcome.succeeded and not outcome.failures
    assert workers(outcome) == 3  # two run at a time
    assert [trial.status for trial in load_sweep(outcome.folder).trials] == ["TERMINATED"] * 3


def test_a_class_that_can_be_reset_shares_processes(tmp_path: Path) -> None:
    assert workers(sweep(tmp_path, "Resets", max_concurrent=1)) < 3


def test_a_process_that_dies_in_a_reset_ends_no_sweep(tmp_path: Path) -> None:
    outcome = sweep(tmp_path, "DiesInReset", max_failures=1)
    ended = {trial.status for trial in load_sweep(outcome.folder).trials}
    assert ended <= {"TERMINATED", "ERROR"} and "TERMINATED" in ended


def test_what_is_shown_of_a_class_of_ones_own_applies_to_it(
    run_once: Callable[[str], tuple[Outcome, str]],
) -> None:
    outcome, progress = run_once("Quadratic")
    assert "env steps" not in progress and "time=0:0" in progress and "iteration=4" in progress
    text = said(outcome, "Quadratic")
    assert "iterations" in text and "time" in text
    assert "env steps" not in text and "policy.json" not in text and "evaluate" not in text
    [line] = [line for line in text.splitlines() if line.startswith("Best checkpoint: ")]
    assert outcome.checkpoint is not None and str(outcome.checkpoint.path) in line
    assert "own_trainables:Quadratic is your own trainable" in line
    assert (outcome.checkpoint.path / "state.json").is_file()
    page = (outcome.folder / "report.html").read_text()
    assert "tunescape evaluate" not in page and "tunescape export" not in page
    for folder in (outcome.folder, outcome.checkpoint.path.parent, outcome.checkpoint.path):
        with pytest.raises(ResultsError, match="your own trainable leaves checkpoints"):
            find_policy(folder)
    with pytest.raises(ResultsError, match="your own trainable leaves checkpoints"):
        export_policy(outcome.folder)


def test_a_sweep_without_checkpoints_says_so(
    run_once: Callable[[str], tuple[Outcome, str]],
) -> None:
    outcome, _ = run_once("Bare")
    assert outcome.succeeded and workers(outcome) == 3
    text = said(outcome, "Bare")
    assert "No checkpoint: own_trainables:Bare left none" in text and "policy" not in text


@pytest.mark.parametrize(
    ("name", "stop"), [("plain", {"training_iteration": 9}), ("saving", {"training_iteration": 3})]
)
def test_a_function_is_a_trainable(tmp_path: Path, name: str, stop: dict[str, int]) -> None:
    outcome = sweep(tmp_path, name, stop=stop, num_samples=1)
    assert outcome.succeeded and not outcome.failures
    assert (outcome.checkpoint is not None) == (name == "saving")
    ended = min(stop.get("training_iteration", 4), 4)
    trials = load_sweep(outcome.folder).trials
    assert [len(trial.frame) for trial in trials] == [ended] * 3
    table = outcome.results._experiment_analysis.trials
    assert table is not None
    assert not any(trial.last_result["pruned"] for trial in table)
    assert {trial.trainable_name for trial in table} == {name}


@pytest.mark.parametrize("scheduler", rarely(["asha", "hyperband", "pbt"], ["hyperband"]))
def test_schedulers_know_functions(tmp_path: Path, scheduler: str) -> None:
    options: dict[str, Any] = {"algorithm": scheduler, "time_attr": "training_iteration"}
    if scheduler == "pbt":
        options |= {"perturbation_interval": 2}
    keys: dict[str, Any] = {"search_space": {"x": {"uniform": [0, 1]}}, "num_samples": 3}
    outcome = sweep(tmp_path, "saving", scheduler=options, config={"rounds": 6}, **keys)
    assert outcome.succeeded and not outcome.failures


def test_a_scheduler_that_pauses_needs_a_function_with_checkpoints(tmp_path: Path) -> None:
    scheduler = {"algorithm": "hyperband", "time_attr": "training_iteration", "max_t": 9}
    message = "hyperband pauses trials .* own_trainables:plain reported none"
    with pytest.raises(SweepError, match=message) as error:
        sweep(tmp_path, "plain", scheduler=scheduler, config={"rounds": 20}, num_samples=2, stop={})
    assert "\n" not in str(error.value)


def test_a_metric_that_a_function_does_not_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=r"held no metric 'los'.* did you mean 'loss'"):
        sweep(tmp_path, "plain", objective={"metric": "los"})


@pytest.mark.full("test_a_function_is_a_trainable")
def test_a_final_of_a_function_says_where_its_checkpoint_is(tmp_path: Path) -> None:
    outcome = sweep(tmp_path, "saving", final={"top": 1, "seeds": 2})
    assert outcome.succeeded and outcome.final is not None and outcome.checkpoint is not None
    assert "final" in outcome.checkpoint.path.parts


def test_a_failing_function_is_a_failed_trial(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="the function fails as asked"):
        more = {"x": {"grid": [0.1, 0.2, 0.3, 0.4]}}  # than the sweep ends after
        sweep(tmp_path, "failing", max_failures=0, search_space=more)


@pytest.mark.parametrize("reuse", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_function_resumes_with_more_samples(tmp_path: Path, reuse: bool) -> None:
    keys: dict[str, Any] = {"search_space": {"x": {"uniform": [0, 1]}}, "num_samples": 2}
    outcome = sweep(tmp_path, "saving", resources={"reuse_actors": reuse}, **keys)
    outcome = resume_sweep(outcome.folder, num_samples=4)
    assert outcome.succeeded and outcome.num_trials == 4
    assert list(rows(outcome.folder).values()) == [[1, 2, 3, 4]] * 4


@pytest.mark.full("test_a_function_resumes_with_more_samples")
def test_a_function_that_is_cut_off_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    keys = {**OWN, "trainable": "own_trainables:saving", "checkpoint": {}, "stop": {}}
    keys["search_space"] = {"x": {"grid": [0.1, 0.2]}}
    file = spec_file(tmp_path, **keys, config={"seconds": 0.5, "rounds": 8})
    process, folder = start(tmp_path, "run", file), tmp_path / "runs" / "sweep"
    wait_until(lambda: any(4 in its for its in rows(folder).values()), process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    finish(tmp_path, "runs/sweep")
    trials = load_sweep(folder).trials
    assert [trial.status for trial in trials] == ["TERMINATED"] * 2
    assert [list(trial.frame["training_iteration"]) for trial in trials] == [list(range(1, 9))] * 2
    assert any(max(trial.frame["from"]) >= 3 for trial in trials)


def test_the_guides_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "experiments/guides/your_own.md"
    [code], [spec] = blocks(page, "python"), blocks(page, "yaml")
    monkeypatch.chdir(tmp_path)
    # Ray's workers were started with the tests' path: there the module would not be found.
    (tmp_path / "train_quadratic.py").write_text(code)
    (tmp_path / "spec.yaml").write_text(spec)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("train_quadratic")
    ray.cloudpickle.register_pickle_by_value(module)
    small = ["num_samples=2", "config.rounds=3", "mlflow.enabled=false"]
    outcome = run_sweep(Sweep.of(load_spec("spec.yaml", small)))
    assert outcome.succeeded and outcome.checkpoint is not None
    show_plan(Sweep.of(load_spec("spec.yaml", [*small, "name=again"])), Console(file=io.StringIO()))
