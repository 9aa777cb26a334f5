"""What a comparison shows, in words that claim no more than its intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.comparison.pairs import MIN_RUNS, MIN_RUNS_OF_TASKS, MIN_SCORES
from analysis.comparison.samples import HELD_OUT, TRIALS, Sample
from analysis.statistics import ENOUGH_SEEDS

Pair = Mapping[str, Any]


def verdict_lines(pairs: pd.DataFrame) -> list[str]:
    """Return a sentence per pair; before them, where there are several, which stand unbeaten.

    Args:
        pairs: Of `compare_pairs`, and a column `handicap`: why it would be unfair to call a
            better; empty if it would not.
    """
    rows: list[Pair] = pairs.to_dict("records")  # type: ignore[assignment]
    lines = [pair_line(row) for row in rows]
    if len(rows) > 1:
        names = list(dict.fromkeys([*pairs["a"], *pairs["b"]]))
        beaten = {row["b"] for row in rows if row["better"] and not row["handicap"]}
        standing = [name for name in names if name not in beaten]
        lines.insert(0, f"Shown to be worse than none: {', '.join(standing)}.")
    return lines


def pair_line(pair: Pair) -> str:
    """Return what can be said of a pair."""
    a, b = pair["a"], pair["b"]
    found = f"P(improvement) {interval(pair['probability'], pair['low'], pair['high'], '.2f')}"
    if not pair["enough"]:
        return (
            f"Too few runs to tell {a} from {b}: {pair['runs_a']} and {pair['runs_b']} "
            f"({_least(pair['tasks'])}); {found} is no evidence."
        )
    p = f"p = {pair['p_adjusted']:.2g}"
    if pair["chosen_from"] > 1:
        each = " or fewer on each task" if pair["tasks"] > 1 else ""
        p += f" after the choice of {a} among {pair['chosen_from']}{each}"
    if not pair["better"]:
        needed = pair["needed"]
        power = f" So many runs could have shown one from {needed:.2f} on." if needed <= 1 else ""
        return f"No difference between {a} and {b} could be shown: {found}, {p}.{power}"
    if pair["handicap"]:
        return f"{a} looks better than {b} ({found}, {p}), but it is not shown: {pair['handicap']}."
    ends = pair["difference_low"], pair["difference_high"]
    size = f"difference of the IQMs {interval(pair['difference'], *ends)}"
    unclear = ", which may be 0: by how much is not clear" if ends[0] <= 0 <= ends[1] else ""
    return f"{a} is better than {b}: {found}, {p}; {size}{unclear}."


def _least(tasks: int) -> str:
    if tasks > 1:
        return f"{MIN_RUNS_OF_TASKS} of each at least, and {MIN_SCORES} over all tasks"
    return f"{MIN_RUNS} of each at least, better {ENOUGH_SEEDS}"


def handicap(a: Sample, b: Sample) -> str:
    """Return why it would be unfair to call a better than b; empty if it would not."""
    if a.lost * b.started > b.lost * a.started:
        return (
            f"{a.lost} of its {a.started} runs failed, diverged or are not finished and "
            f"are left out, of the other's {b.lost} of {b.started}"
        )
    learning = sorted({sample.learns for sample in (a, b)} - {""})
    if learning:
        return (
            f"each trial of {' or '.join(learning)} was proposed after those before it, so trials "
            "are not independent runs, and p and the interval are too sure; repeat the search with "
            "several seeds, or compare finals"
        )
    return ""


def sample_words(sample: Sample) -> str:
    """By which runs a contender is judged."""
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
    """`480 [450, 495]`; a dash where there is no interval."""
    ends = f"[{low:{form}}, {high:{form}}]" if low == low else "[–]"
    return f"{value:{form}} {ends}"
