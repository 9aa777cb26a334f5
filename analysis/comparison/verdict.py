"""What a comparison shows, in words that claim no more than its intervals, and how it was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.comparison.pairs import MIN_RUNS, MIN_RUNS_OF_TASKS, MIN_SCORES
from analysis.comparison.samples import HELD_OUT, TRIALS, Sample
from analysis.comparison.shared_budget import Samples, Task
from analysis.names import END, ENV_STEPS, ITERATION, SECONDS, TRAINED
from analysis.statistics import ENOUGH_SEEDS, interval_caution

if TYPE_CHECKING:
    from analysis.comparison.outcome import Comparison

Pair = Mapping[str, Any]

UNITS_OF = {
    ENV_STEPS: "environment steps",
    TRAINED: "steps trained on",
    SECONDS: "seconds of training",
    ITERATION: "training iterations",
}
_COARSE = 0.2
"""Reports further apart than this part of the budget are worth a word."""
_SHORT = 0.8
"""A shared budget below this part of the longest run's is worth a word."""


def verdict_lines(pairs: pd.DataFrame) -> list[str]:
    """Return a sentence per pair; before them, where there are several, which stand unbeaten.

    Args:
        pairs: What `compare_pairs` gave, and a column `handicap`: why it would be unfair to call a
            better; empty if it would not.
    """
    rows: list[Pair] = pairs.to_dict("records")  # type: ignore[assignment]
    lines = [pair_line(row) for row in rows]
    if len(rows) > 1:
        names = list(dict.fromkeys([*pairs["a"], *pairs["b"]]))
        beaten = {row["b"] for row in rows if row["better"] and not row["handicap"]}
        standing = [name for name in names if name not in beaten]
        lines.insert(0, f"Not shown to be worse than any other: {', '.join(standing)}.")
    return lines


def pair_line(pair: Pair) -> str:
    """Return what can be said of a pair."""
    a, b = pair["a"], pair["b"]
    found = f"P(improvement) {interval(pair['probability'], pair['low'], pair['high'], '.2f')}"
    if not pair["enough"]:
        return (
            f"Too few runs to compare {a} with {b}: {pair['runs_a']} and {pair['runs_b']} "
            f"({_least(pair['tasks'])}); {found} is no evidence."
        )
    p = f"p = {pair['p_adjusted']:.2g}"
    if pair["chosen_from"] > 1:
        each = " or fewer on each task" if pair["tasks"] > 1 else ""
        p += f" after the choice of {a} among {pair['chosen_from']}{each}"
    if not pair["better"]:
        needed = pair["needed"]
        power = ""
        if needed <= 1:
            power = f" With so many runs P(improvement) must reach {needed:.2f} to show one."
        return f"The data do not show a difference between {a} and {b}: {found}, {p}.{power}"
    if pair["handicap"]:
        why = f"but the data do not show it: {pair['handicap']}"
        return f"{a} looks better than {b} ({found}, {p}), {why}."
    ends = pair["difference_low"], pair["difference_high"]
    size = f"difference of the IQMs {interval(pair['difference'], *ends)}"
    unclear = ", which may be 0, so its size is not known" if ends[0] <= 0 <= ends[1] else ""
    return f"{a} is better than {b}: {found}, {p}; {size}{unclear}."


def _least(tasks: int) -> str:
    if tasks > 1:
        return f"at least {MIN_RUNS_OF_TASKS} of each, and {MIN_SCORES} over all tasks"
    return f"at least {MIN_RUNS} of each, better {ENOUGH_SEEDS}"


def handicap(a: Sample, b: Sample) -> str:
    """Return why it would be unfair to call a better than b; empty if it would not."""
    if a.lost * b.started > b.lost * a.started:
        return (
            f"{a.lost} of its {a.started} runs failed, diverged or are not finished, and are "
            f"left out; of the other's runs, {b.lost} of {b.started}"
        )
    learning = sorted({sample.learns for sample in (a, b)} - {""})
    if learning:
        return (
            f"each trial of {' or '.join(learning)} was proposed from the results of earlier ones, "
            "so trials are not independent runs, and p and the interval are too optimistic; repeat "
            "the search with several seeds, or compare finals"
        )
    return ""


def sample_words(sample: Sample) -> str:
    """Say by which runs a contender is judged."""
    count = len(sample.runs)
    runs = f"{count} runs" if count > 1 else "1 run"
    of = f"the best of {sample.chosen_from} by these values" if sample.chosen_from > 1 else ""
    if sample.unit == TRIALS:
        words = f"{count} configurations, each with its value over its seeds"
    elif sample.unit == HELD_OUT:
        winner = of or "the only one"
        words = f"{runs} on held-out seeds of its final's winner, {winner}"
    else:
        words = f"{runs} of its {'best' if of else 'only'} configuration{', ' * bool(of)}{of}"
    lost = f"{sample.lost} of {sample.started} runs" if sample.unit == TRIALS else sample.lost
    left_out = f"; {lost} left out (failed, diverged or not finished)" if sample.lost else ""
    return words + left_out


def interval(value: float, low: float, high: float, form: str = ".4g") -> str:
    """Return `480 [450, 495]`; a dash where there is no interval."""
    ends = f"[{low:{form}}, {high:{form}}]" if low == low else "[–]"
    return f"{value:{form}} {ends}"


def notes(
    found: Comparison, samples: Samples, tasks: list[Task], *, chosen: bool, given: bool
) -> list[str]:
    """Return how it was done.

    Args:
        found: The comparison.
        samples: The runs by which each is judged.
        tasks: The tasks.
        chosen: Whether the budgets are the largest that all runs reached.
        given: Whether the scales of the tasks were given.
    """
    better = "higher" if found.mode == "max" else "lower"
    if found.x == END:
        at = "the end of its training: each run counts with its last value."
    else:
        unit = UNITS_OF[found.x]
        budgets = dict.fromkeys(f"{_amount(task.budget)}" for task in tasks)
        at = f"{next(iter(budgets))} {unit}"
        if len(budgets) > 1:
            at = ", ".join(f"{_amount(task.budget)} {unit} on {task.name}" for task in tasks)
        how = ", the largest budget that every run reached" if chosen else ""
        at += (
            f"{how}; the value of a run there is interpolated between its reports before and after."
        )
    lines = [f"{found.metric} ({better} is better) at {at}"]
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


def unshared_lines(unshared: Mapping[str, str]) -> list[str]:
    """Say by what there is no budget that all runs share, and why: `{axis: reason}`."""
    return [
        f"The budget is not in {UNITS_OF[x]}, because the runs share none: {why}."
        for x, why in unshared.items()
    ]


def cautions(found: Comparison, samples: Samples, left_out: list[str]) -> list[str]:
    """Return what is to be kept in mind; `left_out` are tasks that not all contenders have."""
    all_samples = [sample for of_tasks in samples.values() for sample in of_tasks.values()]
    units = {sample.unit for sample in all_samples}
    lines = [interval_caution(int(found.summary["runs"].min()))]
    if TRIALS in units:
        lines.append(
            "This compares all configurations, not the best ones: it shows how well each does with "
            "the settings that its search drew, and the budgets of its trials."
        )
    if any(sample.chosen_from > 1 for sample in all_samples):
        lines.append(
            "A configuration that was chosen by its value has an optimistic value. Its interval "
            "covers its seeds, not the luck of the search. p and the intervals of pairs account "
            "for the choice; they lose less with fewer finalists or more seeds (`final:`)."
        )
    lines += [_short_budget(found), _coarse(found, samples)]
    uneven = [
        label
        for label, of_tasks in samples.items()
        if len({len(sample.runs) for sample in of_tasks.values()}) > 1
    ]
    if uneven:
        lines.append(
            f"{', '.join(uneven)}: each task counts only as many runs as the task with the fewest."
        )
    if left_out:
        lines.append(f"Left out: {', '.join(left_out)}. Not all contenders have runs there.")
    if found.x == SECONDS:
        lines.append(
            "Compare seconds only between runs on the same machine with as many trials beside "
            "them. A seed counts with its share of the time of its trial, and a trial that shared "
            "a process with its share of the time of the process."
        )
    if found.x == ITERATION:
        lines.append(
            "Compare iterations only if all have the same number of environment steps. Otherwise "
            "use environment steps as the budget."
        )
    if found.x == END:
        lines.append(
            "The runs had different budgets: one that trained longer may be better only for that."
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
        f"Reports around the budget are up to {gap:,.10g} apart ({label}), {share:.0%} of it. "
        "Values between them are interpolated."
    )


def _short_budget(found: Comparison) -> str:
    longest = found.runs.groupby("task", sort=False)["end"].max()
    shared = found.tasks.set_index("task")["budget"]
    if not (shared < _SHORT * longest).any():
        return ""
    shortest = found.runs.sort_values("end").iloc[0]
    return (
        f"Some runs continued to {_amount(longest.max())}. That part does not count, because "
        f"{shortest['trial_id']} of {shortest['algorithm']} ended at {_amount(shortest['end'])}."
    )


def _amount(value: float) -> str:
    """Return `21,059` steps or `17.52` seconds."""
    return f"{value:,.0f}" if value >= 1_000 or value == round(value) else f"{value:.4g}"
