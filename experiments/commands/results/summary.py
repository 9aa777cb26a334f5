"""What the terminal shows when a sweep has ended: leaderboard, effects, failures, what is next."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from analysis.numbers import cell
from experiments.commands.results.leaderboard_table import LeaderboardTable
from experiments.commands.results.seed_summary import show_final, show_seeds
from experiments.spec.function_trainable import is_function_class
from experiments.spec.paths import command_line, shown_path
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import is_own, resolve_trainable
from experiments.stop_signals import received

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from rich.console import Console

    from experiments.running.results import Outcome

_TOP = 10


def show_outcome(outcome: Outcome, spec: SweepSpec, console: Console) -> None:
    """Print the leaderboard, the settings' effects, the failures and what to do next."""
    if outcome.interrupted and received():  # who ends the process counts the seconds
        return
    if not outcome.all_failed and outcome.num_trials:
        _show_leaderboard(outcome, spec, console)
        show_seeds(spec, console)
    if outcome.final is not None:
        show_final(outcome.final, spec, console)
    if outcome.effects_table is not None:
        _show_effects(outcome.effects_table, spec.objective.metric, console)
    if outcome.pareto_table is not None:
        _show_pareto(outcome.pareto_table, outcome.num_trials, console)
    _show_failures(outcome, console)
    if outcome.best is not None:
        console.print(
            f"Best policy: {shown_path(outcome.best)}",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
        if outcome.model:
            console.print(
                f"MLflow model: {outcome.model}", highlight=False, soft_wrap=True, markup=False
            )
    elif outcome.checkpoint is not None or outcome.note:
        line = why_no_policy(outcome, spec)
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    if outcome.curves is not None:
        console.print(
            f"Learning curves: {shown_path(outcome.curves)}", highlight=False, markup=False
        )
    if outcome.final is not None and outcome.final.picture is not None:
        console.print(f"Final: {shown_path(outcome.final.picture)}", highlight=False, markup=False)
    if outcome.effects is not None:
        console.print(f"Effects: {shown_path(outcome.effects)}", highlight=False, markup=False)
    if outcome.lineage is not None:
        console.print(f"Lineage: {shown_path(outcome.lineage)}", highlight=False, markup=False)
    if outcome.pareto_picture is not None:
        console.print(
            f"Pareto front: {shown_path(outcome.pareto_picture)}", highlight=False, markup=False
        )
    if outcome.report is not None:
        console.print(
            f"Report: {shown_path(outcome.report)}", highlight=False, soft_wrap=True, markup=False
        )
    if outcome.interrupted:
        console.print("Interrupted: everything that was finished is kept.", highlight=False)
    for line in next_commands(outcome, spec):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def why_no_policy(outcome: Outcome, spec: SweepSpec) -> str:
    """Return what a sweep leaves instead of a policy, or why it leaves none."""
    if outcome.checkpoint is not None:
        best = outcome.checkpoint
        return (
            f"Best checkpoint: {shown_path(best.path)} ({spec.objective.metric} "
            f"{cell(best.value)}), for the code that wrote it: {spec.trainable} is a trainable of "
            "your own, which has checkpoints rather than a policy to play or export"
        )
    trainable = resolve_trainable(spec.trainable)
    if is_own(trainable):
        if any(outcome.results[i].checkpoint for i in range(len(outcome.results))):
            return f"No best checkpoint: {outcome.note}"
        if outcome.interrupted:  # perhaps before anything could leave one
            return f"No checkpoint: {outcome.note}"
        if is_function_class(trainable):
            how = "tune.report(metrics, checkpoint=…) leaves one"
        else:
            how = "save_checkpoint and the spec's checkpoint.at_end leave one"
        return f"No checkpoint: {spec.trainable} left none ({how})"
    return f"No policy was exported: {outcome.note}"


def next_commands(outcome: Outcome, spec: SweepSpec) -> list[str]:
    """Return the commands that make sense now, one a line with what each does."""
    commands = []
    if outcome.num_trials and outcome.report is None:
        commands.append((command_line("report", outcome.folder), "write a page about all of it"))
    if spec.mlflow.enabled:
        commands.append((command_line("ui", outcome.folder), "compare the trials in MLflow"))
    if outcome.best is not None:
        commands.append((evaluate_command(outcome.best), "play episodes with the best policy"))
    if outcome.interrupted:
        commands.append((command_line("resume", outcome.folder), "continue the sweep"))
    elif outcome.failures or (outcome.final is not None and outcome.final.failures):
        retry = f"{command_line('resume', outcome.folder)} --retry-errored"
        commands.append((retry, "run the failed trials again from their latest checkpoints"))
    else:
        commands.append(
            (command_line("resume", outcome.folder), "continues a sweep that was cut off")
        )
    width = max(len(command) for command, _ in commands)
    return ["Next:", *(f"  {command:<{width}}  # {what}" for command, what in commands)]


def evaluate_command(policy: Path) -> str:
    """Return the command that plays with a policy, with the trust that what it names needs."""
    from trainables.runtime.evaluation.needed_trust import needed_trust

    trust = [word for entry in needed_trust(policy) for word in ("--trust", entry)]
    return command_line("evaluate", policy, *trust)


def _show_leaderboard(outcome: Outcome, spec: SweepSpec, console: Console) -> None:
    from analysis.ranking.leaderboard import leaderboard
    from analysis.results.records import ResultsError

    metric, mode = spec.objective.metric, spec.objective.mode
    try:
        frame = leaderboard(outcome.records, metric, mode, top=_TOP)
    except ResultsError as error:  # a sweep that was cut off before its first result, say
        if str(error) != outcome.note:  # which is shown in any case
            console.print(f"No table: {error}", highlight=False, soft_wrap=True, markup=False)
        return
    console.print(LeaderboardTable(frame, metric, outcome.num_trials))


def _show_effects(frame: pd.DataFrame, metric: str, console: Console) -> None:
    """Which settings mattered, from the largest effect to the least."""
    from rich import box
    from rich.table import Table

    from analysis.importance.effects import level_label

    paired = "trials that differ in nothing else" if frame["paired"].all() else "independent trials"
    table = Table(
        title=f"{metric}: effect of each setting at the end of training",
        caption=f"{100 * frame.attrs['confidence']:g} % intervals for all settings together, from "
        f"{paired}; an effect whose interval includes 0 may be none.",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
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
    from rich import box
    from rich.table import Table

    objectives = frame.attrs["objectives"]
    table = Table(
        title=f"Pareto-optimal: {len(frame)} of {num_trials} trials",
        caption="Each is better than every other trial in at least one objective.",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
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
    console.print(f"{total} of {outcome.num_trials} trials failed:", highlight=False)
    for cause, count in causes.most_common():
        trials = f"{count} trials, e.g. {first[cause]}" if count > 1 else f"trial {first[cause]}"
        console.print(f"  {trials}: {cause}", highlight=False, soft_wrap=True, markup=False)
