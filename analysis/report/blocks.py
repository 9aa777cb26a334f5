"""What stands on the page: blocks of words, figures, tables and commands."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from analysis.comparison.comparison import compare
from analysis.figures.comparison import comparison_figures
from analysis.numbers import count, listed
from analysis.overview.groups import groups
from analysis.overview.overview import ReportData
from analysis.report.reproduce import commands_of, sweep_commands
from analysis.report.sections import SECTIONS, Panels, Section, draw, drawn_panels
from analysis.report.tables import (
    MAX_ROWS,
    Table,
    comparison_table,
    final_table,
    front_table,
    groups_table,
    leaderboard_table,
    seeds_table,
)
from analysis.report.words import Summary, summary
from analysis.results.failures import Failure
from analysis.results.rows import ResultsError
from analysis.statistics import interval_caution

Commands = list[tuple[str, str]]

_MAX_CAUSES = 20
_MAX_ERROR_CHARACTERS = 6_000


@dataclass
class Folded:
    """Something that is shown when one asks for it."""

    title: str
    key: str = ""
    text: str = ""
    commands: Commands = field(default_factory=list)


@dataclass
class Picture:
    """A picture that is a file, on the page as a whole.

    Attributes:
        source: Its bytes as a `data:` address.
        alt: What it shows, in words.
        caption: What stands below it.
    """

    source: str
    alt: str
    caption: str


@dataclass
class Block:
    """A part of the page with a heading."""

    key: str
    title: str
    words: list[str] = field(default_factory=list)
    panels: Panels | None = None
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    folded: list[Folded] = field(default_factory=list)
    commands: Commands = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class SweepPage:
    """What the page says of one sweep."""

    key: str
    name: str
    summary: Summary
    parts: list[Block]


def sweep_page(data: ReportData, key: str, top: int) -> SweepPage:
    """Return all blocks of a sweep, in the page's order; those without content are left out.

    Args:
        data: The sweep.
        key: What its ids begin with.
        top: Rows of the leaderboard that are shown before one asks for the rest.
    """
    prefix = f"{key}-"
    parts = [_leaderboard(data, prefix, top)]
    told: set[str] = set()
    for section in SECTIONS if data.winner is not None else ():
        block = _section(section, data, prefix)
        if block.panels is not None:  # the same reason once, without the folder's path
            reasons = [_reason(reason, data) for reason in block.panels.reasons]
            block.panels.reasons = [r for r in dict.fromkeys(reasons) if r not in told]
            told.update(reasons)
        if block.tables or not (block.panels is None or block.panels.empty):
            parts.append(block)
    parts += [*_pictures(data, prefix), *_failures(data, prefix)]
    parts += [_environment(data, prefix), _reproduce(data, prefix)]
    return SweepPage(key, data.name, summary(data), parts)


def _reason(text: str, data: ReportData) -> str:
    """Return why something is missing, as a sentence; errors begin with the folder."""
    said = text.replace(f"{data.folder}: ", "").rstrip(".")
    return f"{said[:1].upper()}{said[1:]}."


def _leaderboard(data: ReportData, prefix: str, top: int) -> Block:
    block = Block(f"{prefix}leaderboard", "Leaderboard")
    if not data.sweep.trials:
        block.words.append("The sweep has no trials yet.")
        return block
    if runs := groups(data):
        few = interval_caution(min(len(run.values) for run in runs))
        block.words.append(f"Configurations, each over its seeds. {few}".strip())
        block.tables.append(groups_table(data, runs))
    block.tables.append(leaderboard_table(data, top, _anchors(data, prefix)))
    return block


def _section(section: Section, data: ReportData, prefix: str) -> Block:
    block = Block(f"{prefix}{section.key}", section.title, panels=draw(section, data, prefix))
    if section.key == "seeds" and (table := seeds_table(data)):
        block.tables.append(table)
    if section.key == "final" and (table := final_table(data)):
        block.tables.append(table)
    if section.key == "cost" and (table := front_table(data, _anchors(data, prefix))):
        block.words.append("Trials on the front: no other trial is as good and costs less.")
        block.tables.append(table)
    return block


def _pictures(data: ReportData, prefix: str) -> Iterator[Block]:
    """Return a block for each picture that the sweep drew of its best policy."""
    for picture, png in data.pictures.items():
        block = Block(f"{prefix}{picture.key}", picture.title)
        block.pictures.append(Picture(_embedded(png), picture.alt, picture.caption))
        yield block


def _embedded(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _failures(data: ReportData, prefix: str) -> Iterator[Block]:
    """Return one entry for each cause, however many trials share it."""
    if not data.failures:
        return
    causes: dict[tuple[str, bool], list[Failure]] = {}
    for failure in data.failures:
        causes.setdefault((failure.cause, failure.recovered), []).append(failure)
    block = Block(f"{prefix}failures", "Failures")
    if len(causes) > _MAX_CAUSES:
        block.words.append(f"The {_MAX_CAUSES} most common of {len(causes)} causes.")
    most = sorted(causes.items(), key=lambda item: -len(item[1]))
    for (cause, recovered), found in most[:_MAX_CAUSES]:
        names = [failure.trial_id for failure in found]
        shown = listed(names) if len(names) <= 3 else f"{', '.join(names[:3])}, …"
        after = ", and continued from a checkpoint" if recovered else ""
        text = found[-1].text.strip()
        cut = "…\n" if len(text) > _MAX_ERROR_CHARACTERS else ""
        title = f"{count(len(found), 'trial')} ({shown}){after}: {cause}"
        block.folded.append(Folded(title, text=cut + text[-_MAX_ERROR_CHARACTERS:]))
    yield block


def _environment(data: ReportData, prefix: str) -> Block:
    block = Block(f"{prefix}environment", "Environment")
    runs = data.environment.get("runs")
    if isinstance(runs, list) and runs:
        block.facts = _facts(runs[-1])
        for run in runs[:-1]:
            lines = "\n".join(f"{name}: {value}" for name, value in _facts(run))
            block.folded.append(Folded(f"An earlier start, {run.get('started', '')}", text=lines))
    else:
        block.words.append("The sweep's folder does not record versions, commit and machine.")
    if data.spec:
        text = yaml.safe_dump(data.spec, sort_keys=False, allow_unicode=True)
        block.folded.append(Folded("The spec, spec.yaml", text=text))
    return block


def _facts(run: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the names and values of one start of the sweep, nested ones in a line each."""
    facts: list[tuple[str, str]] = []
    for name, value in run.items():
        if isinstance(value, dict):
            facts += [(str(inner), str(text)) for inner, text in value.items()]
        elif value is not None:
            facts.append((str(name), str(value)))
    return facts


def _anchors(data: ReportData, prefix: str) -> dict[str, str]:
    """Return where the commands of each trial are; without a spec there are none."""
    listed_trials = data.ranked[:MAX_ROWS] if data.spec else []
    return {trial.trial_id: f"{prefix}trial-{trial.trial_id}" for trial, _ in listed_trials}


def _reproduce(data: ReportData, prefix: str) -> Block:
    block = Block(f"{prefix}reproduce", "Reproduce")
    block.words.append(
        "The same versions and the same kind of machine give the same numbers. Folders are "
        "relative to the folder in which the sweep was started."
    )
    if data.spec:
        block.commands = sweep_commands(data)
        anchors = _anchors(data, prefix)
        for rank, (trial, score) in enumerate(data.ranked[:MAX_ROWS], start=1):
            name = f"{rank}. {trial.trial_id}" if score.found else trial.trial_id
            lines = commands_of(data, trial)
            block.folded.append(Folded(name, anchors[trial.trial_id], commands=lines))
    else:
        block.words.append("The sweep's folder has no spec.yaml, so there are no commands.")
    return block


def comparison_block(sweeps: Sequence[ReportData]) -> Block | None:
    """Return the comparison of the sweeps, or why there is none; None for a single one."""
    if len(sweeps) < 2:
        return None
    block = Block("comparison", "Comparison")
    judged = {(data.metric, data.mode) for data in sweeps}
    if len(judged) > 1:
        names = ", ".join(sorted(metric for metric, _ in judged))
        block.words.append(
            f"The sweeps have different objectives ({names}), so there is no comparison."
        )
        return block
    (metric, mode) = judged.pop()
    try:
        found = compare([data.sweep for data in sweeps], metric, mode)
    except ResultsError as error:
        why = str(error)
        for data in sweeps:  # by name, not by path: the page is passed on
            why = why.replace(str(data.folder), data.name)
        block.words.append(f"The sweeps cannot be compared: {why}.")
        return block
    block.words += found.lines
    block.tables.append(comparison_table(found))
    block.panels = Panels()
    drawn_panels(block.panels, comparison_figures(found), "", "comparison")
    block.cautions = found.cautions
    block.notes = found.notes
    return block
