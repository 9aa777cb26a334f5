"""How a sweep and its trials stand, by what its folder says."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
import yaml
from analysis_sweeps import make_sweep, row
from watched_folders import SPEC, Folder

from analysis import ResultsError, leaderboard
from experiments.watch.driver import driver_is_alive
from experiments.watch.watched_sweep import WatchedSweep
from experiments.watch.words import failures, sentences


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "sweep")


def looked(folder: Folder, sweep: WatchedSweep | None = None) -> WatchedSweep:
    sweep = sweep or WatchedSweep(folder.path)
    sweep.look()
    return sweep


def statuses(sweep: WatchedSweep) -> dict[str, str]:
    return {trial.trial_id: trial.status for trial in sweep.trials}


def words(sweep: WatchedSweep) -> str:
    return " ".join(sentences(sweep, sweep.best_first()))


def test_from_its_beginning_to_its_end(folder: Folder) -> None:
    sweep = looked(folder)
    assert sweep.phase == "waiting" and sweep.total == 3
    assert words(sweep).startswith("The sweep has not begun: no trial has started. 0 of 3 trials")
    with folder.running():
        folder.add("a", rows=[])
        assert statuses(looked(folder, sweep)) == {"a": "running"} and sweep.phase == "running"
        folder.report("a", 1, 5.0, timestamp=time.time() - 60)
        folder.add("b", rows=[row(1, 7.0)])
        looked(folder, sweep)
        assert "0 of 3 trials done; 2 running, 1 not started. Best so far: b with 7 (mean" in words(
            sweep
        )
        assert "Time since the first trial began: 1 min" in words(sweep)
        folder.report("a", 2, 9.0, done=True, pruned=False)
        folder.report("b", 2, 8.0, done=True, pruned=True)
        folder.add("c", rows=[])
        (folder.path / "trial_c" / "error.txt").write_text("Traceback:\nValueError: too far\n")
        looked(folder, sweep)
        assert statuses(sweep) == {"a": "finished", "b": "pruned", "c": "failed"}
        assert sweep.phase == "closing" and sweep.report is None
        assert failures(sweep) == ["c failed: ValueError: too far"]
    folder.killed()
    (folder.path / "report.html").write_text("<p>all of it")
    assert looked(folder, sweep).phase == "ended" and sweep.report == folder.path / "report.html"
    assert "3 of 3 trials done (1 finished, 1 stopped early, 1 failed). Best: a with 9" in words(
        sweep
    )


def test_a_sweep_that_was_killed_and_is_resumed(folder: Folder) -> None:
    folder.add("a", rows=[row(1, 1.0, done=True)])
    folder.add("b", rows=[row(1, 2.0)])
    folder.killed()
    sweep = looked(folder)
    assert statuses(sweep) == {"a": "finished", "b": "interrupted"} and sweep.phase == "stopped"
    assert "stopped before all trials ended. `tunescape resume" in words(sweep)
    with folder.running():
        assert statuses(looked(folder, sweep))["b"] == "running" and sweep.phase == "running"
        # It was extended, too.
        (folder.path / "spec.yaml").write_text(yaml.safe_dump({**SPEC, "num_samples": 5}))
        assert looked(folder, sweep).total == 5


def test_what_tune_says_of_an_end(folder: Folder) -> None:
    """Of a trial that ended while it was paused, or with its sweep, no row says so."""
    for name in "pic":
        folder.add(name, rows=[row(1, 1.0)])
    folder.end("p", "TERMINATED", {"pruned": True})
    folder.end("i", "TERMINATED", {"training_iteration": 1})
    folder.end("c", "PAUSED")
    with folder.running():
        found = statuses(looked(folder))
    assert found == {"p": "pruned", "i": "interrupted", "c": "paused"}


def test_a_driver_elsewhere_is_judged_by_what_it_writes(folder: Folder) -> None:
    folder.add("a", rows=[row(1, 1.0, timestamp=time.time())])
    (folder.path / ".driver").write_text(json.dumps({"pid": 1, "host": "another"}))
    sweep = looked(folder)
    assert sweep.is_alive is None and sweep.phase == "running"
    folder.report("a", 2, 1.0, timestamp=time.time() - 900)
    assert looked(folder, sweep).phase == "silent"


def test_a_lock_is_held_or_not(folder: Folder) -> None:
    assert driver_is_alive(folder.path) is None
    with folder.running():
        assert driver_is_alive(folder.path) is True
    if Path("/proc/locks").exists():  # this process lives on, as a notebook does
        assert driver_is_alive(folder.path) is False
    folder.killed()
    assert driver_is_alive(folder.path) is False
    (folder.path / ".driver").write_text("{")
    assert driver_is_alive(folder.path) is None


def test_the_order_is_that_of_the_leaderboard(tmp_path: Path) -> None:
    values = {"a": [1.0, 5.0], "b": [5.0, 5.0], "c": [9.0, 2.0], "d": [float("nan")], "e": [7.0]}
    trials = {
        key: {"rows": [row(i, v) for i, v in enumerate(curve, 1)], "tag": f"{n}_x"}
        for n, (key, curve) in enumerate(values.items(), 1)
    }
    path = make_sweep(tmp_path, trials)
    for mode in ("max", "min"):
        sweep = WatchedSweep(path, mode=mode)
        sweep.look()
        found = [trial.trial_id for trial in sweep.best_first()]
        assert found == leaderboard(path, mode=mode)["trial_id"].tolist()


def test_a_sweep_that_is_overwritten_or_deleted(folder: Folder) -> None:
    folder.add("a")
    sweep = looked(folder)
    shutil.rmtree(folder.path)
    assert looked(folder, sweep).phase == "gone" and sweep.trials == []
    new = Folder(folder.path, objective={"metric": "score", "mode": "min"})
    new.add("b", rows=[row(1, None, score=3.0)])
    looked(new, sweep)
    assert sweep.objectives == [("score", "min")] and [*statuses(sweep)] == ["b"]
    assert [trial.log.course.last for trial in sweep.trials] == [3.0]


def test_a_folder_of_another_kind_is_refused(tmp_path: Path, folder: Folder) -> None:
    folder.add("a")
    with pytest.raises(ResultsError, match=r"not a sweep folder .* it contains the sweeps sweep"):
        WatchedSweep(tmp_path)
    with pytest.raises(ResultsError, match="no such sweep folder; did you mean 'sweep'"):
        WatchedSweep(tmp_path / "swep")
    sweep = WatchedSweep(folder.path, "episode_return_min")
    sweep.look()
    with pytest.raises(ResultsError, match=r"no trial reports .* did you mean .*_return_mean"):
        sweep.require_metric()
    with pytest.raises(ResultsError, match="mode must be 'max' or 'min', not 'most'"):
        WatchedSweep(folder.path, mode="most")


def test_a_spec_that_was_changed_by_hand(folder: Folder) -> None:
    (folder.path / "spec.yaml").write_text("objectives: [3]\nsearch: tpe\nnum_samples: many\n")
    sweep = looked(folder)
    assert sweep.total is None and sweep.objectives == [("episode_return_mean", "max")]
