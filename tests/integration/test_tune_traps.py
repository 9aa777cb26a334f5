"""The traps of Tune, Optuna and MLflow that sweeps are built around, each with what shows it.

`TRAPS` names tests for each, here or elsewhere.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from dummy_sweeps import spec_of, sweep
from ray import tune
from ray.tune.search import ConcurrencyLimiter
from sweep_dummy import Dummy

from experiments.monitor.stall_watch import StallWatch, standstill
from experiments.running.tuner import prepare_tuner
from experiments.running.warm_start import History
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from experiments.trial_info import read_json_lines

pytestmark = pytest.mark.usefixtures("ray_here")
HERE, TESTS = "integration/test_tune_traps.py", Path(__file__).parents[1]

MLFLOW, TUNER = "integration/test_mlflow_logger.py", "integration/test_tuner.py"
OWN = "integration/test_own_sweeps.py"
DURABILITY, EXTEND = "integration/test_durability.py", "integration/test_extend.py"
ALGORITHMS, SPACES = "contracts/test_algorithms.py", "unit/spaces/test_search_spaces.py"
TRAPS: dict[str, list[tuple[str, str]]] = {
    "1 Ray's MLflow callback ends the sweep when PBT changes a setting": [
        (MLFLOW, "test_settings_changed_in_mid_trial_become_metrics")
    ],
    "1 Ray's MLflow callback has no parent, doubles runs after a restore, leaves them running": [
        (MLFLOW, "test_a_sweep_in_mlflow"),
        (MLFLOW, "test_a_resumed_sweep_continues_its_runs"),
        (MLFLOW, "test_trials_cut_off_by_the_end_are_killed"),
    ],
    "1 Tune calls setup() after set_state()": [
        (MLFLOW, "test_state_survives_the_order_in_which_tune_restores_it")
    ],
    "2 reset_config() that returns False hangs the sweep": [
        (ALGORITHMS, "test_reset_config_is_a_new_run"),
        (ALGORITHMS, "test_a_failed_reset_config_raises_and_names_the_setting"),
        (OWN, "test_a_class_that_cannot_be_reset_has_a_process_for_each_trial"),
        (OWN, "test_a_process_that_dies_in_a_reset_ends_no_sweep"),
        (
            "unit/sweeps/sweep/test_actor_reuse.py",
            "test_ctrl_c_is_looked_at_while_the_search_has_no_trial",
        ),
    ],
    "2 reuse of processes and ResourceChangingScheduler do not go together": [
        (
            "unit/sweeps/schedulers/test_scheduler_specs.py",
            "test_resource_changing_switches_the_reuse_of_processes_off",
        )
    ],
    "3 Tuner.restore drops the scheduler's state": [
        (DURABILITY, "test_a_killed_sweep_resumes_and_repeats_no_finished_trial"),
        ("integration/test_crash_drill.py", "test_a_sweep_killed_twice_is_whole_in_the_end"),
        ("integration/test_population.py", "test_the_schedulers_state_outlives_a_kill"),
    ],
    "3 snapshots come every 10 s and are copied file by file": [
        (DURABILITY, "test_a_snapshot_cut_short_at_any_call_is_old_or_new_never_mixed")
    ],
    "3 resumed trials repeat rows": [
        (
            "unit/outcomes/results/test_analysis_records.py",
            "test_resumed_iterations_are_there_once_as_last_written",
        )
    ],
    "3 a restored Tuner cannot change its stop criteria or its number of samples": [
        (EXTEND, "test_more_samples_are_those_of_a_larger_sweep"),
        (EXTEND, "test_a_longer_budget_goes_on_from_the_last_checkpoints"),
    ],
    "4 a nested checkpoint_score_attribute is ignored": [
        (ALGORITHMS, "test_metrics_are_flat_finite_and_named")
    ],
    "5 an exception in a callback ends fit()": [
        ("integration/test_progress.py", "test_a_broken_terminal_never_ends_the_sweep"),
        (MLFLOW, "test_a_dead_server_delays_nothing_and_is_named_once"),
    ],
    "5 a missing metric ends fit() with a traceback, or nothing ever ends": [
        ("integration/test_spec_sweeps.py", "test_a_metric_that_never_appears_ends_the_sweep")
    ],
    "5 NaN leaves an Optuna trial running": [
        (TUNER, "test_a_sweep_without_a_finite_objective_ends")
    ],
    "6 child actors beyond the bundles wait silently": [
        ("integration/test_ray.py", "test_more_env_runners_than_the_cluster_holds_are_refused"),
        ("integration/test_ray.py", "test_an_environment_that_fails_in_an_actor_is_named"),
    ],
    "6 bundles that no cluster can hold are pending for ever": [
        ("unit/sweeps/cluster/test_preflight.py", "test_placement"),
        (HERE, "test_a_standstill_is_told_with_the_right_numbers"),
    ],
    "7 an unknown name imports RLlib, which overwrites PPO": [
        (HERE, "test_tune_is_given_a_class_and_a_limit")
    ],
    "8 get_best_result gives last rows and latest checkpoints": [
        (
            "unit/outcomes/ranking/test_analysis_best.py",
            "test_the_best_checkpoint_is_the_best_one_of_the_best_trial",
        ),
        (
            "unit/outcomes/ranking/test_analysis_best.py",
            "test_checkpoints_of_nan_results_are_passed_over",
        ),
    ],
    "9 without a limit only one trial is pending": [
        (HERE, "test_tune_is_given_a_class_and_a_limit")
    ],
    "10 Tune's progress_reporter is ignored": [
        ("integration/test_progress.py", "test_the_live_table_shows_the_trials_best_first")
    ],
    "11 Tune changes the directory": [
        (HERE, "test_a_trial_stays_in_its_directory_and_writes_json")
    ],
    "12 result buffering is broken; CSV and TensorBoard cost": [
        (HERE, "test_a_trial_stays_in_its_directory_and_writes_json"),
        (
            "unit/sweeps/cluster/test_environment_variables.py",
            "test_tunes_variables_are_set_for_the_sweep_only",
        ),
    ],
    "Optuna: trials that ASHA stopped are told as complete": [
        (SPACES, "test_how_a_trial_ends_in_optuna"),
        (TUNER, "test_optuna_under_asha"),
    ],
    "Optuna: no grid, no nested domain in choice, no quniform off its step": [
        (SPACES, "test_bad_domains"),
        (SPACES, "test_every_domain_has_an_optuna_distribution_with_the_same_values"),
        ("unit/sweeps/sweep/test_spec.py", "test_each_mistake_is_one_message"),
    ],
    "Optuna: lambdas in a space cannot be saved": [(SPACES, "test_spaces_can_be_pickled")],
    "Optuna: a restored study goes on exactly": [
        (SPACES, "test_optuna_goes_on_where_it_was_saved")
    ],
    "PBT: settings of the checkpoint win over the mutated ones": [
        (ALGORITHMS, "test_under_pbt_the_mutated_settings_win_and_learned_state_is_the_donors"),
        (ALGORITHMS, "test_a_clone_draws_new_random_streams"),
    ],
    "PBT: mutations leave their bounds": [
        (
            "unit/sweeps/schedulers/test_mutation.py",
            "test_many_mutations_stay_inside_the_space_and_leave_the_rest",
        )
    ],
    "BOHB needs packages without a release": [
        (
            "unit/sweeps/schedulers/test_scheduler_specs.py",
            "test_what_a_scheduler_cannot_do_is_one_message",
        )
    ],
    "checkpoints: what save_checkpoint writes is trusted and unpickled": [
        ("unit/core/test_checkpoint.py", "test_planted_pickles_are_not_read")
    ],
    "checkpoints: the newest may be deleted before Tune has noted it": [
        (DURABILITY, "test_the_journal_replaces_checkpoints_that_the_snapshot_no_longer_has")
    ],
    "failures: a killed trial process is an error by default": [
        (HERE, "test_a_killed_trial_process_goes_on_from_its_checkpoint"),
        ("integration/test_node_dies.py", "test_trials_of_a_node_that_died_go_on_elsewhere"),
    ],
    "failures: Ctrl-C saves and returns as if all were well": [
        (TUNER, "test_resume_keeps_what_was_finished")
    ],
    "failures: retry and clean start of what failed": [
        (EXTEND, "test_failed_trials_run_again_and_no_others")
    ],
    "two sweeps of one name in one second share their files": [
        (HERE, "test_sweeps_of_one_name_in_one_second_are_apart")
    ],
    "failures: a full disk ends the sweep": [
        (DURABILITY, "test_a_full_disk_is_reported_not_raised")
    ],
}


def test_every_trap_has_its_test() -> None:
    named = {test for tests in TRAPS.values() for test in tests}
    assert not [(f, name) for f, name in named if f"def {name}" not in (TESTS / f).read_text()]


FOUR = {"stop": {"training_iteration": 4}}


def test_sweeps_of_one_name_in_one_second_are_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.tune.utils.date_str", lambda: "2026-11-28_12-00-00")
    for folder, count in ((tmp_path / "first", 2), (tmp_path / "second", 1)):
        sweep(folder, num_samples=count, **FOUR)
        assert len(list(folder.glob("sweep/*/result.json"))) == count


def tuner_of(tmp_path: Path, **keys: Any) -> tune.Tuner:
    spec = make_spec(spec_of(tmp_path, **FOUR, **keys))
    return prepare_tuner(Sweep.of(spec), History(), None).tuner


def impatient(tmp_path: Path, **keys: Any) -> tune.Tuner:
    """A tuner that warns after a third of a second in which nothing happens."""
    tuner = tuner_of(tmp_path, **keys)
    internal: Any = tuner._local_tuner
    watch = next(c for c in internal.get_run_config().callbacks if isinstance(c, StallWatch))
    watch.first_s = 0.3
    return tuner


def test_tune_is_given_a_class_and_a_limit(tmp_path: Path) -> None:
    internal: Any = tuner_of(tmp_path)._local_tuner
    assert internal.trainable is Dummy
    limiter = internal._tune_config.search_alg
    assert isinstance(limiter, ConcurrencyLimiter) and limiter.max_concurrent == 2


def test_a_trial_stays_in_its_directory_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_RESULT_BUFFER_LENGTH", "4")
    outcome = sweep(tmp_path, **FOUR, checkpoint={"at_end": False})
    assert outcome.succeeded and outcome.best is None  # no policy was asked for
    (folder,) = (file.parent for file in outcome.folder.glob("*/result.json"))
    rows = read_json_lines(folder / "result.json")
    assert {row["cwd"] for row in rows} == {os.getcwd()}
    assert [row["training_iteration"] for row in rows] == [1, 2, 3, 4]
    names = {path.name for path in folder.iterdir()}
    assert names <= {"result.json", "params.json", "params.pkl", "checkpoints.jsonl"}


def test_a_killed_trial_process_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "die").touch()
    config = {"die_file": str(tmp_path / "die")}
    outcome = sweep(tmp_path, **FOUR, config=config, checkpoint={"frequency": 1})
    assert not outcome.failures and not (tmp_path / "die").exists()
    (file,) = outcome.folder.glob("*/result.json")
    rows = read_json_lines(file)
    assert [row["training_iteration"] for row in rows] == [1, 2, 3, 4]
    assert [row["iterations_since_restore"] for row in rows] == [1, 2, 1, 2]


def test_a_standstill_is_told_with_the_right_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @ray.remote(num_cpus=1)
    class Other:
        def here(self) -> bool:
            return True

    others = [Other.remote() for _ in range(2)]
    assert all(ray.get([other.here.remote() for other in others]))
    tuner = impatient(tmp_path)

    def free() -> None:
        deadline = time.monotonic() + 240
        while "No trial has run" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.05)
        for other in others:
            ray.kill(other)

    thread = threading.Thread(target=free)
    with caplog.at_level(logging.WARNING):
        thread.start()
        (result,) = tuner.fit()
        thread.join()
    assert result.metrics is not None and result.metrics["training_iteration"] == 4
    assert "1 wait, each for (1 CPU) [PACK]" in caplog.text
    assert "The 1 live nodes have (2 CPU)" in caplog.text
    assert "Something else uses the rest" in caplog.text


def test_trials_whose_processes_start_wait_for_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """First in processes of their own, then in one that another trial has left."""
    space = {"lr": {"grid": [0.01, 0.02, 0.03]}}
    tuner = impatient(tmp_path, config={"set_up_seconds": 1.0}, search_space=space)
    with caplog.at_level(logging.WARNING):
        assert len(tuner.fit()) == 3
    told = [r.message for r in caplog.records if "No trial has" in r.message]
    assert told and all("processes of this sweep are still starting" in text for text in told)
    assert "wait" in told[0] and "Something else" not in caplog.text


def test_a_standstill_for_ever_is_told_as_such() -> None:
    request = tune.PlacementGroupFactory([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    text = standstill([SimpleNamespace(placement_group_factory=request)], 60)  # type: ignore[list-item]
    assert "can never start" in text and "--address" in text
