"""What a sweep shows while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ray import tune
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from analysis.rows import flatten
from experiments.trial_info import error_cause, error_path, was_pruned

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

MAX_ROWS = 20
MAX_COLUMNS = 5  # of hyperparameters
ENV_STEPS = "num_env_steps_sampled_lifetime"
STATUS_LINE_PERIOD_S = 30.0  # of the plain output

_STATUS_STYLE = {
    "running": "cyan",
    "finished": "green",
    "pruned": "yellow",
    "failed": "bold red",
    "pending": "dim",
    "paused": "dim",
}


class Progress(tune.Callback):
    """Shows how a sweep goes. It never raises: what cannot be drawn is not drawn.

    Args:
        metric: the objective, a key of the results.
        mode: "max" or "min".
        total_trials: how many trials the sweep will have; None if that is not known.
        name: the sweep's name.
        console: where to write; None writes to standard output. A terminal gets the live table,
            anything else a line when a trial starts, ends or fails, and a status line every 30 s.
        interval_s: least seconds between two drawings.
    """

    def __init__(
        self,
        metric: str,
        mode: str,
        *,
        total_trials: int | None,
        name: str,
        console: Console | None = None,
        interval_s: float = 1.0,
    ) -> None:
        if mode not in ("max", "min"):
            raise ValueError(f'mode must be "max" or "min", got {mode!r}')
        self.metric = metric
        self.mode = mode
        self.total_trials = total_trials
        self.name = name
        self.interval_s = interval_s
        self._console = console
        self._reset()

    def _reset(self) -> None:
        self._start = time.monotonic()
        self._last_draw = float("-inf")
        self._last_line = time.monotonic()
        self._live: Live | None = None
        self._trials: list[Trial] = []
        self._outcomes: dict[str, str] = {}  # of ended trials: was_pruned looks at the result
        self._begun: dict[str, dict[str, Any]] = {}  # the settings that a trial was last seen with
        self._speeds = _Speeds()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the console, which cannot be pickled, out of Tune's tuner.pkl."""
        names = ("metric", "mode", "total_trials", "name", "interval_s")
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
            self._guard(self._say, self._header(trials).plain)

    def stop(self) -> None:
        """Ends the live table and leaves its last state on the screen; safe to repeat."""
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
        return self.console.is_terminal and not self.console.is_dumb_terminal

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
            verb = what if what != "running" else "goes on with" if before else "started"
            result = trial.last_result or {}
            parts = [f"trial {trial.trial_id} {verb}"]
            if what == "running":
                columns = varying_settings(self._trials)
                settings = flatten(trial.config)
                changed = [c for c in columns if c in settings and before.get(c) != settings[c]]
                shown = [f"{c}={_short(settings[c])}" for c in changed]
                parts.append(" ".join(shown))
            else:
                parts.append(f"{self.metric}={_short(result.get(self.metric))}")
                parts.append(f"env steps={_count(result.get(ENV_STEPS))}")
                parts.append(f"iteration={result.get('training_iteration', 0)}")
                best = self._best(self._trials)
                if best is trial:
                    parts.append("best so far")
            self._say("  ".join(part for part in parts if part))

    def _say(self, message: str, style: str = "") -> None:
        console = self._live.console if self._live else self.console
        console.print(Text(f"[{_clock(time.monotonic() - self._start)}] {message}", style=style))

    def _draw(self, trials: list[Trial]) -> None:
        self._speeds.update(trials)
        if self._is_live():
            if self._live is None:
                self._live = Live(console=self.console, auto_refresh=False, transient=False)
                self._live.start()
            self._live.update(Group(self._header(trials), self._table(trials)), refresh=True)
        elif time.monotonic() - self._last_line >= STATUS_LINE_PERIOD_S:
            self._last_line = time.monotonic()
            self._say(self._header(trials).plain)

    def _header(self, trials: list[Trial]) -> Text:
        counts = dict.fromkeys(("running", "finished", "pruned", "failed"), 0)
        for trial in trials:
            status = self._status(trial)
            if status in counts:
                counts[status] += 1
        total = f"/{self.total_trials}" if self.total_trials else ""
        header = Text(f"{self.name}  ", style="bold")
        header.append(f"trials {len(trials)}{total}: ", style="not bold")
        for number, (status, count) in enumerate(counts.items()):
            header.append(", " if number else "", style="not bold")
            header.append(f"{count} {status}", style=f"not bold {_STATUS_STYLE[status]}")
        best = self._best(trials)
        if best is not None:
            value = _short((best.last_result or {}).get(self.metric))
            header.append(f"  best {self.metric} {value} ({best.trial_id})", style="bold green")
        header.append(f"  {_clock(time.monotonic() - self._start)}", style="dim")
        return header

    def _table(self, trials: list[Trial]) -> Table:
        columns = list(varying_settings(trials))[:MAX_COLUMNS]
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("trial", "status", *columns):
            table.add_column(heading, no_wrap=True)
        for heading in ("iter", "env steps", self.metric, "steps/s", "time"):
            table.add_column(heading, justify="right", no_wrap=True)
        best = self._best(trials)
        rows = select_rows(trials, self.metric, self.mode, MAX_ROWS)
        for trial in rows:
            table.add_row(*self._row(trial, columns), style="bold green" if trial is best else None)
        if len(rows) < len(trials):
            table.add_row(f"... {len(trials) - len(rows)} more", style="dim")
        return table

    def _row(self, trial: Trial, columns: Iterable[str]) -> list[str | Text]:
        result = trial.last_result or {}
        settings = flatten(trial.evaluated_params or {})
        status = self._status(trial)
        speed = self._speeds.of(trial) if status == "running" else None
        return [
            trial.trial_id,
            Text(status, style=_STATUS_STYLE.get(status, "")),
            *(_short(settings.get(column)) for column in columns),
            str(result.get("training_iteration", "")),
            _count(result.get(ENV_STEPS)),
            _short(result.get(self.metric)),
            _count(speed),
            _clock(result["time_total_s"]) if "time_total_s" in result else "",
        ]

    def _status(self, trial: Trial) -> str:
        if trial.trial_id in self._outcomes:
            return self._outcomes[trial.trial_id]
        if trial.status == "TERMINATED":  # ended before a resume
            outcome = "pruned" if was_pruned(trial) else "finished"
        elif trial.status == "ERROR":
            outcome = "failed"
        else:
            return str(trial.status).lower()
        self._outcomes[trial.trial_id] = outcome
        return outcome

    def _best(self, trials: list[Trial]) -> Trial | None:
        scored = [
            (value, trial) for trial in trials if (value := _value(trial, self.metric)) is not None
        ]
        if not scored:
            return None
        pick = max if self.mode == "max" else min
        return pick(scored, key=lambda pair: pair[0])[1]


class _Speeds:
    """Env steps per second of running trials: as reported, else from successive results."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}  # trial id -> env steps, seconds trained
        self._speed: dict[str, float] = {}

    def update(self, trials: list[Trial]) -> None:
        for trial in trials:
            result = trial.last_result or {}
            steps, seconds = result.get(ENV_STEPS), result.get("time_total_s")
            if trial.status != "RUNNING" or steps is None or seconds is None:
                continue
            before = self._seen.get(trial.trial_id)
            self._seen[trial.trial_id] = (steps, seconds)
            if before is not None and seconds > before[1] and steps > before[0]:
                self._speed[trial.trial_id] = (steps - before[0]) / (seconds - before[1])

    def of(self, trial: Trial) -> float | None:
        reported = (trial.last_result or {}).get("env_steps_per_second")
        return reported if reported is not None else self._speed.get(trial.trial_id)


def varying_settings(trials: list[Trial]) -> dict[str, None]:
    """Returns the searched settings, in their order, that differ between the trials.

    With fewer than two trials all searched settings count.
    """
    searched: dict[str, set[str]] = {}
    for trial in trials:
        for key, value in flatten(trial.evaluated_params or {}).items():
            searched.setdefault(key, set()).add(repr(value))
    return {k: None for k, values in searched.items() if len(trials) < 2 or len(values) > 1}


def select_rows(trials: list[Trial], metric: str, mode: str, limit: int) -> list[Trial]:
    """Returns at most `limit` trials, best first: the running ones, then the best of the others.

    Trials without a value come last, in the order in which they were made.
    """
    sign = -1.0 if mode == "max" else 1.0

    def rank(trial: Trial) -> tuple[bool, float]:
        value = _value(trial, metric)
        return (value is None, sign * value if value is not None else 0.0)

    ranked = sorted(trials, key=rank)
    best = ranked[:1]  # always shown, whatever runs
    running = [trial for trial in ranked[1:] if trial.status == "RUNNING"]
    others = [trial for trial in ranked[1:] if trial.status != "RUNNING"]
    return sorted([*best, *running, *others][:limit], key=rank)


def _value(trial: Trial, metric: str) -> float | None:
    value = (trial.last_result or {}).get(metric)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _short(value: Any) -> str:
    """Returns a value as a table shows it: four significant digits, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping) or callable(value):
        return getattr(value, "__name__", "...")
    text = str(value)
    return text if len(text) <= 16 else text[:15] + "…"


def _count(value: Any) -> str:
    return "" if value is None else f"{int(value):,}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
