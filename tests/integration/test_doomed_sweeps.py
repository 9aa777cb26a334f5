"""A mistake that every trial makes: no second attempts, and an end after the first trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cheap_sweeps import drawn
from seeded_dummy import NAME as SEEDED
from sweep_dummy import NAME, STEPS

from analysis import load_sweep
from experiments.errors import DoomedError
from experiments.monitor.failure_guard import LEAST
from experiments.running.results import Outcome
from experiments.running.runner import resume_sweep, run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep

pytestmark = pytest.mark.usefixtures("ray_here")


def sweep(tmp_path: Path, **keys: Any) -> Outcome:
    data = {
        "name": "sweep",
        "trainable": NAME,
        "storage": str(tmp_path),
        "num_samples": 12,
        "stop": {"num_env_steps_sampled_lifetime": 2 * STEPS},
        "mlflow": {"enabled": False},
        **keys,
    }
    return run_sweep(Sweep.of(make_spec(data)))


def attempts(folder: Path) -> list[int]:
    """How often each of the trials that failed was tried."""
    return [text.read_text().count("Failure # ") for text in folder.glob("*/error.txt")]


@pytest.fixture
def refusal(tmp_path: Path) -> Path:
    """While it is there, no trial can be set up."""
    file = tmp_path / "refusal"
    file.write_text("map = 'atlantis' is not allowed; allowed: crete")
    return file


def test_a_mistake_of_every_trial_ends_the_sweep_and_a_resume_takes_it_up(
    tmp_path: Path, refusal: Path
) -> None:
    with pytest.raises(DoomedError) as error:
        sweep(tmp_path, config={"refuse_file": str(refusal)}, max_failures=3)
    message = str(error.value)
    assert f"its first {LEAST} trials all failed before their first result" in message
    assert "map = 'atlantis' is not allowed; allowed: crete" in message
    folder = tmp_path / "sweep"
    assert f"resume {folder} --retry-errored" in message
    tried = attempts(folder)
    assert set(tried) == {1} and LEAST <= len(tried) <= LEAST + 1  # another may have been starting

    with pytest.raises(DoomedError):  # nothing was mended
        resume_sweep(folder, retry_errored=True)
    refusal.unlink()
    outcome = resume_sweep(folder, retry_errored=True)
    assert outcome.num_trials == 12 and not outcome.failures and outcome.best is not None
    assert {trial.status for trial in load_sweep(folder).trials} == {"TERMINATED"}


@pytest.mark.full("test_a_mistake_of_every_trial_ends_the_sweep_and_a_resume_takes_it_up")
def test_other_failures_are_retried_before_they_count(tmp_path: Path) -> None:
    with pytest.raises(DoomedError, match="the dummy fails as asked"):
        sweep(tmp_path, config={"fail_at": 1}, max_failures=1)
    tried = attempts(tmp_path / "sweep")
    assert tried.count(2) == LEAST and len(tried) <= LEAST + 1


@pytest.mark.full("test_a_mistake_of_every_trial_ends_the_sweep_and_a_resume_takes_it_up")
def test_a_sweep_with_results_goes_on_whatever_fails(tmp_path: Path) -> None:
    outcome = sweep(
        tmp_path,
        num_samples=1,
        search_space={"fail_at": {"grid": [0, 1]}, "num_epochs": {"grid": [1, 2, 4, 6]}},
        max_failures=0,
        max_concurrent=1,
    )
    assert outcome.num_trials == 8 and len(outcome.failures) == 4


@pytest.mark.full("test_a_mistake_of_every_trial_ends_the_sweep_and_a_resume_takes_it_up")
def test_where_nothing_is_left_to_stop_the_sweep_ends_as_ever(tmp_path: Path) -> None:
    with drawn():
        outcome = sweep(tmp_path, config={"fail_at": 1}, num_samples=LEAST, max_failures=0)
    assert outcome.all_failed and outcome.num_trials == LEAST and outcome.report is not None


@pytest.mark.full("test_a_mistake_of_every_trial_ends_the_sweep_and_a_resume_takes_it_up")
def test_trials_of_several_seeds_end_alike(tmp_path: Path, refusal: Path) -> None:
    with pytest.raises(DoomedError, match="seed 1: map = 'atlantis'"):
        sweep(
            tmp_path,
            trainable=SEEDED,
            config={"refuse_file": str(refusal)},
            seeds={"values": [1, 2]},
        )
    assert set(attempts(tmp_path / "sweep")) == {1}


@pytest.mark.full("test_a_mistake_of_every_trial_ends_the_sweep_and_a_resume_takes_it_up")
def test_a_final_that_cannot_run_leaves_the_search_its_policy(tmp_path: Path) -> None:
    refusal = tmp_path / "refusal"
    spec = make_spec(
        {
            "name": "sweep",
            "trainable": NAME,
            "storage": str(tmp_path),
            "config": {"refuse_file": str(refusal), "refuse_seeds_above": 1000},
            "search_space": {"lr": {"grid": [0.01, 0.1]}},
            "seed": 1,
            "final": {"top": 2, "seeds": 4},
            "stop": {"num_env_steps_sampled_lifetime": 2 * STEPS},
            "mlflow": {"enabled": False},
        }
    )
    refusal.write_text("no licence for this seed")  # held-out seeds are large numbers
    outcome = run_sweep(Sweep.of(spec))
    assert outcome.final is not None and outcome.final.winner is None
    assert [cause.rpartition(": ")[2] for _, cause in outcome.final.failures] == [
        "no licence for this seed"
    ] * LEAST
    assert not outcome.failures and outcome.best is not None
