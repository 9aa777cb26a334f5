"""Who takes part in a comparison: sweeps by the label of their algorithm."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from analysis.names import environment_of
from analysis.results.records import Sweep, TrialRecord
from analysis.results.rows import ResultsError
from analysis.results.sources import load_sweeps

if TYPE_CHECKING:
    from analysis.results.records import Source

    Sources: TypeAlias = "Mapping[str, Source | Sequence[Source]] | Sequence[Source] | Source"
    """Sweeps by label; or sweeps, or texts `label=folder`; or a folder that holds sweeps."""


def contenders(sources: Sources) -> dict[str, list[Sweep]]:
    """Return the sweeps of each contender.

    A sweep's label is what was written before it (`PPO=runs/a`), else its name; of a folder of
    sweeps (a matrix's) the name of each without its environment. Sweeps with the same label are one
    contender on several tasks.

    Args:
        sources: See `Sources`.

    Raises:
        ResultsError: Fewer than two contenders, a sweep cannot be read, or a label is empty.
    """
    found: dict[str, list[Sweep]] = {}
    for label, given in _labelled(sources):
        sweeps = load_sweeps(given)
        for sweep in sweeps:
            name = label or (sweep.name if len(sweeps) == 1 else _without_env(sweep))
            found.setdefault(name, []).append(sweep)
    found = _distinct(found)
    if len(found) < 2:
        names = ", ".join(found) or "none"
        raise ResultsError(
            f"a comparison takes two or more, not {len(found)} ({names}); the same label, or the "
            "same folder twice, is one"
        )
    return found


def tasks_of(sweep: Sweep) -> dict[str, list[TrialRecord]]:
    """Return the trials on each environment; those of a trainable that names none are on `""`."""
    tasks: dict[str, list[TrialRecord]] = {}
    for trial in sweep.trials:
        env = environment_of(trial.config)
        tasks.setdefault("" if env is None else str(env), []).append(trial)
    return tasks


def _labelled(sources: Sources) -> Iterable[tuple[str, Source | Sequence[Source]]]:
    if isinstance(sources, Mapping):
        yield from sources.items()
        return
    several = isinstance(sources, Sequence) and not isinstance(sources, str)
    given: Sequence[Source] = sources if several else [sources]  # type: ignore[assignment, list-item]
    for source in given:
        if not isinstance(source, str) or "=" not in source or os.path.exists(source):
            yield "", source
            continue
        label, _, path = source.partition("=")
        if not label or not path:
            raise ResultsError(f"{source!r}: write LABEL=FOLDER, or FOLDER alone")
        yield ("", source) if os.sep in label else (label, path)


def _without_env(sweep: Sweep) -> str:
    """Return the name of a matrix's sweep without the part that stands for the environment."""
    name = sweep.path.name
    for env in tasks_of(sweep):
        # As `experiments.spec.matrix` writes a value into a folder's name.
        part = re.sub(r"[^A-Za-z0-9_.+-]+", "-", env.rpartition(":")[2]).strip("-.")
        if part and part in name:
            name = name.replace(part, "", 1).replace("--", "-").strip("-")
    return name or sweep.name


def _distinct(found: dict[str, list[Sweep]]) -> dict[str, list[Sweep]]:
    """Count a folder once under a label; refuse two sweeps on one task under one."""
    for label, sweeps in found.items():
        unique = list({sweep.path: sweep for sweep in sweeps}.values())
        seen: dict[str, Sweep] = {}
        for sweep in unique:
            for env in tasks_of(sweep):
                if env in seen:
                    raise ResultsError(
                        f"{label!r} names two sweeps on {env or 'the same task'}: "
                        f"{seen[env].path} and {sweep.path}; give each a label: LABEL=FOLDER"
                    )
                seen[env] = sweep
        found[label] = [replace(sweep, name=label) for sweep in unique]
    return found
