"""What a sweep shows while it runs: a live table on a terminal and in a notebook, else lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ray import tune
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from analysis.names import ENV_STEPS, HOST, ITERATION, SECONDS, host_of
from analysis.numbers import clock, large, short
from analysis.results.rows import flatten
from experiments.activity import nothing_to_tell
from experiments.monitor.notebook_output import NotebookOutput
from experiments.monitor.progress_budget import Budget, Speeds
from experiments.monitor.progress_table import STATUS_STYLE, TrialRow, TrialTable
from experiments.monitor.progress_text import (
    LiveOrder,
    Standing,
    searched_settings,
    select_rows,
    spent,
    varying_settings,
)
from experiments.trial_info import error_cause, error_path, was_interrupted, was_pruned

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

MAX_ROWS = 20
MIN_ROWS, HEADER_LINES = 4, 8  # of a low terminal; the lines that are no trial's
MAX_NAMED = 4  # running trials in a status line
STATUS_LINE_PERIOD_S = 30.0  # of the plain output


class Progress(tune.Callback):
    """Shows how a sweep goes. It never raises: what cannot be drawn is not drawn.

    Args:
        metric: The objective, a key of the results.
        mode: "max" or "min".
        total_trials: How many trials the sweep will have; None if that is not known.
        name: The sweep's name.
        console: Where to write; None writes to standard output. A terminal or a notebook gets the
            live table, anything else a line when a trial starts, ends or fails, and after 30 s of
            silence one that says what runs.
        seeds: How many seeds a trial trains.
        time_budget_s: The sweep's time limit, if it has one.
        interval_s: Least seconds between two drawings.
        names_hosts: Whether the live table says in which process a trial is, where trials share
            some.
    """

    def __init__(
        self,
        metric: str,
        mode: str,
        *,
        total_trials: int | None,
        name: str,
        console: Console | None = None,
        seeds: int = 1,
        time_budget_s: float | None = None,
        interval_s: float = 1.0,
        names_hosts: bool = False,
    ) -> None:
        if mode not in ("max", "min"):
            raise ValueError(f'mode must be "max" or "min", got {mode!r}')
        self.metric = metric
        self.mode = mode
        self.total_trials = total_trials
        self.name = name
        self.seeds = seeds
        self.time_budget_s = time_budget_s
        self.interval_s = interval_s
        self.names_hosts = names_hosts
        self._console = console
        self._reset()

    def _reset(self) -> None:
        self._start = time.monotonic()
        self._last_draw = float("-inf")
        self._last_line = time.monotonic()
        self._live: Live | NotebookOutput | None = None
        self._trials: list[Trial] = []
        self._outcomes: dict[str, str] = {}  # of ended trials: was_pruned looks at the result
        self._begun: dict[str, dict[str, Any]] = {}  # the settings that a trial was last seen with
        self._speeds = Speeds()
        self._budget = Budget(self.seeds, self.time_budget_s)
        self._results: dict[str, tuple[Any, float]] = {}  # iteration of the last result, and when
        self._standing = Standing()
        self._order = LiveOrder(self.metric, self.mode)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the console, which cannot be pickled, out of Tune's tuner.pkl."""
        names = ["metric", "mode", "total_trials", "name", "seeds", "time_budget_s", "interval_s"]
        names += ["names_hosts"]
        return {name: getattr(self, name) for name in names} | {"_console": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    @property
    def console(self) -> Console:
        """Where the progress is written."""
        if self._console is None:
            self._console = Console()
        return self._console

    @console.setter
    def console(self, console: Console) -> None:
        self._console = console

    # -- Tune's hooks ----------------------------------------------------------------------------

    def setup(self, *args: Any, **info: Any) -> None:
        total = info.get("total_num_samples")
        if self.total_trials is None and isinstance(total, int) and 0 < total < 10**8:
            self.total_trials = total
        self._start = self._last_line = time.monotonic()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        # Schedulers pause trials and start them again, as they were or with other settings.
        settings = flatten(trial.config)
        if self._begun.get(trial.trial_id) != settings:
            self._event(trials, trial, "running")
            self._begun[trial.trial_id] = settings

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **_: Any
    ) -> None:
        self._guard(self._order.note, trial, result)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **_: Any
    ) -> None:
        self._event(trials, trial, "pruned" if was_pruned(trial) else "finished")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._event(trials, trial, "failed")

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **_: Any) -> None:
        self._guard(
            self._say,
            f"trial {trial.trial_id} failed and starts again from its last checkpoint: "
            f"{error_cause(trial)} (trace: {error_path(trial)})",
            "yellow",
        )

    def on_step_end(self, iteration: int, trials: list[Trial], **_: Any) -> None:
        now = time.monotonic()
        if now - self._last_draw >= self.interval_s:
            self._last_draw = now
            self._guard(self._draw, trials)

    def on_experiment_end(self, trials: list[Trial], **_: Any) -> None:
        self._guard(self._draw, trials)
        self.stop()
        if not self._is_live():
            self._guard(self._say_end, trials)

    def stop(self) -> None:
        """End the live table and leave its last state on the screen; safe to repeat."""
        live, self._live = self._live, None
        if live is not None:
            self._guard(live.stop)

    # -- drawing ---------------------------------------------------------------------------------

    def _guard(self, draw: Any, *args: Any) -> None:
        """Draws; an exception in a callback (a closed terminal, ...) would end the sweep."""
        try:
            draw(*args)
        except (Exception, SystemExit):  # rich exits if its output is a closed pipe
            self._live = None

    def _is_live(self) -> bool:
        console = self.console
        return console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)

    def _event(self, trials: list[Trial], trial: Trial, what: str) -> None:
        if what == "running":
            self._outcomes.pop(trial.trial_id, None)
        else:
            self._outcomes[trial.trial_id] = what
        self._trials = trials
        self._guard(self._report, trial, what)

    def _report(self, trial: Trial, what: str) -> None:
        if what == "failed":
            self._say(
                f"trial {trial.trial_id} failed: {error_cause(trial)} (trace: {error_path(trial)})",
                "red",
            )
        elif not self._is_live():
            before = self._begun.get(trial.trial_id, {})
            verb = what if what != "running" else "continues with" if before else "started"
            result = trial.last_result or {}
            parts = [f"trial {trial.trial_id} {verb}"]
            if what == "running":
                columns = self._standing.varying(self._trials, trial)
                settings = flatten(trial.config)
                changed = [c for c in columns if c in settings and before.get(c) != settings[c]]
                shown = [f"{c}={short(settings[c])}" for c in changed]
                parts.append(" ".join(shown))
            else:
                parts.append(f"{self.metric}={short(result.get(self.metric))}")
                parts.append(spent(result))
                parts.append(f"iteration={result.get(ITERATION, 0)}")
                if (host := host_of(result)) is not None:
                    parts.append(f"{HOST}={host}")
                if self._order.best(self._trials) is trial:
                    parts.append("best so far")
            self._say("  ".join(part for part in parts if part))

    def _say(self, message: str, style: str = "") -> None:
        self._last_line = time.monotonic()
        console = self._live.console if self._live else self.console
        text = Text(f"[{clock(time.monotonic() - self._start)}] {message}", style=style)
        console.print(text, soft_wrap=not self._is_live())  # in a log a line is one event

    def _draw(self, trials: list[Trial]) -> None:
        self._speeds.update(trials)
        self._budget.update(trials, self.total_trials)
        self._note_results(trials)
        if self._is_live():
            if self._live is None:
                nothing_to_tell()
                self._live = self._make_live()
                self._live.start()
            parts = self._header(trials), Text(self._spent(), style="dim"), self._table(trials)
            self._live.update(Group(*parts), refresh=True)
        elif time.monotonic() - self._last_line >= STATUS_LINE_PERIOD_S:
            self._say(f"{self._line(trials)}{self._running(trials)}")

    def _make_live(self) -> Live | NotebookOutput:
        if self.console.is_jupyter:
            return NotebookOutput(self.console)
        return Live(console=self.console, auto_refresh=False, transient=False)

    def _say_end(self, trials: list[Trial]) -> None:
        self._say(self._line(trials))

    def _note_results(self, trials: list[Trial]) -> None:
        """Note when each running trial last reported: a long iteration shows as such."""
        now = time.monotonic()
        for trial in trials:
            if trial.status != "RUNNING":
                self._results.pop(trial.trial_id, None)
                continue
            iteration = (trial.last_result or {}).get(ITERATION, 0)
            if self._results.get(trial.trial_id, (None, 0.0))[0] != iteration:
                self._results[trial.trial_id] = (iteration, now)

    def _silent_s(self, trial: Trial) -> float:
        """Seconds since a running trial's last result, or since it was first seen."""
        return time.monotonic() - self._results.get(trial.trial_id, (0, time.monotonic()))[1]

    def _running(self, trials: list[Trial]) -> str:
        """Which trials run, how far they are, and for how long they have reported nothing."""
        running = [trial for trial in trials if trial.status == "RUNNING"]
        parts = []
        for trial in running[:MAX_NAMED]:
            result = trial.last_result or {}
            at = f"iteration {result.get(ITERATION, 0) + 1}"
            parts.append(f"{trial.trial_id} in {at} for {clock(self._silent_s(trial))}")
        more = f", {len(running) - MAX_NAMED} more" if len(running) > MAX_NAMED else ""
        return f"  running: {', '.join(parts)}{more}" if parts else ""

    def _header(self, trials: list[Trial]) -> Text:
        counts = dict.fromkeys(("running", "finished", "pruned", "failed"), 0)
        for trial in trials:
            status = self._status(trial)
            if status in counts or status == "interrupted":
                counts[status] = counts.get(status, 0) + 1
        total = f"/{self.total_trials}" if self.total_trials else ""
        header = Text(f"{self.name}  ", style="bold")
        header.append(f"trials {len(trials)}{total}: ", style="not bold")
        for number, (status, times) in enumerate(counts.items()):
            header.append(", " if number else "", style="not bold")
            header.append(f"{times} {status}", style=f"not bold {STATUS_STYLE[status]}")
        best = self._order.best(trials)
        if best is not None:
            value = short(self._order.last(best))
            header.append(f"  best {self.metric} {value} ({best.trial_id})", style="bold green")
        return header

    def _line(self, trials: list[Trial]) -> str:
        return f"{self._header(trials).plain}  {self._spent()}"

    def _spent(self) -> str:
        """Return the budget used, the time used, and how long the rest may take."""
        budget, parts = self._budget, []
        if budget.total:
            parts.append(f"{large(budget.used)}/{large(budget.total)} {budget.unit}")
        parts.append(clock(time.monotonic() - self._start))
        if budget.eta_s:
            parts.append(f"about {clock(budget.eta_s)} left")
        elif budget.eta_s is None and budget.limit_s is not None:
            parts.append(f"at most {clock(budget.limit_s)} left")
        return "  ".join(parts)

    def _table(self, trials: list[Trial]) -> TrialTable:
        best = self._order.best(trials)
        fit = max(MIN_ROWS, self.console.height - HEADER_LINES)
        shown = select_rows(self._order.best_first(trials), min(fit, MAX_ROWS))
        rows = [self._row(trial, trial is best) for trial in shown]
        return TrialTable(rows, varying_settings(trials), self.metric, len(trials) - len(rows))

    def _row(self, trial: Trial, is_best: bool) -> TrialRow:
        result = trial.last_result or {}
        status = self._status(trial)
        return TrialRow(
            trial_id=trial.trial_id,
            status=status,
            settings=searched_settings(trial),
            iteration=result.get(ITERATION),
            env_steps=result.get(ENV_STEPS),
            value=result.get(self.metric),
            speed=self._speeds.of(trial) if status == "running" else None,
            seconds=self._trained_s(trial, status),
            is_best=is_best,
            host=host_of(result) if self.names_hosts else None,
        )

    def _trained_s(self, trial: Trial, status: str) -> float | None:
        """Return how long a trial has trained; it goes on within an iteration."""
        seconds = (trial.last_result or {}).get(SECONDS)
        return (seconds or 0.0) + self._silent_s(trial) if status == "running" else seconds

    def _status(self, trial: Trial) -> str:
        if trial.trial_id in self._outcomes:
            return self._outcomes[trial.trial_id]
        if trial.status == "TERMINATED":  # ended before a resume, or with the sweep
            if was_interrupted(trial):
                return "interrupted"
            outcome = "pruned" if was_pruned(trial) else "finished"
        elif trial.status == "ERROR":
            outcome = "failed"
        else:
            return str(trial.status).lower()
        self._outcomes[trial.trial_id] = outcome
        return outcome
