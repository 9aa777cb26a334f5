"""A sweep, read: from its folder, from a `ResultGrid`, or from MLflow."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.home import expanded
from analysis.results.records import MLFLOW, Sweep, TrialRecord
from analysis.results.rows import ResultsError, as_config, read_json, read_rows
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from ray.tune import ResultGrid

    from analysis.results.records import Source

_LAST = "tunescape_last_result"  # beside what Tune keeps of a trial
_READERS = min(8, os.cpu_count() or 1)


def load_sweep(results: Source) -> Sweep:
    """Read a sweep.

    Args:
        results: A `ResultGrid` (what `Tuner.fit` returns), the path of a sweep folder
            (`runs/<name>`: running, finished, killed or moved from elsewhere),
            `mlflow:<experiment>/<sweep>` or `mlflow:<run id>` (see
            `analysis.results.mlflow.load_mlflow_sweep`), or a `Sweep` that was read before.

    Raises:
        ResultsError: The folder does not exist or holds no sweep.
    """
    if isinstance(results, Sweep):
        return results
    if is_mlflow(results):
        from analysis.results.mlflow import load_mlflow_sweep

        return load_mlflow_sweep(str(results).removeprefix(MLFLOW))
    if isinstance(results, str | os.PathLike):
        return _sweep_from_folder(expanded(results).resolve())
    if hasattr(results, "experiment_path") and hasattr(results, "get_best_result"):
        return _sweep_from_grid(results)
    raise ResultsError(
        "results must be a ResultGrid, the path of a sweep folder or mlflow:<experiment>/<sweep>, "
        f"not {type(results).__name__}"
    )


def _sweep_from_folder(path: Path) -> Sweep:
    if not path.is_dir():
        hint = suggestion(path.name, _sweeps_in(path.parent), most=3, cutoff=0.4)
        raise ResultsError(f"{path}: there is no such sweep folder{hint}")
    states = tune_states(path)
    folders = {p.name: p for p in sorted(path.iterdir()) if _is_trial_folder(p)}
    if not states and not folders:
        inside = _sweeps_in(path)
        hint = f"; it contains the sweeps {', '.join(inside)}" if inside else ""
        raise ResultsError(
            f"{path}: not a sweep folder (no experiment_state-*.json and no trial folders){hint}"
        )
    found: list[tuple[Path, dict[str, Any]]] = []
    for state in states:
        folder = folders.pop(str(state.get("relative_logdir")), None)
        found.append((folder or path / str(state.get("relative_logdir")), state))
    # Tune's snapshot is up to some seconds old: a killed sweep may hold younger trials than it
    # names.
    found += [(folder, {}) for folder in folders.values()]
    with ThreadPoolExecutor(_READERS) as pool:  # Arrow reads without the interpreter's lock
        return Sweep(path.name, path, list(pool.map(_trial_from_folder, *zip(*found, strict=True))))


def _trial_from_folder(folder: Path, state: dict[str, Any]) -> TrialRecord:
    frame, configs = read_rows(folder)
    params = read_json(folder / "params.json")
    config = configs[-1] if configs else as_config(state.get("config") or params)
    searched = state.get("evaluated_params")
    status = str(state.get("status") or ("RUNNING" if len(frame) else "PENDING"))
    if status in ("RUNNING", "PENDING", "PAUSED"):
        # The folder is younger than the snapshot: believe what the trial itself wrote.
        if len(frame) and bool(frame.iloc[-1].get("done", False)):
            status = "TERMINATED"
        elif (folder / "error.txt").exists() and not len(frame):
            status = "ERROR"
    elif status == "TERMINATED" and _was_cut_off(frame, state):
        status = "RUNNING"
    return TrialRecord(
        trial_id=str(state.get("trial_id") or _id_of(folder, frame)),
        path=folder,
        status=status,
        config=config,
        searched=tuple(map(str, searched)) if isinstance(searched, dict | tuple) else (),
        frame=frame,
        row_configs=configs if any(c != config for c in configs) else None,
    )


def _was_cut_off(frame: pd.DataFrame, state: Mapping[str, Any]) -> bool:
    """Tell whether a trial ended with its sweep: by a time budget, or by Ctrl-C as Tune sees it.

    No row says that it is the last one. Nor does that of a trial which a scheduler ended while it
    was paused; there Tune's last result does.
    """
    if "done" not in frame or not len(frame) or bool(frame["done"].iloc[-1]):
        return False
    last = last_result(state)
    return last is not None and not (last.get("done") or "pruned" in last)


def last_result(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the last result that Tune's snapshot has of a trial; None where it has none.

    Args:
        state: One of `tune_states`.
    """
    last = state.get(_LAST)
    if isinstance(last, str):  # of a folder: Tune's metadata of the trial, as JSON
        try:
            last = json.loads(last).get("last_result")
        except (AttributeError, ValueError, RecursionError):
            return None
    return last if isinstance(last, Mapping) else None


def _sweep_from_grid(grid: ResultGrid) -> Sweep:
    # Statuses and ids are only in the analysis that the grid wraps; its trials are in the grid's
    # order.
    trials = []
    for number, tune_trial in enumerate(grid._experiment_analysis.trials):
        result = grid[number]
        folder = Path(result.path)
        searched = tuple(str(name) for name in tune_trial.evaluated_params or ())
        state = {
            "trial_id": tune_trial.trial_id,
            "status": tune_trial.status,
            "config": tune_trial.config,
            "evaluated_params": searched,
            _LAST: tune_trial.last_result,
        }
        trial = _trial_from_folder(folder, state)
        if not folder.is_dir() and result.metrics_dataframe is not None:  # remote storage
            frame = result.metrics_dataframe
            trial.frame = frame.loc[:, [c for c in frame if not str(c).startswith("config/")]]
        # Tune knows the result of each checkpoint, also of trainables whose checkpoints do not say.
        request: Any = tune_trial.placement_group_factory
        trial.held = dict(request.required_resources) if request is not None else None
        trial.told = {
            Path(checkpoint.path).name: dict(metrics)
            for checkpoint, metrics in result.best_checkpoints or ()
        }
        trials.append((_number_of({"experiment_tag": tune_trial.experiment_tag}), trial))
    # Tune puts a trial that failed and was started again at the end.
    trials.sort(key=lambda numbered: numbered[0])
    path = Path(grid.experiment_path)
    return Sweep(path.name, path, [trial for _, trial in trials])


def tune_states(path: Path) -> list[dict[str, Any]]:
    """Return the states of the trials in Tune's newest snapshot; its pickled parts stay unread."""
    for file in sorted(path.glob("experiment_state-*.json"), reverse=True):
        snapshot = read_json(file)
        if not isinstance(snapshot, dict):
            continue  # torn by a kill: the one before it is whole
        try:
            states = [
                {**as_config(json.loads(state)), _LAST: metadata}
                for state, metadata in snapshot["trial_data"]
            ]
        except (KeyError, TypeError, ValueError, RecursionError):
            continue
        # Tune keeps them in the order in which they last changed.
        return sorted(states, key=_number_of)
    return []


def _number_of(state: dict[str, Any]) -> int:
    """Return the trial's number in its sweep, which begins its tag: `3_lr=0.1`."""
    number = str(state.get("experiment_tag")).partition("_")[0]
    return int(number) if number.isdecimal() else 0


def is_mlflow(source: object) -> bool:
    """Tell whether a source names a sweep in MLflow; a command line may have made a path of it."""
    return isinstance(source, str | os.PathLike) and os.fspath(source).startswith(MLFLOW)


def is_sweep_folder(path: Path) -> bool:
    """Tell whether Tune saved a sweep there, or at least a trial."""
    if not path.is_dir():
        return False
    return any(path.glob("experiment_state-*.json")) or any(map(_is_trial_folder, path.iterdir()))


def _is_trial_folder(path: Path) -> bool:
    names = ("result.json", "progress.csv", "params.json")
    return path.is_dir() and any((path / name).exists() for name in names)


def _sweeps_in(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    return sorted(p.name for p in path.iterdir() if any(p.glob("experiment_state-*.json")))


def _id_of(folder: Path, frame: pd.DataFrame) -> str:
    return str(frame["trial_id"].iloc[-1]) if "trial_id" in frame and len(frame) else folder.name
