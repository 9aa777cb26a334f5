"""Schedulers decide of trials in hosts as they do of trials in processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from tiers import rarely

from analysis.overview.lineage import read_lineage
from experiments.benchmarks.scripted import SMALL, STEPS
from experiments.running.runner import run_sweep
from experiments.schedulers.kind import build_scheduler
from experiments.sweep.hosting import HostPlan
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

pytestmark = pytest.mark.usefixtures("ray_here")

RETURN, ENV_STEPS = "episode_return_mean", "num_env_steps_sampled_lifetime"
LAST = 8
# The good ones are neither the first nor the last to report.
X = [0.5, 0.9, 0.1, 0.7, 0.3, 0.8, 0.2, 0.6]
OPTIONS: dict[str, dict[str, Any]] = {
    "asha": {"grace_period": STEPS, "reduction_factor": 2},
    "hyperband": {"grace_period": 2 * STEPS, "reduction_factor": 2},
    "median_stopping": {"grace_period": STEPS, "min_samples_required": 2},
    "pbt": {"perturbation_interval": 2 * STEPS, "quantile_fraction": 0.25, "synch": True},
}


def sweep_of(folder: Path, scheduler: str, **keys: Any) -> Sweep:
    data = {
        "name": scheduler,
        "trainable": "hosted_faults:Weighed",
        "config": {**SMALL, "seed": 0},
        "search_space": {"x": {"uniform": [0.0, 1.0]}},
        "search": {"algorithm": "random", "points_to_evaluate": [{"x": x} for x in X]},
        "num_samples": len(X),
        "stop": {ENV_STEPS: LAST * STEPS},
        "scheduler": {"algorithm": scheduler, **OPTIONS[scheduler]},
        "seed": 1,
        "storage": str(folder),
        "mlflow": {"enabled": False},
        **keys,
    }
    return Sweep.of(make_spec(data))


def hosted(folder: Path, scheduler: str, **keys: Any) -> Sweep:
    sweep = sweep_of(folder / "hosted", scheduler, trial_batching="auto", **keys)
    assert isinstance(sweep.hosting, HostPlan)
    return sweep


def rows(sweep: Sweep) -> list[list[dict[str, Any]]]:
    return [read_json_lines(path) for path in sorted(sweep.folder.glob("*/result.json"))]


def lengths(sweep: Sweep) -> dict[float, int]:
    """How far each trial got, by its first x."""
    return {own[0]["config"]["x"]: own[-1]["training_iteration"] for own in rows(sweep)}


@pytest.mark.parametrize("scheduler", rarely(["asha", "median_stopping"], ["asha"]))
def test_who_is_stopped_follows_from_the_order_of_results(scheduler: str, tmp_path: Path) -> None:
    """Told the same results in the same order, the scheduler alone stops the same trials."""
    order = tmp_path / "order"
    notes = {"class": "hosted_faults:Order", "args": {"file": str(order)}}
    sweep = hosted(tmp_path, scheduler, callbacks=[notes])
    outcome = run_sweep(sweep)
    assert not outcome.failures
    results = read_json_lines(order)
    assert {row["host"] for row in results} == {0, 1}
    ends = [i for i, row in enumerate(results) if row[ENV_STEPS] >= LAST * STEPS]
    assert len({row["trial"] for row in results[: ends[0]]}) > 2  # side by side
    alone: Any = build_scheduler(sweep.spec, sweep.space, sweep.trainable, len(X))
    alone.set_search_properties(RETURN, "max")
    trials = {row["trial"]: Trial("__fake", stub=True, trial_id=row["trial"]) for row in results}
    for trial in trials.values():
        alone.on_trial_add(None, trial)
    stopped = 0
    for row in results:
        trial = trials[row["trial"]]
        if row[ENV_STEPS] >= LAST * STEPS:  # Tune's own criterion comes first
            assert row["done"] and not row["pruned"]
        else:
            decision = alone.on_trial_result(None, trial, row)
            assert (decision == TrialScheduler.STOP) == bool(row["pruned"]), row
            stopped += decision == TrialScheduler.STOP
        if row["done"]:
            alone.on_trial_complete(None, trial, row)
    assert 0 < stopped < len(X)


@pytest.mark.full("test_who_is_stopped_follows_from_the_order_of_results")
def test_hyperband_halves_alike(tmp_path: Path) -> None:
    apart, together = sweep_of(tmp_path, "hyperband"), hosted(tmp_path, "hyperband")
    for sweep in (apart, together):
        assert not run_sweep(sweep).failures
    assert lengths(together) == lengths(apart)
    assert len(set(lengths(apart).values())) > 1


@pytest.mark.full("test_who_is_stopped_follows_from_the_order_of_results")
def test_pbt_exploits_alike_and_clones_have_their_donors_weights(tmp_path: Path) -> None:
    apart, together = sweep_of(tmp_path, "pbt"), hosted(tmp_path, "pbt")
    for sweep in (apart, together):
        assert not run_sweep(sweep).failures
    assert exploits(together) == exploits(apart) and exploits(apart)
    moved = 0
    of_trial = {own[0]["trial_id"]: own for own in rows(together)}
    for exploit in read_lineage(together.folder):
        done = int(exploit.budget) // STEPS
        [donor] = [r for r in of_trial[exploit.donor] if r["training_iteration"] == done]
        [clone] = [r for r in of_trial[exploit.trial] if r["training_iteration"] == done + 1]
        assert clone["before"] == pytest.approx(donor["after"], abs=1e-6)
        assert clone["config"]["x"] == exploit.after["x"]
        assert clone[RETURN] == pytest.approx(exploit.after["x"] * (done + 1))
        moved += clone["host"] != donor["host"]
    assert moved  # at least once into another process


def exploits(sweep: Sweep) -> list[tuple[Any, ...]]:
    """Who took whose place, when, and with what: trials by their first x."""
    names = {own[0]["trial_id"]: own[0]["config"]["x"] for own in rows(sweep)}
    return sorted(
        (one.budget, names[one.trial], names[one.donor], round(one.after["x"], 9))
        for one in read_lineage(sweep.folder)
    )
