"""The folder of a new sweep, where one of that name lies already."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from experiments.errors import ExperimentError, PreflightError
from experiments.spec.paths import LOCK_FILE, SPEC_FILE, command_line, sweep_dir
from experiments.spec.schema import SweepSpec
from search_spaces.documents import Document, SpecError

_MATRIX_FILE, _BEGUN = "matrix.yaml", "tuner.pkl"


def is_used(folder: Path) -> bool:
    """Tell whether a folder holds anything."""
    if not folder.is_dir():
        return folder.exists()
    return any(path.name != LOCK_FILE for path in folder.iterdir())


def has_results(folder: Path) -> bool:
    """Tell whether a trial below a sweep's or matrix's folder has a result."""
    return any(path.stat().st_size for path in folder.rglob("result.json"))


def check_unused(folder: Path) -> None:
    """See that a sweep's folder holds nothing.

    Raises:
        PreflightError: It does.
    """
    if not is_used(folder):
        return
    ways = ["choose another name with --name"]
    if folder.is_dir() and any((folder / name).is_file() for name in (SPEC_FILE, _MATRIX_FILE)):
        ways.insert(0, f"continue that sweep with `{command_line('resume', folder)}`")
    if _is_sweeps(folder):
        ways.append("delete it for the new one with --overwrite")
    raise PreflightError(f"{folder} exists already: {', or '.join(ways)}")


def check_replaceable(folder: Path, *, overwrite: bool = False) -> None:
    """See that a sweep's folder holds nothing, or a sweep that may make room.

    Args:
        folder: The folder.
        overwrite: Whether a sweep with results may, too.

    Raises:
        PreflightError: It holds something else.
    """
    if not (is_used(folder) and _is_sweeps(folder) and (overwrite or not has_results(folder))):
        check_unused(folder)


def check_document_folder(document: Document, *, overwrite: bool = False) -> None:
    """See `check_replaceable`, of what a spec says before anything else of it is looked at."""
    keys = ("name", "storage")
    given = {key: document.data[key] for key in keys if key in document.data}
    try:
        folder = sweep_dir(SweepSpec.model_validate(given))
    except (ValidationError, SpecError, ExperimentError):  # told with its line when it is checked
        return
    check_replaceable(folder, overwrite=overwrite)


def _is_sweeps(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    is_begun = (folder / SPEC_FILE).is_file() and (folder / _BEGUN).is_file()
    return is_begun or (folder / _MATRIX_FILE).is_file()
