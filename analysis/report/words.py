"""A sweep in words: what won, how surely, at what cost, what mattered, what failed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from analysis.names import (
    ESTIMATED,
    SECONDS,
    VALUE_OF_TARGET,
    environment_of,
    estimator_of,
    finite,
    metric_label,
    setting_label,
)
from analysis.numbers import count, duration, listed, number, share, steps
from analysis.overview.groups import Group, ended_badly, groups
from analysis.overview.overview import ReportData
from analysis.ranking.leaderboard import Score
from analysis.results.records import TrialRecord
from analysis.results.schedulers import SCHEDULER_FAMILIES, STOPPING
from analysis.results.searches import SEARCH_FAMILIES
from analysis.statistics import interval_caution
from trainables.core.overlap import rests_on_too_few


@dataclass
class Summary:
    """What the page's first paragraph says, and what a reader must know to take it rightly."""

    sentences: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)


def summary(data: ReportData) -> Summary:
    """Return the sweep in a few sentences, with honest cautions."""
    said = Summary([_what(data)])
    for part in (_winner, _estimated, _held_out, _cost, _shared, _mattered, _failed):
        sentences, cautions = part(data)
        said.sentences += sentences
        said.cautions += cautions
    said.cautions = [caution for caution in dict.fromkeys(said.cautions) if caution]
    return said


def last_interval(trial: TrialRecord, metric: str) -> tuple[float, float]:
    """Return the interval that was reported last: over seeds, else of an estimate; NaN for others.

    An estimate is that of an off-policy estimator from recorded episodes.
    """
    low, high = (trial.last(f"seeds/{metric}/{end}") for end in ("low", "high"))
    if low is None and is_estimate(metric):
        low, high = (beside_estimate(trial, metric, end) for end in ("low", "high"))
    return math.nan if low is None else low, math.nan if high is None else high


def is_estimate(metric: str) -> bool:
    """Tell whether a metric is what an off-policy estimator takes a policy to be worth."""
    return metric.startswith(ESTIMATED) and metric.endswith(VALUE_OF_TARGET)


def beside_estimate(trial: TrialRecord, metric: str, name: str) -> float | None:
    """Return what the estimator of a metric said besides last, as `v_behavior`; None if nothing."""
    return trial.last(f"{ESTIMATED}{estimator_of(metric)}/{name}")


def tied(data: ReportData) -> list[str]:
    """Return the trials whose interval reaches the winner's: seeds cannot tell them apart."""
    if data.winner is None or not data.seeds:
        return []
    low, high = last_interval(data.winner, data.metric)
    found = []
    for trial, score in data.ranked[1:]:
        other_low, other_high = last_interval(trial, data.metric)
        if score.found and other_high >= low and other_low <= high:
            found.append(trial.trial_id)
    return found


Said = tuple[list[str], list[str]]


def _what(data: ReportData) -> str:
    trials = count(len(data.sweep.trials), "trial")
    trainable = data.spec.get("trainable")
    of = f" of {trainable}" if trainable else ""
    env = environment_of(data.spec.get("config") or {})
    on = f" on {env}" if isinstance(env, str) else ""
    search, scheduler = data.search["algorithm"], data.scheduler["algorithm"]
    how = [SEARCH_FAMILIES[search].words if search in SEARCH_FAMILIES else search]
    if scheduler != "fifo":
        known = SCHEDULER_FAMILIES.get(scheduler)
        how.append(known.words if known is not None else scheduler)
    by = f", chosen by {' with '.join(how)}" if data.spec and len(data.sweep.trials) > 1 else ""
    seeds = f", each with {count(len(data.seeds), 'seed')}" if data.seeds else ""
    stop = (data.spec.get("stop") or {}).get(data.steps)
    upto = f", up to {steps(stop)} {metric_label(data.steps)} each" if stop else ""
    better = "higher" if data.mode == "max" else "lower"
    return (
        f"{trials}{of}{on}{seeds}{by}{upto}. Trials are judged by the {metric_label(data.metric)} "
        f"at the end of each trial; {better} is better."
    )


def _winner(data: ReportData) -> Said:
    if data.winner is None:
        why = "no trial has reported the objective"
        if data.reported:
            why = "the objective has no finite value"
        return [f"There is no winner: {why}."], []
    runs = groups(data)
    if runs:
        return _best_group(data, runs)
    trial, score = data.ranked[0]
    value = number(score.last)
    low, high = last_interval(trial, data.metric)
    interval = ""
    if math.isfinite(low) and math.isfinite(high):
        of = f"its {len(data.seeds)} seeds" if data.seeds else "the estimate"
        interval = f" (95 % interval of {of}: {number(low)} to {number(high)})"
    others = [(t, s) for t, s in data.ranked[1:] if s.found]
    won = "won" if data.final is None else "won the search"
    state = "is ahead" if data.running else won
    if not others:
        only = "The only trial" if len(data.sweep.trials) == 1 else "The only trial with a value"
        said = [f"{only}, {trial.trial_id}, ended at {value}{interval}."]
    else:
        said = [f"Trial {trial.trial_id} {state} with {value}{interval}, {_lead(data)}"]
    return said, _winner_cautions(data, len(others) + 1)


def _lead(data: ReportData) -> str:
    """Say by how much the winner is ahead, and whether that is more than a tie."""
    (_, first), (second, other) = data.ranked[0], data.ranked[1]
    lead = data.sign * (first.last - other.last)
    equal = tied(data)
    have = "has an interval that overlaps" if len(equal) == 1 else "have intervals that overlap"
    if lead == 0:
        same = sum(score.found and score.last == first.last for _, score in data.ranked) - 1
        who = second.trial_id if same == 1 else f"{same} others"
        by = f"the same as {who}. It is first because {_why_first(first, other, data)}"
    else:
        by = f"{number(lead)} better than the second, {second.trial_id}"
    if equal:
        return (
            f"{by}. But {count(len(equal), 'other trial')} {have} the winner's, so it may be a "
            "tie: these seeds do not show a difference."
        )
    if data.seeds:
        return f"{by}. No other trial's interval overlaps the winner's."
    return f"{by}."


def _why_first(first: Score, other: Score, data: ReportData) -> str:
    """Return which part of the rule in `analysis.ranking.order` put the winner before its equal."""
    mine, theirs = (score.course.reached(data.sign) for score in (first, other))
    if mine < theirs:
        return f"it reached that value after {mine:,.0f} steps, the next one after {theirs:,.0f}"
    if first.course.mean != other.course.mean:
        return (
            "the mean of its curve is better; both reached the value after the same number of steps"
        )
    return "its trial number is lower"


def _best_group(data: ReportData, runs: list[Group]) -> Said:
    best = runs[0]
    label = settings_label(best.settings)
    sizes = {len(run.values) + run.lost for run in runs}
    interval = ""
    if math.isfinite(best.low):
        interval = f" (95 % interval {number(best.low)} to {number(best.high)})"
    more = " or more" if len(sizes) > 1 else ""
    said = [
        f"{count(len(runs), 'configuration')}, each trained with "
        f"{count(min(sizes), 'seed')}{more}: {label} is best with an "
        f"interquartile mean of {number(best.iqm)}{interval}."
    ]
    if len(runs) == 1:
        said = [
            f"One configuration over {count(len(best.values), 'seed')}: its interquartile mean is "
            f"{number(best.iqm)}{interval}."
        ]
    best_by_value = all(data.sign * (best.iqm - run.iqm) >= 0 for run in runs)
    known = [run for run in runs if math.isfinite(run.low)]
    equal = [run for run in runs[1:] if run.high >= best.low and run.low <= best.high]
    if equal:
        names = listed([settings_label(run.settings) for run in equal[:3]])
        more = f" and {len(equal) - 3} more" if len(equal) > 3 else ""
        said.append(
            f"Its interval overlaps that of {names}{more}, so the data do not show a difference."
        )
    elif best_by_value and len(known) == len(runs) > 1:
        said.append("No other configuration's interval overlaps it.")
    elif best_by_value and best in known and len(known) > 1:
        said.append("Of the other configurations that have an interval, none overlaps it.")
    few = min((len(run.values) for run in known), default=1)
    return said, [interval_caution(few), _lost_seeds(runs)]


def _lost_seeds(runs: list[Group]) -> str:
    """Return what a reader must know of runs that failed or diverged; empty if there are none."""
    lost = [run for run in runs if run.lost]
    if not lost:
        return ""
    parts = [
        f"{settings_label(run.settings)} ({run.lost} of {run.lost + len(run.values)}; "
        f"{number(run.iqm)} on the rest)"
        for run in lost[:3]
    ]
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return (
        f"Some seeds failed or diverged and do not count: {listed(parts)}{more}. A configuration "
        "ranks behind those that lost fewer seeds, because its value comes only from the seeds "
        "that did well."
    )


def settings_label(settings: dict[str, Any]) -> str:
    """Return settings in a line: `lr = 0.001, num_epochs = 4`."""
    parts = [f"{name} = {number(value)}" for name, value in settings.items()]
    return ", ".join(parts) if parts else "the only configuration"


def _winner_cautions(data: ReportData, valued: int) -> list[str]:
    cautions = []
    if data.seeds:
        cautions.append(interval_caution(len(data.seeds)))
    elif data.final is None:
        cautions.append(
            "Each trial is a single run, so a better configuration and a luckier seed look the "
            "same. Set `seeds: 5` in the spec to train each configuration with five seeds."
        )
    if valued > 1 and data.final is None:
        cautions.append(
            f"The winner's value is the best of {valued} and so optimistic. Set `final: {{top: 3, "
            "seeds: 10}` in the spec to evaluate the best on seeds that the search has not seen."
        )
    if data.winner is not None and ended_badly(data.winner, data.metric):
        cautions.append(
            f"The winner, {data.winner.trial_id}, failed or diverged: it counts with its last "
            "finite value."
        )
    if data.scheduler["algorithm"] in STOPPING and data.stopped_early:
        cautions.append(
            "Trials that the scheduler stopped early are ranked by their value when they stopped, "
            "at a smaller budget than the winner's."
        )
    if data.running:
        cautions.append(
            f"{count(len(data.running), 'trial')} had not ended when this report was written: the "
            "sweep is running or was interrupted."
        )
    return cautions


def _estimated(data: ReportData) -> Said:
    """Say what an estimate from recorded data is worth, if trials are judged by one."""
    if not data.metric.startswith(ESTIMATED):
        return [], []
    cautions = [
        "Trials are judged by an estimate from recorded episodes: the winner has the best "
        "estimate, which does not show that it plays best."
    ]
    if data.winner is None:
        return [], cautions
    size, episodes, earned = (
        beside_estimate(data.winner, data.metric, name)
        for name in ("effective_sample_size", "num_episodes", "v_behavior")
    )
    if size is not None and episodes and rests_on_too_few(size, int(episodes)):
        cautions.append(
            f"The winner's estimate rests on {number(size)} of {number(episodes)} episodes "
            "(effective sample size): the policy acts differently from the one that recorded them, "
            "so the estimate and its interval are unreliable."
        )
    said = [] if earned is None else [f"The recorded episodes earned {number(earned)} on average."]
    return said, cautions


def _held_out(data: ReportData) -> Said:
    if data.final is None:
        return [], []
    rows = {row["trial_id"]: row for row in data.final["configurations"]}
    row = rows.get(data.final.get("winner"))
    cautions = [data.final.get("caution", ""), data.final.get("winner_caution", "")]
    if row is None:
        return ["There is no winner on the held-out seeds."], cautions
    seeds = count(len(row["values"]), "held-out seed")
    optimism = row.get("optimism")
    said = [
        f"On {seeds} trial {row['trial_id']} is best: interquartile mean "
        f"{number(row['held_out_iqm'])} (95 % interval {number(row['held_out_low'])} to "
        f"{number(row['held_out_high'])})."
    ]
    if optimism is not None:
        worse = "worse" if optimism > 0 else "better"
        by = f"{number(abs(optimism))} {worse} than" if optimism else "equal to"
        said.append(f"That is {by} its value in the search.")
    ahead = [other for other in rows.values() if other is not row and _better(other, row, data)]
    if ahead:
        names = listed(
            [
                f"{other['trial_id']} ({number(other['held_out_iqm'])} on {len(other['values'])})"
                for other in ahead
            ]
        )
        said.append(f"It has more finished runs than {names}, which rank behind it for that.")
    reach = [
        other["trial_id"] for other in rows.values() if other is not row and _overlap(other, row)
    ]
    if reach:
        said.append(
            f"Its interval overlaps that of {listed(reach)}, so the data do not show a difference."
        )
    return said, cautions


def _better(a: dict[str, Any], b: dict[str, Any], data: ReportData) -> bool:
    """Tell whether a row of the final has a better value than another, though fewer runs."""
    if a["held_out_iqm"] is None or b["held_out_iqm"] is None:
        return False
    ahead = data.sign * (a["held_out_iqm"] - b["held_out_iqm"]) > 0
    return ahead and len(a["values"]) < len(b["values"])


def _overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    ends = [row.get(key) for row in (a, b) for key in ("held_out_low", "held_out_high")]
    if any(end is None for end in ends):
        return False
    a_low, a_high, b_low, b_high = (float(end) for end in ends if end is not None)
    return a_high >= b_low and a_low <= b_high


def _cost(data: ReportData) -> Said:
    each = max(len(data.seeds), 1)
    trials = data.sweep.trials
    total = sum(trial.last(data.steps) or 0.0 for trial in trials) * each
    if not total:
        return [], []
    seconds = sum(finite(trial.seconds()).tail(1).sum() for trial in trials)
    said = f"Cost: {steps(total)} {metric_label(data.steps)}"
    if seconds:
        said += f" and {duration(seconds)} of trials' time"
    if span := _span(data):
        said += f", within {duration(span)} of wall clock"
    limit = (data.spec.get("stop") or {}).get(data.steps)
    if data.scheduler["algorithm"] in STOPPING and limit and not data.running:
        early = data.stopped_early
        if early:
            full = limit * len(trials)
            spared = sum(limit - steps_taken for steps_taken in early.values())
            said += f"; {len(early)} of {count(len(trials), 'trial')} stopped early, which saved "
            said += share(spared / full)
    return [f"{said}."], []


def _shared(data: ReportData) -> Said:
    """Say how many processes the trials shared, and what that does to their times."""
    hosts = data.sweep.hosts
    if not hosts:
        return [], []
    trials, processes = count(sum(hosts.values()), "trial"), count(len(hosts), "process")
    return [f"{trials} in {processes}: the time of each includes waiting for the others."], []


def _span(data: ReportData) -> float:
    """Return the seconds from the first trial's start to the last result, pauses included."""
    starts, ends = [], []
    for trial in data.sweep.trials:
        stamps, spent = finite(trial.frame.get("timestamp")), finite(trial.frame.get(SECONDS))
        if len(stamps) and len(spent):
            starts.append(float(stamps.iloc[0]) - float(spent.iloc[0]))
            ends.append(float(stamps.iloc[-1]))
    return max(ends) - min(starts) if starts else 0.0


def _mattered(data: ReportData) -> Said:
    frame = data.importance
    if isinstance(frame, str) or frame.empty:
        return [], []
    surrogate = data.surrogate
    if not isinstance(surrogate, str) and surrogate.explains_nothing:
        said = (
            "The data do not show that a setting matters: random forests on the settings predict "
            f"other trials no better than the mean of the trials does (R² {surrogate.r2:.2f})."
        )
        return [said], [surrogate.reservations]
    parts = [
        f"{setting_label(str(row['setting']))} ({share(float(row['importance']))})"
        for row in frame.head(3).to_dict("records")
        if float(row["importance"]) >= 0.05
    ]
    caution = str(frame.attrs.get("caution") or "")
    cautions = [caution] if caution else []
    if not parts:
        return ["No setting stands out as important."], cautions
    r2 = frame.attrs.get("r2")
    known = f" (R² {r2:.2f})" if r2 is not None else ""
    said = f"The most important settings, by share of explained variance{known}: {listed(parts)}."
    return [said], cautions


def _failed(data: ReportData) -> Said:
    failed = [failure for failure in data.failures if not failure.recovered]
    recovered = len(data.failures) - len(failed)
    said = []
    if failed:
        cause, times = Counter(failure.cause for failure in failed).most_common(1)[0]
        which = "all of them" if times == len(failed) > 1 else f"{times} of them"
        of = f", {which}" if len(failed) > 1 else ""
        trials = count(len(data.sweep.trials), "trial")
        said.append(f"{len(failed)} of {trials} failed{of} with: {cause.rstrip('.')}.")
    if recovered:
        trials = count(recovered, "trial")
        said.append(f"{trials} failed during training and continued from a checkpoint.")
    return said, []
