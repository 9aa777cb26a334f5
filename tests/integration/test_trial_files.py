"""The optional files in a trial's folder: a CSV with every column, and TensorBoard's events."""

from __future__ import annotations

import csv
import json
import pickle
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorboardX
from tensorboardX.proto.event_pb2 import Event

from experiments.monitor.trial_files import CSV_FILE, CsvFiles, TensorBoardFiles, file_loggers

STEPS = "num_env_steps_sampled_lifetime"


def _trial(folder: Path) -> Any:
    return SimpleNamespace(trial_id="a", local_path=str(folder))


def _result(iteration: int, **more: Any) -> dict[str, Any]:
    step = {"training_iteration": iteration, STEPS: 100 * iteration, "timestamp": 7 + iteration}
    return {"episode_return_mean": float(iteration), **step, "config": {"lr": 0.1}, **more}


def _write(folder: Path, results: list[dict[str, Any]]) -> None:
    (folder / "result.json").write_text("".join(json.dumps(row) + "\n" for row in results))


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / CSV_FILE).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("end", ["complete", "error", "experiment"])
def test_the_csv_has_the_keys_that_the_first_result_lacks(end: str, tmp_path: Path) -> None:
    """Tune's own leaves them out: `evaluation/...` of every tenth iteration would be lost."""
    files, trial = CsvFiles(), _trial(tmp_path)
    files.on_trial_start(0, [trial], trial)
    late = _result(2, evaluation={"return": 9.0}, note='a "b", c', layers=[1, 2], none=None)
    _write(tmp_path, [_result(1), late, _result(3), {**_result(3), "episode_return_mean": 4.0}])
    if end == "experiment":
        files.on_experiment_end([trial])
    else:
        getattr(files, f"on_trial_{end}")(0, [trial], trial)
    rows = _rows(tmp_path)
    assert [row["episode_return_mean"] for row in rows] == ["1.0", "2.0", "4.0"]
    assert [row["evaluation/return"] for row in rows] == ["", "9.0", ""]
    assert (rows[1]["note"], rows[1]["layers"], rows[1]["none"]) == ('a "b", c', "[1, 2]", "")
    assert not [column for column in rows[0] if column.startswith("config")]


@pytest.mark.parametrize("files", [CsvFiles(), TensorBoardFiles()])
def test_a_full_disk_is_reported_once_and_ends_no_sweep(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    _write(tmp_path, [_result(1)])
    monkeypatch.setattr(csv.DictWriter, "writeheader", full)
    monkeypatch.setattr(tensorboardX, "SummaryWriter", full)
    for _ in range(2):
        trial = _trial(tmp_path)
        files.on_trial_start(0, [trial], trial)
        if isinstance(files, TensorBoardFiles):
            files.on_trial_result(0, [trial], trial, _result(1))
        files.on_trial_complete(0, [trial], trial)
    assert caplog.text.count("No space left") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def _scalars(folder: Path) -> list[tuple[str, int, float, float]]:
    """Tag, step, time and value of every scalar, from TensorBoard's record files."""
    return [
        (value.tag, event.step, event.wall_time, value.simple_value)
        for file in sorted(folder.glob("events.out.tfevents.*"))
        for event in _events(file)
        for value in event.summary.value
    ]


def _events(file: Path) -> list[Any]:
    data, events = file.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        events.append(Event.FromString(data[12 : 12 + length]))
        data = data[12 + length + 4 :]
    return events


def test_tensorboard_gets_metrics_by_env_step_and_time(tmp_path: Path) -> None:
    files, trial = TensorBoardFiles(), _trial(tmp_path)
    files.on_trial_start(0, [trial], trial)
    for i in (1, 2):
        files.on_trial_result(0, [trial], trial, _result(i, bad=float("nan"), timesteps_total=9))
    files.on_trial_complete(0, [trial], trial)
    scalars = _scalars(tmp_path)
    returns = [point[1:] for point in scalars if point[0] == "episode_return_mean"]
    assert returns == [(100, 8.0, 1.0), (200, 9.0, 2.0)]
    assert {point[0] for point in scalars} == {"episode_return_mean", "training_iteration", STEPS}


def test_tensorboard_voids_what_a_trial_reports_again(tmp_path: Path) -> None:
    files, trial = TensorBoardFiles(), _trial(tmp_path)
    files.on_trial_start(0, [trial], trial)
    for i in (1, 2, 3):
        files.on_trial_result(0, [trial], trial, _result(i))
    files.on_trial_recover(0, [trial], trial)
    files.on_trial_start(0, [trial], trial)
    files.on_trial_result(0, [trial], trial, _result(2))
    files.on_trial_complete(0, [trial], trial)
    later = max(tmp_path.glob("events.out.tfevents.*"), key=lambda path: path.stat().st_mtime_ns)
    events = _events(later)
    assert [event.step for event in events if event.session_log.status] == [200]


def test_json_is_always_written_and_the_others_on_request() -> None:
    made = [type(files).__name__ for files in file_loggers(["tensorboard", "csv"])]
    assert made == ["ResultRows", "TensorBoardFiles", "CsvFiles"]
    assert [type(f).__name__ for f in file_loggers([])] == ["ResultRows"]
    again = pickle.loads(pickle.dumps(TensorBoardFiles()))  # Tune pickles callbacks
    again.on_experiment_end([])
