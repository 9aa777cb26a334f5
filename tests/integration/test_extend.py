"""A sweep that is there is given more samples, a longer budget, or another try of what failed."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from sweep_dummy import NAME, STEPS

import experiments
import experiments.cluster.session
from experiments.running.extension import extended, parse_stop
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.running.sweep_lock import sweep_lock
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

ENV_STEPS = "num_env_steps_sampled_lifetime"


pytestmark = pytest.mark.usefixtures("ray_here")


def data(tmp_path: Path, **keys: Any) -> dict[str, Any]:
    return {
        "name": "sweep",
        "trainable": NAME,
        "storage": str(tmp_path),
        "search_space": {"lr": {"uniform": [0.001, 0.02]}},
        "stop": {ENV_STEPS: 4 * STEPS},
        "seed": 1,
        "mlflow": {"enabled": False},
        **keys,
    }


def trials(outcome: Outcome) -> list[Any]:
    found = outcome.results._experiment_analysis.trials or []
    return sorted(found, key=lambda trial: int(trial.experiment_tag.split("_")[0]))


def rows(folder: Path) -> dict[str, list[int]]:
    """Iterations of each trial, as they are on disk."""
    return {
        file.parent.name: [row["training_iteration"] for row in read_json_lines(file)]
        for file in sorted(folder.glob("*/result.json"))
    }


def asha_rungs(folder: Path) -> dict[int, dict[str, float]]:
    """ASHA's rungs as the last snapshot holds them."""
    from ray.tune.schedulers import ASHAScheduler

    from experiments.durability.keeper import durable
    from experiments.schedulers.state import load_state

    state = max(folder.glob("callback-states-*.pkl"))
    keeper = next(s for s in pickle.loads(state.read_bytes()).values() if s and "scheduler" in s)
    scheduler, _ = durable(ASHAScheduler(metric="m", mode="max"))
    load_state(scheduler, keeper["scheduler"], {})
    return {int(at): seen for at, seen in scheduler._brackets[0]._rungs}  # type: ignore[attr-defined]


def test_more_samples_are_those_of_a_larger_sweep(tmp_path: Path) -> None:
    run_sweep(Sweep.of(make_spec(data(tmp_path, num_samples=2))))
    before = rows(tmp_path / "sweep")
    outcome = resume_sweep(tmp_path / "sweep", num_samples=5)
    after = rows(tmp_path / "sweep")
    assert outcome.num_trials == 5 and not outcome.failures
    assert {name: after[name] for name in before} == before  # no finished trial ran again
    assert all(iterations == [1, 2, 3, 4] for iterations in after.values()) and len(after) == 5
    assert experiments.load_spec(tmp_path / "sweep" / "spec.yaml").num_samples == 5
    whole = run_sweep(Sweep.of(make_spec(data(tmp_path, name="whole", num_samples=5))))
    assert [t.config for t in trials(outcome)] == [t.config for t in trials(whole)]


def test_a_longer_budget_goes_on_from_the_last_checkpoints(tmp_path: Path) -> None:
    run_sweep(Sweep.of(make_spec(data(tmp_path, num_samples=3, max_concurrent=1))))
    outcome = resume_sweep(tmp_path / "sweep", num_samples=4, stop={"timesteps_total": 6 * STEPS})
    assert all(its == [1, 2, 3, 4, 5, 6] for its in rows(tmp_path / "sweep").values())
    assert outcome.num_trials == 4
    # One at a time, as the spec says, although three trials went on: their times do not overlap.
    times = []
    for file in (tmp_path / "sweep").glob("*/result.json"):
        times += [(row["timestamp"], row["trial_id"]) for row in read_json_lines(file)[-2:]]
    order = [trial for _, trial in sorted(times)]
    assert sum(a != b for a, b in pairwise(order)) <= 4, order
    # As it was extended, so it stays: nothing is left to do.
    again = resume_sweep(tmp_path / "sweep")
    assert again.num_trials == 4
    assert all(its == [1, 2, 3, 4, 5, 6] for its in rows(tmp_path / "sweep").values())


def test_asha_gets_the_rungs_of_the_longer_budget(tmp_path: Path) -> None:
    asha = {"algorithm": "asha", "grace_period": STEPS, "reduction_factor": 2}
    run_sweep(Sweep.of(make_spec(data(tmp_path, num_samples=6, scheduler=asha))))
    folder = tmp_path / "sweep"
    rungs = asha_rungs(folder)
    assert sorted(rungs) == [STEPS, 2 * STEPS, 4 * STEPS]
    ran = {name: max(iterations) for name, iterations in rows(folder).items()}
    finished = {name.split("_")[1] for name, last in ran.items() if last == 4}
    assert set(rungs[4 * STEPS]) == finished and finished

    resume_sweep(folder, stop={ENV_STEPS: 8 * STEPS})
    longer = asha_rungs(folder)
    assert sorted(longer) == [STEPS, 2 * STEPS, 4 * STEPS, 8 * STEPS]
    for at, seen in rungs.items():
        assert longer[at] == seen  # what was compared stays
    after = {name: max(iterations) for name, iterations in rows(folder).items()}
    for name, last in ran.items():
        trial = name.split("_")[1]
        if trial not in finished:
            assert after[name] == last  # pruned trials stay pruned
    values = sorted(rungs[4 * STEPS].values())
    best = [trial for trial, value in rungs[4 * STEPS].items() if value == values[-1]]
    assert set(best) <= set(longer[8 * STEPS]) <= finished
    if len(finished) > 2:  # the worst half of those at the old end does not go on
        assert len(longer[8 * STEPS]) < len(finished)
    spec = experiments.load_spec(folder / "spec.yaml")
    assert spec.scheduler.max_t == 8 * STEPS  # type: ignore[union-attr]
    assert spec.scheduler.grace_period == STEPS  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["retry_errored", "restart_errored"])
def test_failed_trials_run_again_and_no_others(tmp_path: Path, how: str) -> None:
    fails = [tmp_path / "fails", tmp_path / "fails-too"]
    keys = {
        "search_space": {"fail_file": {"grid": ["", *map(str, fails)]}},
        "checkpoint": {"frequency": 1},
        "max_failures": 0,
        "max_concurrent": 1,  # the second has to wait for the first
    }
    for file in fails:
        file.touch()
    first = run_sweep(Sweep.of(make_spec(data(tmp_path, **keys))))
    assert len(first.failures) == 2
    folder = tmp_path / "sweep"
    before = rows(folder)
    assert sorted(map(tuple, before.values())) == [(1, 2), (1, 2), (1, 2, 3, 4)]

    untouched = resume_sweep(folder)
    assert len(untouched.failures) == 2 and rows(folder) == before
    for file in fails:
        file.unlink()
    outcome = resume_sweep(folder, **{how: True})
    assert outcome.num_trials == 3 and not outcome.failures
    assert set(rows(folder)) == set(before)
    assert all(iterations == [1, 2, 3, 4] for iterations in rows(folder).values())
    setups = {
        trial.config["fail_file"]: trial.last_result["iterations_since_restore"]
        for trial in trials(outcome)
    }
    assert setups[""] == 4
    assert {setups[str(file)] for file in fails} == {2 if how == "retry_errored" else 4}
    kept = list(folder.glob("*/failed_1/result.json"))
    assert len(kept) == (2 if how == "restart_errored" else 0)


def test_a_sweep_is_not_run_by_two_processes(tmp_path: Path) -> None:
    run_sweep(Sweep.of(make_spec(data(tmp_path))))
    folder = tmp_path / "sweep"
    code = (
        "import sys, pathlib, experiments.running.sweep_lock as s\n"
        f"with s.sweep_lock(pathlib.Path({str(folder)!r})):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    root = str(Path(__file__).parents[2])
    holder = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, **pipes
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(experiments.SweepError, match=f"running in process {holder.pid} on"):
            resume_sweep(folder)
    finally:
        holder.kill()  # as a driver may be: nothing of it must be left in the way
        holder.communicate()
    with sweep_lock(folder):
        pass
    assert resume_sweep(folder).num_trials == 1


NO_EXTENSIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"num_samples": 5}, {"num_samples": 4}),
    ({"search": "grid", "search_space": {"lr": {"grid": [0.1, 0.2]}}}, {"num_samples": 4}),
    ({}, {"stop": {ENV_STEPS: 100}}),
    ({}, {"stop": {"num_env_step_sampled_lifetime": 900}}),
    ({}, {"stop": {"training_iteration": 900}}),
]


def test_what_is_no_extension_is_refused(tmp_path: Path, golden: Callable[..., None]) -> None:
    told = {}
    for keys, change in NO_EXTENSIONS:
        spec = make_spec(data(tmp_path, **keys))
        with pytest.raises(experiments.SweepError) as error:
            extended(spec, **change)
        told[f"{keys} and then {change}"] = re.sub(
            "allowed: .*;", "allowed: <all>;", str(error.value)
        )
    golden("no_extensions", told)


def test_stop_criteria_of_the_command_line() -> None:
    assert parse_stop(["a=200_000", "b=0.5"]) == {"a": 200000, "b": 0.5}
    for wrong in ("a", "a=", "=3", "a=b", "a=nan"):
        with pytest.raises(experiments.SweepError, match="METRIC=NUMBER"):
            parse_stop([wrong])


def test_a_trial_without_checkpoint_cannot_go_on(tmp_path: Path) -> None:
    run_sweep(Sweep.of(make_spec(data(tmp_path, checkpoint={"at_end": False, "frequency": 0}))))
    folder = tmp_path / "sweep"
    before = (folder / "spec.yaml").read_text()
    with pytest.raises(experiments.SweepError, match="no checkpoint to continue from"):
        resume_sweep(folder, stop={ENV_STEPS: 8 * STEPS})
    assert (folder / "spec.yaml").read_text() == before
    assert yaml.safe_load(before)["stop"] == {ENV_STEPS: 4 * STEPS}
