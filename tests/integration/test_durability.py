"""What makes a sweep outlive its driver, as a whole and part by part."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forked_drivers import Driver
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from experiments.benchmarks import crash_drill
from experiments.benchmarks.crash_drill import check, drill
from experiments.durability import checkpoint_journal
from experiments.durability import keeper as durability
from experiments.durability.keeper import durable
from experiments.durability.snapshot import SnapshotSyncer, reconcile


class Forked(Driver):
    """A driver that need not import anything."""

    def __init__(self, storage: Path, *arguments: str) -> None:
        super().__init__(*arguments, cwd=storage)

    def wait(self, timeout: float = 120) -> int | None:
        self.communicate(timeout)
        return self.returncode


@pytest.mark.full("integration/test_tuner.py::test_resume_keeps_what_was_finished")
def test_a_killed_sweep_resumes_and_repeats_no_finished_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_drill, "_start", Forked)
    report = drill(tmp_path, kills=1, trials=6, seed=3, seconds=0.1)
    assert len(report.kills) == 1
    assert not report.problems, "\n".join(report.problems)
    sweep = tmp_path / "drill"
    assert not list(sweep.glob(".snapshot*"))
    # The checks can fail: a row that is lost, or a trial that ran once more, is found.
    rows = next(iter(sorted(sweep.glob("*/result.json"))))
    whole = rows.read_text()
    rows.write_text("".join(whole.splitlines(keepends=True)[1:]))
    assert any("not whole" in problem for problem in check(sweep, tmp_path, 6, 3))
    rows.write_text(whole)
    again = {**json.loads(whole.splitlines()[-1]), "num_env_steps_sampled_lifetime": 900}
    rows.write_text(whole + json.dumps(again) + "\n")
    assert any("MLflow" in problem for problem in check(sweep, tmp_path, 6, 3))


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
    decisions: dict[str, Any] = {"_cached_trial_decisions": {}, "_queued_trial_decisions": {}}
    controller = SimpleNamespace(
        get_trials=lambda: [new, fresh], _wrapped=lambda: None, **decisions
    )
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
