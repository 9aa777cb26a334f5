"""The lineage of a population: who went on from whom, and the schedule of settings of a trial."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.names import finite
from analysis.ranking.leaderboard import ranked
from analysis.results.load import load_sweep
from analysis.results.records import Sweep
from analysis.results.rows import ResultsError
from analysis.results.sources import are_several, load_sweeps

if TYPE_CHECKING:
    from ray.tune import ResultGrid

    from analysis.results.records import Source

LINEAGE_FILE = "lineage.jsonl"
_OF_AN_EXPLOIT = ("time_attr", "budget", "donor_budget", "score", "donor_score")

Segment = tuple[float, float]
"""From one budget to another."""


@dataclass(frozen=True)
class Exploit:
    """One trial took a donor's place and mutated its settings.

    Attributes:
        number: 1 for the first of the sweep.
        trial: Id of the trial that was replaced.
        donor: Id of the trial whose checkpoint it went on from.
        budget: The budget that the trial had used, which was lost.
        donor_budget: The budget of the checkpoint.
        time_attr: What the budgets count.
        score: The score of the trial, if it was finite.
        donor_score: The score of the donor.
        before: The trial's settings before by dotted name.
        donor_settings: The donor's settings.
        after: The trial's settings from then on.
    """

    number: int
    trial: str
    donor: str
    budget: float
    donor_budget: float
    time_attr: str
    score: float | None
    donor_score: float | None
    before: dict[str, Any]
    donor_settings: dict[str, Any]
    after: dict[str, Any]


def read_lineage(folder: str | os.PathLike[str]) -> list[Exploit]:
    """Return all exploits of a sweep, oldest first.

    Args:
        folder: The sweep's folder, `runs/<name>`.

    Raises:
        ResultsError: There is no lineage, or it cannot be read.
    """
    file = Path(folder) / LINEAGE_FILE
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise ResultsError(
            f"{folder} has no {LINEAGE_FILE}: it is no sweep with the scheduler pbt or pb2, or no "
            "trial was replaced in it"
        ) from None
    try:
        return [_exploit(json.loads(line)) for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{file} cannot be read: {error}") from None


def _exploit(data: dict[str, Any]) -> Exploit:
    names = [name for name in Exploit.__dataclass_fields__ if name != "number"]
    return Exploit(number=data["exploit"], **{name: data[name] for name in names})


def ancestry(exploits: list[Exploit], trial: str) -> list[Exploit]:
    """Return the exploits that a trial's final weights went through, oldest first.

    Going back from its end: the last exploit of the trial, then what its donor had gone through
    until then, and so on.
    """
    chain: list[Exploit] = []
    before = float("inf")
    while True:
        own = [e for e in exploits if e.trial == trial and e.number < before]
        if not own:
            return chain[::-1]
        last = own[-1]
        chain.append(last)
        trial, before = last.donor, last.number


def schedule(exploits: list[Exploit], trial: str) -> list[tuple[float, dict[str, Any]]]:
    """Return the settings that a trial's final weights were trained with, each from a budget on.

    Returns:
        Budget and settings by dotted name; the first budget is 0.

    Raises:
        ResultsError: The trial and its donors never changed their settings.
    """
    chain = ancestry(exploits, trial)
    if not chain:
        raise ResultsError(f"trial {trial} never changed its settings: there is no schedule")
    result = [(0.0, chain[0].donor_settings)]
    for exploit in chain:
        while result and exploit.donor_budget <= result[-1][0]:
            result.pop()  # the donor was replaced before, and has not trained since
        result.append((exploit.donor_budget, exploit.after))
    return [(0.0, result[0][1]), *result[1:]]


def segments(exploits: list[Exploit], trial: str, end: float) -> list[Segment]:
    """Return from which budget to which a trial trained between its exploits."""
    starts, ends = [0.0], []
    for exploit in exploits:
        if exploit.trial == trial:
            ends.append(exploit.budget)
            starts.append(exploit.donor_budget)
    return list(zip(starts, [*ends, end], strict=True))


def line_of_descent(exploits: list[Exploit], trial: str, end: float) -> list[tuple[str, Segment]]:
    """Return the stretches that a trial's final weights were trained in, and by which trials."""
    line: list[tuple[str, Segment]] = []
    for exploit in reversed(ancestry(exploits, trial)):
        line.append((exploit.trial, (exploit.donor_budget, end)))
        trial, end = exploit.donor, exploit.donor_budget
    return [(trial, (0.0, end)), *reversed(line)]


def winner(
    sweep: ResultGrid | Sweep | str | os.PathLike[str],
    metric: str = "episode_return_mean",
    mode: str = "max",
) -> str:
    """Return the id of the trial whose last result is the best: its final weights are worth most.

    One that ended without a finite value has none that are; ties are those of
    `analysis.ranking.order`.

    Raises:
        ResultsError: No trial ended with a finite value of `metric`.
    """
    loaded = load_sweep(sweep if not isinstance(sweep, os.PathLike) else Path(sweep))
    if any(metric in trial.frame.columns for trial in loaded.trials):
        for trial, score in ranked(loaded, metric, mode):
            if score.found and len(finite(trial.frame[metric].iloc[-1:])):
                return trial.trial_id
    raise ResultsError(f"no trial ended with a finite value of {metric!r}")


def schedule_frame(folder: str | os.PathLike[str], trial: str) -> pd.DataFrame:
    """Return a trial's schedule: one row for each change, with the budget and each setting.

    Args:
        folder: The sweep's folder.
        trial: Id of the trial, e.g. the winner's.

    Example:
        >>> schedule_frame("runs/pbt_cartpole", "4c1f8_00002")  # doctest: +SKIP
    """
    exploits = read_lineage(folder)
    rows = schedule(exploits, trial)
    time_attr = exploits[0].time_attr
    return pd.DataFrame([{time_attr: budget, **settings} for budget, settings in rows])


def lineage_frame(results: Source | Sequence[Source]) -> pd.DataFrame:
    """Return the exploits of populations: who took whose place, when, and with which settings.

    Args:
        results: Folders of PBT or PB2 sweeps, or what else `load_sweeps` takes that has a folder.

    Returns:
        One row per exploit, oldest first: `exploit` (from 1), `trial_id` (that was replaced),
        `donor_id`, `time_attr` (what budgets count), `budget` (that the trial lost),
        `donor_budget`, `score`, `donor_score`, and of each mutated setting
        `before/<setting>`, `donor/<setting>` and `after/<setting>`, nested ones joined by
        `/`. Of several sweeps the first column is `sweep`; those without a lineage have no
        rows.

    Raises:
        ResultsError: No sweep has a lineage.
    """
    sweeps = load_sweeps(results)
    found = {s.name: read_lineage(s.path) for s in sweeps if (s.path / LINEAGE_FILE).is_file()}
    if not found:
        read_lineage(sweeps[0].path)  # says why there is none
    rows = []
    for name, exploits in found.items():
        for exploit in exploits:
            row: dict[str, Any] = {"sweep": name} if are_several(results) else {}
            row |= {"exploit": exploit.number, "trial_id": exploit.trial, "donor_id": exploit.donor}
            row |= {key: getattr(exploit, key) for key in _OF_AN_EXPLOIT}
            for when in ("before", "donor", "after"):
                settings = exploit.donor_settings if when == "donor" else getattr(exploit, when)
                row |= {f"{when}/{k.replace('.', '/')}": v for k, v in settings.items()}
            rows.append(row)
    frame = pd.DataFrame(rows)
    return frame.astype(dict.fromkeys(("score", "donor_score"), float))
