"""A driver killed by SIGKILL resumes without losing or repeating anything.

Run as a program this file is that driver: `python -m test_durability {run,resume} DIR`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forked_drivers import Driver
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from small_ray import only_the_needed

from experiments.durability import checkpoint_journal
from experiments.durability import keeper as durability
from experiments.durability.keeper import SweepKeeper, durable
from experiments.durability.snapshot import SnapshotSyncer, reconcile

NUM_TRIALS = 6
LAST_ITERATION = 8
STEP_S = 0.1


class Counting(tune.Trainable):
    """Scores its config; keeps its count in a JSON checkpoint; writes what it does to a log."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0
        self.log = Path(config["log"])
        self._write("setup")

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        time.sleep(STEP_S)
        self.count += 1
        self._write("step")
        return {"score": self.config["x"] * self.count, "count": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "count.json").write_text(json.dumps(self.count))

    def load_checkpoint(self, checkpoint_dir: str) -> None:  # type: ignore[override]
        self.count = json.loads(Path(checkpoint_dir, "count.json").read_text())
        self._write("restore")

    def _write(self, what: str) -> None:
        with self.log.open("a") as stream:
            stream.write(f"{self.trial_id} {what} {self.count}\n")


def drive(command: str, sweep_dir: Path) -> None:
    """Runs or resumes the sweep of the tests below, and notes how it ended in `end.json`."""
    import ray
    from ray.tune.search.optuna import OptunaSearch

    from experiments.tracking.logger import MLflowLogger

    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"
    with only_the_needed():
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    if command == "resume":
        reconcile(sweep_dir)
        tuner = tune.Tuner.restore(str(sweep_dir), trainable=Counting, resume_unfinished=True)
    else:
        scheduler, keeper = durable(
            ASHAScheduler(
                time_attr="count",
                metric="score",
                mode="max",
                max_t=LAST_ITERATION,
                grace_period=2,
                reduction_factor=2,
            )
        )
        tuner = tune.Tuner(
            Counting,
            param_space={"x": tune.uniform(0.5, 1.0), "log": str(sweep_dir.parent / "log.txt")},
            tune_config=tune.TuneConfig(
                search_alg=OptunaSearch(metric="score", mode="max", seed=0),
                scheduler=scheduler,
                num_samples=NUM_TRIALS,
                max_concurrent_trials=2,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name=sweep_dir.name,
                storage_path=str(sweep_dir.parent),
                callbacks=[
                    keeper,
                    MLflowLogger(
                        f"sqlite:///{sweep_dir.parent}/mlflow.db",
                        "sweep",
                        metric="score",
                        step_metric="count",
                    ),
                ],
                stop={"count": LAST_ITERATION},
                checkpoint_config=tune.CheckpointConfig(
                    checkpoint_frequency=2, num_to_keep=1, checkpoint_at_end=True
                ),
                verbose=0,
            ),
        )
    grid = tuner.fit()
    # On a resume these are the objects out of tuner.pkl, not those made above.
    keeper, mlflow_logger = tuner._local_tuner._run_config.callbacks[:2]
    assert isinstance(keeper, SweepKeeper)
    mlflow_logger.close()
    rungs = {int(at): sorted(seen) for at, seen in keeper.scheduler._brackets[0]._rungs}
    trials = {
        r.metrics["trial_id"]: {
            "count": r.metrics["count"],
            "pruned": r.metrics["pruned"],
            "checkpoint": bool(r.checkpoint),
        }
        for r in grid
        if r.metrics
    }
    end = {"rungs": rungs, "trials": trials, "errors": len(grid.errors), "num": len(grid)}
    (sweep_dir.parent / "end.json").write_text(json.dumps(end))
    ray.shutdown()


def _start(command: str, sweep_dir: Path) -> Driver:
    here = Path(__file__)
    return Driver(command, str(sweep_dir), cwd=here.parent, module=here.stem)


def _finished(sweep_dir: Path) -> set[str]:
    """Returns the trials whose last row is on disk, which is what counts as finished."""
    done = set()
    for path in sweep_dir.glob("*/result.json"):
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        done |= {row["trial_id"] for row in rows if row.get("done")}
    return done


def _log(sweep_dir: Path) -> list[tuple[str, str, int]]:
    log = sweep_dir.parent / "log.txt"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(trial, what, int(count)) for trial, what, count in map(str.split, lines)]


def test_a_killed_sweep_resumes_and_repeats_no_finished_trial(tmp_path: Path) -> None:
    sweep_dir = tmp_path / "sweep"
    driver = _start("run", sweep_dir)
    deadline = time.monotonic() + 240
    while len(_finished(sweep_dir)) < 2:
        assert driver.poll() is None, driver.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    os.killpg(driver.pid, signal.SIGKILL)  # the driver and the local Ray that it started
    driver.communicate()
    finished = _finished(sweep_dir)
    assert 2 <= len(finished) < NUM_TRIALS
    before = _log(sweep_dir)

    driver = _start("resume", sweep_dir)
    output, _ = driver.communicate(timeout=300)
    assert driver.returncode == 0, output
    end = json.loads((tmp_path / "end.json").read_text())
    after = _log(sweep_dir)[len(before) :]

    assert end["errors"] == 0
    assert end["num"] == len(end["trials"]) == NUM_TRIALS
    assert finished.isdisjoint(trial for trial, _, _ in after)
    # An unfinished trial goes on from a checkpoint, if it had one, at or after its last even count.
    unfinished = {trial for trial, _, _ in before} - finished
    for trial in unfinished:
        reached = max(count for t, _, count in before if t == trial)
        restored = [count for t, what, count in after if t == trial and what == "restore"]
        assert not restored or restored[0] >= reached - 3
        assert restored or reached < 4
    # The rungs hold every trial: ASHA judged the later ones against those from before the kill.
    assert end["rungs"]["2"] == sorted(end["trials"])
    for trial in end["trials"].values():
        assert trial["pruned"] == (trial["count"] < LAST_ITERATION)
        assert trial["checkpoint"]
    assert not list(sweep_dir.glob(".snapshot*"))
    _check_mlflow(f"sqlite:///{tmp_path}/mlflow.db", end["trials"])
    # The rows on disk are whole, and each trial's start with its first.
    for path in sweep_dir.glob("*/result.json"):
        counts = [json.loads(line)["count"] for line in path.read_text().splitlines()]
        assert counts[0] == 1
        assert set(counts) == set(range(1, max(counts) + 1))


def _check_mlflow(uri: str, trials: dict[str, Any]) -> None:
    """One parent, one run per trial, every iteration in it once: continued, not doubled."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tunescape")
    runs = client.search_runs([experiment.experiment_id])
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert len(runs) == len(children) + 1
    ended = [run for run in children if run.info.status == "FINISHED"]
    assert sorted(run.data.tags["tunescape.trial_id"] for run in ended) == sorted(trials)
    # A trial made in the last 0.1 s is unknown to the resumed sweep, which makes another.
    assert {run.info.status for run in runs} <= {"FINISHED", "KILLED"}
    for run in ended:
        trial = trials[run.data.tags["tunescape.trial_id"]]
        points = client.get_metric_history(run.info.run_id, "score")
        assert max(point.step for point in points) == trial["count"]
        assert len({point.step for point in points}) == len(points)
        outcome = "pruned" if trial["pruned"] else "finished"
        assert run.data.tags["tunescape.outcome"] == outcome


def test_a_durable_scheduler_is_the_scheduler_it_was_made_of() -> None:
    asha = ASHAScheduler(metric="score", mode="max", max_t=4)
    scheduler, keeper = durable(asha)
    assert isinstance(scheduler, ASHAScheduler)
    assert type(asha) is ASHAScheduler
    assert "_keeper" not in asha.__dict__
    # Tune pickles both into one tuner.pkl; they must still belong together when it is read.
    again_scheduler, again = pickle.loads(pickle.dumps([scheduler, keeper]))
    assert again.scheduler is again_scheduler
    assert isinstance(again_scheduler, ASHAScheduler)
    assert again_scheduler._max_t == 4


class _Remembering(FIFOScheduler):
    """A scheduler with trials, not ids, in its state, as HyperBand and PBT have."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[Trial, int] = {}

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        self.seen[trial] = 0


def test_a_restored_scheduler_refers_to_the_trials_of_the_resumed_sweep() -> None:
    old, new = (Trial("__fake", stub=True, trial_id="a") for _ in range(2))
    scheduler, keeper = durable(_Remembering())
    scheduler.on_trial_add(None, old)
    scheduler.seen[old] = 7  # type: ignore[attr-defined]
    saved = pickle.loads(pickle.dumps(keeper.get_state()))

    scheduler, keeper = durable(_Remembering())
    keeper.set_state(saved)
    scheduler.on_trial_add(None, new)  # Tune adds all trials again: must not reset the 7
    fresh = Trial("__fake", stub=True, trial_id="b")
    scheduler.on_trial_add(None, fresh)
    controller = SimpleNamespace(get_trials=lambda: [new, fresh], _wrapped=lambda: None)
    assert keeper._resume is not None
    keeper._resume.complete(controller, has_journal=False)  # type: ignore[arg-type]
    assert scheduler.seen == {new: 7, fresh: 0}  # type: ignore[attr-defined]


def test_a_trial_ended_at_its_full_time_was_not_pruned() -> None:
    scheduler, keeper = durable(
        ASHAScheduler(metric="s", mode="max", max_t=4, grace_period=1, reduction_factor=2)
    )
    outcomes = {}
    for name, scores in {"a": [5, 5, 5, 5], "b": [1, 1, 1, 1]}.items():
        trial = Trial("__fake", stub=True, trial_id=name)
        scheduler.on_trial_add(None, trial)
        for iteration, score in enumerate(scores, start=1):
            result = {"s": score, "training_iteration": iteration}
            if scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP:
                result["done"] = True
                keeper.on_trial_result(0, [], trial, result)
                outcomes[name] = (iteration, result["pruned"])
                break
    assert outcomes == {"a": (4, False), "b": (1, True)}


def _stage(staging: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _read(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_snapshot_cut_short_at_any_call_is_old_or_new_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that changes the disk is in turn the one before which the driver dies."""

    class Killed(BaseException):
        pass

    old = {"state.json": "old", "t1/result.json": "1\n", "t2/params.json": "x"}
    new = {**old, "state.json": "new", "t1/result.json": "1\n2\n", "t3/result.json": "1\n"}
    outcomes = []
    for survive in range(40):
        staging, sweep_dir = tmp_path / f"staging{survive}", tmp_path / f"sweep{survive}"
        staging.mkdir()
        syncer = SnapshotSyncer(staging)
        _stage(staging, old)
        assert syncer.sync_up(str(staging), str(sweep_dir))
        for name in ("t1/result.json",):  # grows in place, as a logger writes it
            with (staging / name).open("a") as stream:
                stream.write("2\n")
        syncer.touch("t1")
        syncer.touch("t3")
        _stage(staging, {"state.json": "new", "t3/result.json": "1\n"})

        left = survive
        with monkeypatch.context() as patch:

            def mortal(original: Any) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    nonlocal left
                    if left == 0:
                        raise Killed
                    left -= 1
                    return original(*args, **kwargs)

                return call

            for owner, name in (
                (os, "replace"),
                (os, "rename"),
                (os, "unlink"),
                (os, "rmdir"),
                (os, "mkdir"),
                (Path, "write_bytes"),
                (Path, "write_text"),
                (Path, "unlink"),
                (Path, "mkdir"),
            ):
                patch.setattr(owner, name, mortal(getattr(owner, name)))
            with contextlib.suppress(Killed):
                syncer.sync_up(str(staging), str(sweep_dir))
        reconcile(sweep_dir)
        assert _read(sweep_dir) in (old, new)
        outcomes.append(_read(sweep_dir) == new)
        reconcile(sweep_dir)
        assert _read(sweep_dir) in (old, new)
    assert outcomes == sorted(outcomes)  # up to the commit old, from then on new
    assert not outcomes[0]
    assert outcomes[-1]


def test_a_snapshot_leaves_out_held_trials_and_what_came_from_the_sweep(tmp_path: Path) -> None:
    staging, sweep_dir = tmp_path / "staging", tmp_path / "sweep"
    _stage(staging, {"report.json": "downloaded by Tune, stale"})
    held = {"t1"}
    syncer = SnapshotSyncer(staging, held=lambda: held)
    _stage(staging, {"t1/result.json": "1\n", "t2/result.json": "1\n", ".x-tmp": "", "a.lock": ""})
    syncer.sync_up(str(staging), str(sweep_dir))
    assert _read(sweep_dir) == {"t2/result.json": "1\n"}
    held.clear()
    syncer.sync_up(str(staging), str(sweep_dir))
    assert _read(sweep_dir) == {"t1/result.json": "1\n", "t2/result.json": "1\n"}


def test_a_full_disk_is_reported_not_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    staging = tmp_path / "staging"
    syncer = SnapshotSyncer(staging)
    _stage(staging, {"state.json": "1"})

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        assert not syncer.sync_up(str(staging), str(tmp_path / "sweep"))
        assert not syncer.sync_up(str(staging), str(tmp_path / "sweep"))
    assert caplog.text.count("No space left") == 1
    assert syncer.sync_up(str(staging), str(tmp_path / "sweep"))
    assert _read(tmp_path / "sweep") == {"state.json": "1"}


def test_a_save_that_failed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for wait in ("_RETRY_S", "_MIN_PERIOD_S", "_SPACING"):
        monkeypatch.setattr(durability, wait, 0.0)
    staging, sweep_dir = tmp_path / "staging", tmp_path / "sweep"
    _, keeper = durable(FIFOScheduler())
    keeper._syncer = syncer = SnapshotSyncer(staging)

    def checkpoint(force: bool) -> None:  # as Tune's, which swallows a failed copy
        _stage(staging, {"state.json": str(time.monotonic())})
        syncer.sync_up(str(staging), str(sweep_dir))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    keeper._controller = SimpleNamespace(checkpoint=checkpoint)  # type: ignore[assignment]
    trial: Any = SimpleNamespace(trial_id="a", relative_logdir="t1")
    for owner, name in ((Path, "write_bytes"), (keeper._controller, "checkpoint")):
        keeper._dirty, keeper._in_save = True, set()
        with monkeypatch.context() as patch:  # in the copy, then in what is copied
            patch.setattr(owner, name, full)
            for _ in range(2):
                keeper.on_step_end(0, [trial])
                assert not keeper._in_save
        keeper.on_step_end(0, [trial])  # although nothing else happened
        assert keeper._in_save == {"a"}
        assert _read(sweep_dir) == _read(staging)
    assert caplog.text.count("No space left") == 2  # once each


def test_a_trial_that_failed_instead_of_being_ended_is_not_pruned(tmp_path: Path) -> None:
    scheduler, keeper = durable(FIFOScheduler())
    folder = SimpleNamespace(trial_driver_staging_path=str(tmp_path), trial_fs_path=str(tmp_path))
    trial = Trial("__fake", stub=True, trial_id="a", storage=folder)
    keeper.note_pruned(trial)
    scheduler.on_trial_error(None, trial)
    result: dict[str, Any] = {"done": True}  # of a later attempt
    keeper.on_trial_result(0, [], trial, result)
    assert result["pruned"] is False


def test_the_journal_replaces_checkpoints_that_the_snapshot_no_longer_has(tmp_path: Path) -> None:
    from ray.train._internal.session import _TrainingResult
    from ray.train._internal.storage import StorageContext
    from ray.tune import Checkpoint, CheckpointConfig

    storage = StorageContext(str(tmp_path), "sweep", trial_dir_name="t")
    trial = Trial(
        "__fake",
        stub=True,
        trial_id="a",
        storage=storage,
        checkpoint_config=CheckpointConfig(num_to_keep=1),
    )
    trial.storage.trial_dir_name = "t"
    folder = Path(trial.storage.trial_fs_path)
    manager = trial.run_metadata.checkpoint_manager

    def save(index: int) -> None:
        path = folder / f"checkpoint_{index:06d}"
        path.mkdir(parents=True)
        trial.run_metadata.last_result = {"training_iteration": index, "config": {"x": 1}}
        checkpoint_journal.append(trial, str(path))

    save(0)
    manager.register_checkpoint(
        _TrainingResult(Checkpoint(str(folder / "checkpoint_000000")), {"training_iteration": 0})
    )
    save(1)
    save(2)
    (folder / "checkpoint_000000").rmdir()  # Tune keeps one
    (folder / "checkpoint_000003").mkdir()  # half written when the kill came
    with (folder / checkpoint_journal.JOURNAL).open("a") as stream:
        stream.write('{"checkpoint": "checkpoint_0000')

    newest = checkpoint_journal.adopt(trial)
    assert newest is not None
    assert newest.result["training_iteration"] == 2
    assert Path(trial.checkpoint.path).name == "checkpoint_000002"
    assert trial.latest_checkpoint_result.metrics["training_iteration"] == 2
    assert trial.storage.current_checkpoint_index == 2


if __name__ == "__main__":
    drive(sys.argv[1], Path(sys.argv[2]))
