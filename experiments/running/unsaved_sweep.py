"""A sweep that was cut off before Tune saved a trial: nothing in its folder can be continued."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from experiments.environment_file import ENVIRONMENT_FILE
from experiments.errors import SweepError
from experiments.output_files import unfinished
from experiments.spec.paths import LOCK_FILE, SPEC_FILE
from experiments.sweep.load import dump_spec, read_spec

# What a sweep writes before a snapshot has trials. Trials have folders with their settings.
_OURS = {SPEC_FILE, ENVIRONMENT_FILE, LOCK_FILE, ".validate_storage_marker"}
_OURS |= {unfinished(Path(ENVIRONMENT_FILE)).name}
_STATE = "experiment_state-"
_TUNES = (
    *("tuner.pkl", "trainable.pkl", _STATE),
    *("callback-states-", "search_gen_state-", "searcher-state-"),
)
_NO_TRIALS = b'{"trial_data": []'  # as Tune's first snapshot begins, which Tune cannot restore
_TRIAL_FILES = ("params.json", "params.pkl")
_OF_TRIALS = (*_TRIAL_FILES, "progress.csv", "error.", "events.out.tfevents.")


def was_saved(folder: Path) -> bool:
    """Tell whether Tune has saved a trial of a sweep, so that the sweep can be continued."""
    return any(_has_trials(path) for path in folder.glob(f"{_STATE}*.json"))


def _has_trials(state: Path) -> bool:
    with state.open("rb") as stream:
        return stream.read(len(_NO_TRIALS)) != _NO_TRIALS


def remove_unsaved(folder: Path) -> None:
    """Remove what such a sweep left in its folder, and the folder.

    Args:
        folder: The sweep's folder, whose lock the caller holds.

    Raises:
        SweepError: There is something in it that such a sweep has not written: results of trials,
            or files of somebody else. Nothing is removed.
    """
    if any(folder.glob("*/result.json")):
        raise SweepError(
            f"{folder}: the state of the sweep is missing; delete the folder and run "
            f"{folder / SPEC_FILE} again"
        )
    foreign = sorted(_foreign(folder))
    if foreign:
        shown = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if foreign[3:] else "")
        raise SweepError(
            f"{folder}: no sweep was saved here, and a new one would delete {shown}; "
            f"`tunescape run {folder / SPEC_FILE} --name …` starts one in another folder"
        )
    shutil.rmtree(folder)


def _foreign(folder: Path) -> Iterator[str]:
    """Yield the names of what a sweep does not write before it is saved."""
    spec, begun = folder / SPEC_FILE, (folder / "tuner.pkl").exists()
    if not begun and dump_spec(read_spec(spec)) != spec.read_text(encoding="utf-8"):
        yield SPEC_FILE  # written by hand: a sweep writes it out complete
    for path in folder.iterdir():
        if path.is_symlink():
            yield path.name
        elif path.is_dir():
            if not any((path / name).is_file() for name in _TRIAL_FILES):
                yield path.name
            for inner in path.iterdir():
                if not (inner.is_file() and inner.name.startswith(_OF_TRIALS)):
                    yield f"{path.name}/{inner.name}"
        elif path.name not in _OURS and not path.name.startswith(_TUNES):
            yield path.name
