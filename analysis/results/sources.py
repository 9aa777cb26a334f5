"""Several sweeps at once: folders, folders of sweeps, ResultGrids, MLflow."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.home import expanded
from analysis.results.load import is_mlflow, is_sweep_folder, load_sweep
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from analysis.results.records import Source

_DEPTH = 2
"""A folder of sweeps may hold folders of sweeps: `runs` holds a matrix."""


def load_sweeps(sources: Source | Sequence[Source]) -> list[Sweep]:
    """Read one or several sweeps.

    A folder that is no sweep but holds some (a matrix's, or `runs`) stands for those in it, in
    the order of their names; the same folder counts once.

    Args:
        sources: What `load_sweep` takes, or several of it.

    Returns:
        The sweeps in the order in which they were given. No two have the same name: where they
        would, as many parent folders are put before it as tell them apart (`a/ppo`, `b/ppo`).

    Raises:
        ResultsError: There is none, or one of them cannot be read.
    """
    sweeps: list[Sweep] = []
    seen: set[Path] = set()
    for source in _listed(sources):
        if not _is_path(source):
            sweeps.append(load_sweep(source))
            continue
        folder = expanded(source).resolve()  # type: ignore[arg-type]
        for path in sorted(_sweep_folders(folder), key=_natural) or [folder]:
            if path not in seen:
                seen.add(path)
                sweeps.append(load_sweep(path))
    if not sweeps:
        raise ResultsError("no sweep was given")
    names = _unique_names(sweeps)
    return [
        sweep if sweep.name == name else replace(sweep, name=name)
        for sweep, name in zip(sweeps, names, strict=True)
    ]


def are_several(sources: Source | Sequence[Source]) -> bool:
    """Tell whether frames of `sources` name the sweep: a list does, and a folder of sweeps."""
    if _is_path(sources):
        return not is_sweep_folder(expanded(sources).resolve())  # type: ignore[arg-type]
    return isinstance(sources, Sequence) and not isinstance(sources, str)


def _listed(sources: Source | Sequence[Source]) -> Sequence[Source]:
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return sources
    return [sources]


def _is_path(source: object) -> bool:
    return isinstance(source, str | os.PathLike) and not is_mlflow(source)


def _sweep_folders(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Yield the folder itself if it is a sweep's, else those of the sweeps in it."""
    if is_sweep_folder(folder):
        yield folder
    elif depth and folder.is_dir():
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.name.startswith("."):
                yield from _sweep_folders(inner, depth - 1)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort `lr_2` before `lr_10`."""
    parts = re.findall(r"\d+|\D+", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _unique_names(sweeps: Sequence[Sweep]) -> list[str]:
    names = [sweep.name for sweep in sweeps]
    for depth in range(2, max(len(sweep.path.parts) for sweep in sweeps) + 1):
        places = {(name, s.path) for name, s in zip(names, sweeps, strict=True)}
        counts = Counter(name for name, _ in places)
        names = [
            name if counts[name] == 1 else "/".join(sweep.path.parts[-depth:])
            for name, sweep in zip(names, sweeps, strict=True)
        ]
    for number, name in enumerate(names):  # the same sweep twice, as a folder and as a grid
        copies = names[:number].count(name)
        if copies:
            names[number] = f"{name} ({copies + 1})"
    return names
