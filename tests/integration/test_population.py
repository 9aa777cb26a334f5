"""Populations for real: exploits, replay, failures and kills; what outlives a resume."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cheap_sweeps import drawn
from dummy_sweeps import ENV_STEPS, spec_of
from forked_drivers import COMMAND, Driver
from mlflow_client import mlflow_client
from sweep_dummy import STEPS
from sweep_processes import wait_until

from analysis.overview.lineage import Exploit, read_lineage, schedule, winner
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

PBT = {"algorithm": "pbt", "perturbation_interval": 2 * STEPS, "quantile_fraction": 0.5}


pytestmark = pytest.mark.usefixtures("ray_here")


def data(folder: Path, scheduler: Any, **keys: Any) -> dict[str, Any]:
    points = [{"lr": 0.01}, {"lr": 0.5}, {"lr": 0.9}]
    three = {
        "search_space": {"lr": {"loguniform": [1e-4, 1.0]}},
        "search": {"algorithm": "random", "points_to_evaluate": points},
        "num_samples": 3,
        "seed": 2,
    }
    return spec_of(folder, scheduler=scheduler, **{**three, **keys})


def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """By trial id, the whole rows on disk."""
    files = sorted(folder.glob("*/result.json"))
    return {file.parent.name.rpartition("_")[2]: read_json_lines(file) for file in files}


def applied(exploit: Exploit, results: dict[str, list[dict[str, Any]]]) -> bool:
    """Whether the trial's next results have the settings and the budget that the line says."""
    after = [row for row in results[exploit.trial] if row["config"]["lr"] == exploit.after["lr"]]
    return bool(after) and after[0][ENV_STEPS] == exploit.donor_budget + STEPS


def test_exploits_happen_are_recorded_and_can_be_replayed(tmp_path: Path) -> None:
    with drawn():
        outcome = run_sweep(Sweep.of(make_spec(data(tmp_path, {**PBT, "synch": True}, mlflow={}))))
    assert not outcome.failures
    exploits, results = read_lineage(outcome.folder), rows(outcome.folder)
    assert [e.number for e in exploits] == list(range(1, len(exploits) + 1)) and exploits
    for exploit in exploits:
        assert exploit.donor_budget == exploit.budget == exploit.number * 2 * STEPS
        assert 1e-4 <= exploit.after["lr"] <= 1.0
        assert exploit.after != exploit.donor_settings
        assert applied(exploit, results), exploit
    # The dummy's return is its count of iterations times its rate's quality: the clone's is the
    # donor's count, so the donor's weights were really loaded.
    for trial in results.values():
        assert [row["training_iteration"] for row in trial] == list(range(1, 9))
    assert outcome.lineage is not None and outcome.lineage.stat().st_size > 10_000
    for trial, rate in rates_in_mlflow(tmp_path).items():
        assert rate == pytest.approx(results[trial][-1]["config"]["lr"])

    replayed = next(e.trial for e in reversed(exploits))
    changes = schedule(exploits, replayed)
    replay = {"algorithm": "pbt_replay", "sweep": str(outcome.folder), "trial": replayed}
    spec = make_spec(
        data(tmp_path, replay, name="replay", search="random", num_samples=1, search_space={})
    )
    again = run_sweep(Sweep.of(spec))
    (trial,) = rows(again.folder).values()
    for row in trial:
        due = [settings for budget, settings in changes if budget < row[ENV_STEPS]][-1]
        assert row["config"]["lr"] == due["lr"], row
    assert winner(outcome.folder) in results


def rates_in_mlflow(folder: Path) -> dict[str, float]:
    """The last rate that MLflow has of each trial that was mutated."""
    client = mlflow_client(f"sqlite:///{folder / 'mlflow.db'}")
    experiments_ = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments_)
    found = {
        run.data.tags["tunescape.trial_id"]: run.data.metrics["config/lr"]
        for run in runs
        if "config/lr" in run.data.metrics
    }
    assert found
    return found


def test_a_trial_that_fails_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    """Ray's own scheduler would wait for ever for a trial that has ended."""
    space = {"lr": {"loguniform": [1e-4, 1.0]}, "fail_at": {"grid": [0, 2, 0]}}
    scheduler = {**PBT, "synch": True, "mutations": ["lr"]}  # it fails before the first interval
    keys = {"search": "random", "num_samples": 1, "search_space": space, "max_failures": 0}
    outcome = run_sweep(Sweep.of(make_spec(data(tmp_path, scheduler, **keys))))
    assert outcome.num_trials == 3 and len(outcome.failures) == 1
    lengths = sorted(rows_[-1]["training_iteration"] for rows_ in rows(outcome.folder).values())
    assert lengths[1:] == [8, 8]


RATES = [0.9, 0.5, 0.7, 0.3, 0.2, 0.01]  # the worst begins, and the best waits for a place


@pytest.mark.parametrize("algorithm", ["pbt", pytest.param("pb2", marks=pytest.mark.full)])
def test_more_trials_than_run_at_a_time_take_turns(tmp_path: Path, algorithm: str) -> None:
    """Asynchronous, as by default: every one begins before any ends, and the worst is rescued."""
    keys = {
        "trainable": "sweep_dummy:Timed",
        "num_samples": len(RATES),
        "search": {"algorithm": "random", "points_to_evaluate": [{"lr": lr} for lr in RATES]},
        "config": {"seconds": 0.02},
    }
    scheduler = {**PBT, "algorithm": algorithm, "quantile_fraction": 0.34}
    outcome = run_sweep(Sweep.of(make_spec(data(tmp_path, scheduler, **keys))))
    assert not outcome.failures
    found = rows(outcome.folder)
    assert len(found) == len(RATES)
    begins, ends = [t[0]["at"] for t in found.values()], [t[-1]["at"] for t in found.values()]
    assert max(begins) < min(ends)
    # Nobody who trains is further ahead of one that is left behind than turns and a clone explain.
    seen = sorted((row["at"], trial, row[ENV_STEPS]) for trial, t in found.items() for row in t)
    budgets = dict.fromkeys(found, 0)
    for at, trial, steps in seen:
        if at > max(begins) and at <= min(ends):
            assert steps - min(budgets.values()) <= 3 * 2 * STEPS
        budgets[trial] = steps
    assert {trial[-1][ENV_STEPS] for trial in found.values()} == {8 * STEPS}
    (worst,) = [trial for trial, t in found.items() if t[0]["config"]["lr"] == RATES[0]]
    exploits = read_lineage(outcome.folder)
    assert worst in {exploit.trial for exploit in exploits}
    for exploit in exploits:
        assert exploit.donor_score is not None and exploit.score is not None
        if exploit.budget == exploit.donor_budget:  # else another score was compared
            assert exploit.donor_score > exploit.score
        assert applied(exploit, found), exploit


def test_a_population_that_fits_is_never_interrupted(tmp_path: Path) -> None:
    points = [{"lr": 0.01}, {"lr": 0.9}]
    keys = {
        "trainable": "sweep_dummy:Meeting",
        "num_samples": 2,
        "search": {"algorithm": "random", "points_to_evaluate": points},
        "config": {"seconds": 0.1, "meet": str(tmp_path / "meeting")},
    }
    outcome = run_sweep(Sweep.of(make_spec(data(tmp_path, PBT, **keys))))
    moved = {exploit.trial for exploit in read_lineage(outcome.folder)}
    assert not outcome.failures and moved
    for trial, found in rows(outcome.folder).items():
        if trial not in moved:
            assert [r["iterations_since_restore"] for r in found] == list(range(1, 9))


SCHEDULERS: dict[str, dict[str, Any]] = {
    "pbt-synch": {**PBT, "synch": True},
    "pbt": PBT,
    "hyperband": {"algorithm": "hyperband", "grace_period": 4 * STEPS, "reduction_factor": 2},
    "median": {
        "algorithm": "median_stopping", "grace_period": 2 * STEPS, "min_samples_required": 1,
    },
}  # fmt: skip
# Three trials, a checkpoint a row: in step the sixth is the last at the first barrier, and the
# seventh comes right after an exploit; HyperBand's rung is at the twelfth.
FULL = {("pbt-synch", 6), ("pbt-synch", 7), ("pbt", 7), ("hyperband", 12), ("median", 5)}

RESTORED = pytest.mark.full(
    "integration/test_durability.py::test_a_restored_scheduler_refers_to_the_trials_of_the_resumed_sweep"
)


def kills() -> Iterator[Any]:
    """Every scheduler and checkpoint after which its sweep may be killed."""
    for name in SCHEDULERS:
        for noted in range(1, 17 if name != "median" else 13):  # two of its trials stop early
            later = RESTORED if (name, noted) in FULL else pytest.mark.slow
            yield pytest.param(name, noted, marks=later)


@pytest.mark.parametrize(("scheduler", "noted"), list(kills()))
def test_the_schedulers_state_outlives_a_kill_after_any_checkpoint(
    tmp_path: Path, scheduler: str, noted: int
) -> None:
    """The worst moment: a checkpoint is noted, and the sweep's state not yet saved."""
    killed_driver(tmp_path, scheduler, noted)
    goes_on_as_if_it_had_not_been_killed(tmp_path / "runs" / "sweep", scheduler)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_schedulers_state_outlives_a_kill_at_any_time(tmp_path: Path, scheduler: str) -> None:
    process = driver(tmp_path, scheduler)
    folder = tmp_path / "runs" / "sweep"
    wait_until(lambda: sum(map(len, rows(folder).values())) >= 12, process)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    goes_on_as_if_it_had_not_been_killed(folder, scheduler)


def goes_on_as_if_it_had_not_been_killed(folder: Path, scheduler: str) -> None:
    before = rows(folder)
    lineage = folder / "lineage.jsonl"
    recorded = lineage.read_text() if lineage.is_file() else ""

    outcome = resume_sweep(folder)
    assert outcome.num_trials == 3 and not outcome.failures
    results = rows(folder)
    last = {trial: found[-1]["training_iteration"] for trial, found in results.items()}
    for trial, found in before.items():
        # Nothing was lost, or run again but the last one if its checkpoint had not been noted.
        kept = found[:-1]
        assert results[trial][: len(kept)] == kept
    if scheduler in ("pbt-synch", "hyperband"):
        for trial, found in results.items():  # nobody trained past where it waited
            iterations = [row["training_iteration"] for row in found]
            assert iterations == list(range(1, last[trial] + 1))
    if scheduler.startswith("pbt"):
        assert set(last.values()) == {8}
        exploits = read_lineage(folder)
        assert exploits and lineage.read_text().startswith(recorded)
        assert [e.number for e in exploits] == list(range(1, len(exploits) + 1))
        for exploit in exploits:
            found = [(row[ENV_STEPS], row["config"]["lr"]) for row in results[exploit.trial]]
            assert applied(exploit, results), (exploit, found)
    elif scheduler == "hyperband":
        # Two are compared at 4 iterations, and the third has the full budget.
        assert sorted(last.values()) == [4, 8, 8]
    else:
        assert last[best_rate(results)] == 8 and min(last.values()) < 8


def best_rate(results: dict[str, list[dict[str, Any]]]) -> str:
    return min(results, key=lambda trial: abs(results[trial][0]["config"]["lr"] - 0.01))


def driver(folder: Path, scheduler: str, module: str = COMMAND, *arguments: str) -> Driver:
    """`tunescape run`, or another module that runs a spec, in a process of its own."""
    seconds = 0.15 if module == COMMAND else 0.02  # long enough to be killed from outside
    keys = {"config": {"seconds": seconds}, "checkpoint": {"frequency": 1}}
    spec = data(folder / "runs", SCHEDULERS[scheduler], **keys, resources={"num_cpus": 2})
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(spec))
    return Driver(*(arguments or ("run",)), str(file), cwd=folder, module=module)


def killed_driver(folder: Path, scheduler: str, noted: int) -> None:
    process = driver(folder, scheduler, "killed_sweep", str(noted))
    output = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, output


def test_freed_cpus_become_threads(tmp_path: Path) -> None:
    spec = data(
        tmp_path,
        "resource_changing",
        trainable="small_runs:Threads",
        config={"env": "CartPole-v1", "train_batch_size_per_learner": 256, "num_epochs": 10},
        search="random",
        search_space={"lr": {"grid": [1e-4, 1e-3]}},
        num_samples=1,
        stop={"training_iteration": 300},
    )
    outcome: Outcome = run_sweep(Sweep.of(make_spec(spec)))
    assert not outcome.failures
    threads = [[row["threads"] for row in trial] for trial in rows(outcome.folder).values()]
    assert all(trial[0] == 1 for trial in threads)
    assert sorted(trial[-1] for trial in threads) == [1, 2]
