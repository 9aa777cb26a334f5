"""How a comparison was done, and what is to be kept in mind of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.comparison.samples import TRIALS
from analysis.comparison.shared_budget import Samples, Task
from analysis.comparison.verdict import sample_words
from analysis.names import ENV_STEPS, ITERATION, SECONDS
from analysis.statistics import interval_caution

if TYPE_CHECKING:
    from analysis.comparison.outcome import Comparison

UNITS_OF = {ENV_STEPS: "environment steps", SECONDS: "seconds of training"}
_COARSE = 0.2
"""Reports further apart than this part of the budget are worth a word."""
_SHORT = 0.8
"""A shared budget below this part of the longest run's is worth a word."""


def notes(
    found: Comparison, samples: Samples, tasks: list[Task], *, chosen: bool, given: bool
) -> list[str]:
    """Return how it was done.

    Args:
        found: The comparison.
        samples: By which runs.
        tasks: On which tasks.
        chosen: Whether the budgets are the largest that all runs reached.
        given: Whether the scales of the tasks were given.
    """
    better = "higher" if found.mode == "max" else "lower"
    unit = UNITS_OF.get(found.x, "training iterations")
    budgets = dict.fromkeys(f"{_amount(task.budget)}" for task in tasks)
    at = f"{next(iter(budgets))} {unit}"
    if len(budgets) > 1:
        at = ", ".join(f"{_amount(task.budget)} {unit} on {task.name}" for task in tasks)
    how = ", the largest budget that every run reached" if chosen else ""
    lines = [
        f"{found.metric} ({better} is better) at {at}{how}; "
        "each run counts with its value there, on the line between its reports before and after."
    ]
    for label, of_tasks in samples.items():
        words = {task: sample_words(sample) for task, sample in of_tasks.items()}
        said = dict.fromkeys(words.values())
        if len(said) == 1:
            lines.append(f"{label}: {next(iter(said))}{' on each task' * (len(tasks) > 1)}.")
        else:
            lines.append(f"{label}: {'; '.join(f'on {t}: {w}' for t, w in words.items())}.")
    if tasks[0].scaled:
        scale = "the given scores" if given else "the worst and the best compared run"
        ends = ", ".join(f"{task.name} {task.low:.4g} … {task.high:.4g}" for task in tasks)
        lines.append(f"Scores are normalised from 0 to 1 by {scale} of each task: {ends}.")
    lines.append(
        f"Intervals: {100 * found.confidence:g} % percentile bootstrap over runs"
        + (
            f"; those of pairs hold for all {len(found.pairs)} pairs at once (Bonferroni), and p "
            "is Holm's."
            if len(found.pairs) > 1
            else "."
        )
    )
    return lines


def cautions(found: Comparison, samples: Samples, left_out: list[str]) -> list[str]:
    """Return what is to be kept in mind; `left_out` are tasks that not all contenders have."""
    all_samples = [sample for of_tasks in samples.values() for sample in of_tasks.values()]
    units = {sample.unit for sample in all_samples}
    lines = [interval_caution(int(found.summary["runs"].min()))]
    if TRIALS in units:
        lines.append(
            "Configurations are compared, not the best ones: this says how well each does with "
            "settings drawn as its search drew them, and the budgets of its trials."
        )
    if any(sample.chosen_from > 1 for sample in all_samples):
        lines.append(
            "The value of a configuration that was chosen by it is optimistic, and its interval "
            "covers its seeds, not the luck of its search. p and the intervals of pairs allow for "
            "the choice; fewer finalists or more seeds (`final:`) cost less."
        )
    lines += [_short_budget(found), _coarse(found, samples)]
    uneven = [
        label
        for label, of_tasks in samples.items()
        if len({len(sample.runs) for sample in of_tasks.values()}) > 1
    ]
    if uneven:
        lines.append(
            f"{', '.join(uneven)}: as many runs of each task count as the task with the fewest has."
        )
    if left_out:
        lines.append(f"Not all have runs on {', '.join(left_out)}: left out.")
    if found.x == SECONDS:
        lines.append(
            "Seconds are comparable only of runs on the same machine with as many trials beside "
            "them; a seed of a trial of several counts with its share of the trial's."
        )
    if found.x == ITERATION:
        lines.append(
            "Iterations are comparable only where each takes as many environment steps; else use "
            "these as the budget."
        )
    return [line for line in lines if line]


def _coarse(found: Comparison, samples: Samples) -> str:
    budgets = found.tasks.set_index("task")["budget"]
    gaps = [
        (run.gap(budgets[task]) / budgets[task], label, run.gap(budgets[task]))
        for label, of_tasks in samples.items()
        for task, sample in of_tasks.items()
        for run in sample.runs
    ]
    share, label, gap = max(gaps)
    if share <= _COARSE:
        return ""
    return (
        f"Reports around the budget are up to {gap:,.10g} apart ({label}), {share:.0%} of it: what "
        "lies between is taken from a straight line."
    )


def _short_budget(found: Comparison) -> str:
    longest = found.runs.groupby("task", sort=False)["end"].max()
    shared = found.tasks.set_index("task")["budget"]
    if not (shared < _SHORT * longest).any():
        return ""
    shortest = found.runs.sort_values("end").iloc[0]
    return (
        f"Some runs went on for up to {_amount(longest.max())}, which does not count: "
        f"{shortest['trial_id']} of {shortest['algorithm']} ended at {_amount(shortest['end'])}."
    )


def _amount(value: float) -> str:
    """`21,059` steps or `17.52` seconds."""
    return f"{value:,.0f}" if value >= 1_000 or value == round(value) else f"{value:.4g}"
