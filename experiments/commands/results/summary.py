"""What the terminal shows when a sweep has ended: leaderboard, effects, failures, what is next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from analysis.names import ENV_STEPS, ITERATION, SECONDS
from analysis.numbers import cell, clock, count, duration
from analysis.overview.lineage import LINEAGE_FILE
from analysis.ranking.held_out import Candidate, winner_caution
from analysis.results.schedulers import POPULATION
from analysis.statistics import interval_caution
from experiments.fitted_columns import Column, fitting, short_names
from experiments.spec.function_trainable import is_function_class
from experiments.spec.paths import command_line, shown_path
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import is_own, resolve_trainable
from experiments.stop_signals import received
from experiments.sweep.used_folder import has_results
from experiments.terminal import make_table, say

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult

    from analysis.results.records import TrialRecord
    from experiments.running.final import Final
    from experiments.running.results import Outcome

_TOP = 10

_SETTING = "config/"
_GAP, _EDGES = 3, 4  # characters between two columns, and left and right of all, of `SIMPLE_HEAD`


def show_outcome(outcome: Outcome, spec: SweepSpec, console: Console) -> None:
    """Print the leaderboard, the settings' effects, the failures and what to do next."""
    if outcome.interrupted and received():  # who ends the process counts the seconds
        return
    if not outcome.all_failed and outcome.num_trials:
        _show_leaderboard(outcome, spec, console)
        show_seeds(spec, console)
        if spec.trial_batching and (line := batching_line(outcome.records.trials)):
            say(console, line)
    if outcome.final is not None:
        show_final(outcome.final, spec, console)
    if outcome.effects_table is not None:
        _show_effects(outcome.effects_table, spec.objective.metric, console)
    if outcome.pareto_table is not None:
        _show_pareto(outcome.pareto_table, outcome.num_trials, console)
    if never_replaced(outcome, spec):
        say(console, f"{spec.scheduler.algorithm} replaced no trial: all settings are unchanged")
    _show_failures(outcome, console)
    if outcome.best is not None:
        say(console, f"Best policy: {shown_path(outcome.best)}")
        if outcome.model:
            say(console, f"MLflow model: {outcome.model}")
    elif outcome.checkpoint is not None or outcome.note:
        say(console, why_no_policy(outcome, spec))
    files = {
        "Learning curves": outcome.curves,
        "Final": outcome.final.picture if outcome.final is not None else None,
        "Effects": outcome.effects,
        "Lineage": outcome.lineage,
        **{picture.name: path for picture, path in outcome.pictures.items()},
        "Pareto front": outcome.pareto_picture,
        "Report": outcome.report,
    }
    for name, path in files.items():
        if path is not None:
            say(console, f"{name}: {shown_path(path)}")
    if outcome.interrupted:
        say(console, "Interrupted: all finished results are kept.")
    for line in next_commands(outcome, spec):
        say(console, line)


def never_replaced(outcome: Outcome, spec: SweepSpec) -> bool:
    """Tell whether a population has ended in which no trial went on from another one."""
    is_population = spec.scheduler.algorithm in POPULATION
    return (
        is_population
        and outcome.succeeded
        and not outcome.interrupted
        and not (outcome.folder / LINEAGE_FILE).is_file()
    )


def why_no_policy(outcome: Outcome, spec: SweepSpec) -> str:
    """Return what a sweep leaves instead of a policy, or why it leaves none."""
    if outcome.checkpoint is not None:
        best = outcome.checkpoint
        return (
            f"Best checkpoint: {shown_path(best.path)} ({spec.objective.metric} "
            f"{cell(best.value)}). {spec.trainable} is your own trainable, so there is no policy "
            "to play or export"
        )
    trainable = resolve_trainable(spec.trainable)
    if is_own(trainable):
        if any(outcome.results[i].checkpoint for i in range(len(outcome.results))):
            return f"No best checkpoint: {outcome.note}"
        if outcome.interrupted:  # perhaps before anything could leave one
            return f"No checkpoint: {outcome.note}"
        if is_function_class(trainable):
            how = "to leave one, call tune.report(metrics, checkpoint=…)"
        else:
            how = "to leave one, define save_checkpoint and set checkpoint.at_end in the spec"
        return f"No checkpoint: {spec.trainable} left none ({how})"
    return f"No policy was exported: {outcome.note}"


def next_commands(outcome: Outcome, spec: SweepSpec) -> list[str]:
    """Return the commands that make sense now, one a line with what each does."""
    from trainables.runtime.evaluation.needed_trust import names_no_environment

    commands = []
    if outcome.num_trials and outcome.report is None:
        commands.append((command_line("report", outcome.folder), "write a report page"))
    if spec.mlflow.enabled:
        commands.append((command_line("ui", outcome.folder), "compare the trials in MLflow"))
    if outcome.best is not None and not names_no_environment(outcome.best):
        commands.append((evaluate_command(outcome.best), "play episodes with the best policy"))
    if outcome.interrupted:
        commands.append((command_line("resume", outcome.folder), "continue the sweep"))
    elif outcome.failures or (outcome.final is not None and outcome.final.failures):
        retry = f"{command_line('resume', outcome.folder)} --retry-errored"
        again = "run the failed trials again from their latest checkpoints"
        if outcome.all_failed and not has_results(outcome.folder):
            again = "run them again; or correct the spec and run it under the same name"
        commands.append((retry, again))
    else:
        commands.append(
            (command_line("resume", outcome.folder), "continue the sweep if it was interrupted")
        )
    width = max(len(command) for command, _ in commands)
    return ["Next:", *(f"  {command:<{width}}  # {what}" for command, what in commands)]


def evaluate_command(policy: Path) -> str:
    """Return the command that plays with a policy, with the trust that the user needs for it."""
    from trainables.core.own_folders import is_own
    from trainables.runtime.evaluation.needed_trust import POLICY, needed_trust

    needed = [] if is_own(policy, POLICY) else needed_trust(policy)
    trust = [word for entry in needed for word in ("--trust", entry)]
    return command_line("evaluate", policy, *trust)


def _show_leaderboard(outcome: Outcome, spec: SweepSpec, console: Console) -> None:
    from analysis.ranking.leaderboard import leaderboard
    from analysis.results.records import ResultsError

    metric, mode = spec.objective.metric, spec.objective.mode
    try:
        frame = leaderboard(outcome.records, metric, mode, top=_TOP)
    except ResultsError as error:  # a sweep that was cut off before its first result, say
        if str(error) != outcome.note:  # which is shown in any case
            say(console, f"No table: {error}")
        return
    console.print(LeaderboardTable(frame, metric, outcome.num_trials))


def _show_effects(frame: pd.DataFrame, metric: str, console: Console) -> None:
    """Which settings mattered, from the largest effect to the least."""
    from analysis.importance.effects import level_label

    paired = "trials that differ only in it" if frame["paired"].all() else "independent trials"
    table = make_table(
        f"{metric}: effect of each setting at the end of training",
        f"{100 * frame.attrs['confidence']:g} % intervals for all settings together, from "
        f"{paired}; if an interval includes 0, there may be no effect.",
    )
    table.add_column("#", justify="right")
    for name in ("setting", "best", "worst"):
        table.add_column(name, overflow="fold")
    for name in ("effect", "interval", "excludes 0"):
        table.add_column(name, justify="right", no_wrap=True)
    for rank, levels in frame.groupby("rank", sort=True):
        best, worst = levels.iloc[0], levels.iloc[-1]
        table.add_row(
            str(rank),
            str(best["setting"]),
            *(f"{level_label(row['level'])} ({cell(float(row['mean']))})" for row in (best, worst)),
            cell(best["effect"]),
            f"{cell(best['effect_low'])} … {cell(best['effect_high'])}",
            "yes" if best["excludes_zero"] else "no",
            style=None if best["excludes_zero"] else "dim",
        )
    console.print(table)


def _show_pareto(frame: pd.DataFrame, num_trials: int, console: Console) -> None:
    """The trials that no other one dominates."""
    objectives = frame.attrs["objectives"]
    table = make_table(
        f"Pareto-optimal: {len(frame)} of {num_trials} trials",
        "No other trial is as good in all objectives and better in one.",
    )
    settings = [column for column in frame.columns if column.startswith("config/")]
    table.add_column("trial", no_wrap=True)
    for metric, mode in objectives:
        table.add_column(f"{metric} ({mode})", justify="right", overflow="fold")
    for column in settings:
        table.add_column(column.removeprefix("config/"), justify="right", overflow="fold")
    columns = [*(metric for metric, _ in objectives), *settings]
    for row in frame.to_dict("records"):
        table.add_row(str(row["trial_id"]), *(cell(row[column]) for column in columns))
    console.print(table)


def _show_failures(outcome: Outcome, console: Console) -> None:
    """One line for each cause, however many trials share it."""
    if not outcome.failures:
        return
    causes = Counter(cause for _, cause in outcome.failures)
    first = {cause: trial for trial, cause in reversed(outcome.failures)}
    total = len(outcome.failures)
    say(console, f"{total} of {outcome.num_trials} trials failed:")
    for cause, times in causes.most_common():
        trials = f"{times} trials, e.g. {first[cause]}" if times > 1 else f"trial {first[cause]}"
        say(console, f"  {trials}: {cause}")


def show_seeds(spec: SweepSpec, console: Console) -> None:
    """Say how the trials' values are to be read."""
    if spec.seeds is None:
        return
    num_seeds = len(spec.seeds.values)
    text = f"Each trial is {num_seeds} seeds: its value is their interquartile mean (IQM)."
    say(console, f"{text} {interval_caution(num_seeds)}".rstrip())


def batching_line(trials: Sequence[TrialRecord]) -> str:
    """Say what sharing processes saved, as far as it can be told; nothing where no trial did."""
    from analysis.results.shared_time import batching_of

    found = batching_of([trial.frame for trial in trials])
    if found is None:
        return ""
    took = (
        f"trial_batching: {count(found.trials, 'trial')} in {count(found.processes, 'process')} "
        f"trained for {duration(found.seconds)}, without the first iteration of each."
    )
    if not found.num_alone:
        return (
            f"{took} The saved time is not known: no trial was alone in its process for an "
            "iteration."
        )
    return (
        f"{took} One at a time in each process they would have taken about "
        f"{duration(found.one_by_one_s)} (estimated from "
        f"{count(found.num_alone, 'iteration')} of trials that were alone in their process, "
        f"median {duration(found.alone_s)})."
    )


def show_final(final: Final, spec: SweepSpec, console: Console) -> None:
    """Show the configurations of the final: the search's estimate, the held-out one, the winner."""
    table = make_table(
        f"{spec.objective.metric}: the best configurations on {len(final.seeds)} held-out seeds",
        "search: the value at the end of the trial in the search; its best: the best value there; "
        "optimism: how much better 'search' is than the held-out IQM.",
    )
    table.add_column("trial", no_wrap=True)
    for name in ("search", "its best", "held-out IQM", "95 % interval", "optimism", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for candidate in final.candidates:
        low, high = candidate.interval
        won = candidate is final.winner
        table.add_row(
            candidate.trial_id,
            cell(candidate.search_last),
            cell(candidate.search_best),
            cell(candidate.held_out),
            f"{cell(low)} … {cell(high)}",
            cell(candidate.optimism(spec.objective.mode), signed=True),
            _remark(candidate, final),
            style="bold" if won else None,
        )
    console.print(table)
    judged = [len(c.values) for c in final.candidates if len(c.values) > 1]
    lines = [interval_caution(min(judged, default=len(final.seeds)))]
    if final.winner is not None:
        lines.append(
            f"The winner has the best held-out IQM. best/ holds the policy of its median held-out "
            f"seed, {final.winner.median_seed}."
        )
        lines.append(winner_caution(final.candidates))
    if final.failures:
        trial, cause = final.failures[0]
        lines.append(f"{len(final.failures)} held-out runs failed, e.g. {trial}: {cause}")
    for line in filter(None, lines):
        say(console, line)


def _remark(candidate: Candidate, final: Final) -> str:
    """Tell whether it won, and how many of its runs ended well if not all did."""
    remarks = ["winner"] if candidate is final.winner else []
    if len(candidate.values) < len(final.seeds):
        remarks.append(f"{len(candidate.values)} of {len(final.seeds)} runs")
    return ", ".join(remarks)


class LeaderboardTable:
    """A table as wide as the console on which it is drawn allows.

    Settings go from the last on where there is no room; the line below names them.

    Args:
        frame: `analysis.leaderboard`'s.
        metric: The objective.
        num_trials: How many trials the sweep has; the frame may hold the best of them.
    """

    def __init__(self, frame: pd.DataFrame, metric: str, num_trials: int) -> None:
        self._frame = frame
        whole = len(frame) == num_trials
        which = f"all {num_trials}" if whole else f"the best {len(frame)} of {num_trials}"
        self._title = f"{metric}: {which} trials"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._columns()
        shown = fitting(columns, options.max_width - _EDGES, _GAP)
        table = make_table(self._title, self._rule())
        for column in shown:
            heading = "\n".join(column.lines) or column.heading
            table.add_column(heading, justify=column.justify, no_wrap=True, vertical="bottom")
        for number in range(len(self._frame)):
            table.add_row(*(Text(column.cells[number]) for column in shown))
        yield table
        kept = {column.key for column in shown}
        left_out = [column.heading for column in columns if column.key not in kept]
        if left_out:
            yield Text(f"... no room for {', '.join(left_out)}", style="dim")

    def _columns(self) -> list[Column]:
        frame = self._frame
        settings = [column for column in frame.columns if column.startswith(_SETTING)]
        names = short_names([column.removeprefix(_SETTING) for column in settings])
        return [
            self._column("rank", "#", cell),
            Column("trial_id", "trial", tuple(map(str, frame["trial_id"]))),
            self._column("last", "last", cell),
            self._column("best", "best", cell),
            *(self._column(key, heading, show) for key, heading, show in self._spent()),
            *(
                self._column(key, name, cell, rank)
                for rank, (key, name) in enumerate(zip(settings, names, strict=True))
            ),
        ]

    def _column(
        self, key: str, heading: str, show: Callable[[Any], str], rank: int | None = None
    ) -> Column:
        cells = tuple(show(value) for value in self._frame[key].tolist())
        return Column(key, heading, cells, justify="right", rank=rank)

    def _spent(self) -> list[tuple[str, str, Callable[[Any], str]]]:
        """What trials have used up: a trainable of one's own may count no environment steps."""
        if self._frame[ENV_STEPS].isna().all():
            return [(ITERATION, "iterations", cell), (SECONDS, "time", _duration)]
        return [(ENV_STEPS, "env steps", cell)]

    def _rule(self) -> str | None:
        """Return how trials of equal values are ordered, if there are any."""
        from analysis.ranking.order import RULE

        if self._frame["last"].dropna().is_unique:
            return None
        return RULE.replace("env steps", self._spent()[0][1])


def _duration(seconds: Any) -> str:
    known = isinstance(seconds, float) and math.isfinite(seconds)
    return clock(seconds) if known else cell(None)
