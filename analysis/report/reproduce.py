"""The command lines that repeat a sweep, or the run behind one line of its leaderboard."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from analysis.overview.overview import ReportData
from analysis.results.checkpoints import POLICY, is_of_policy
from analysis.results.records import TrialRecord
from analysis.results.rows import flatten
from analysis.results.schedulers import POPULATION

_SEARCH_AGAIN = ("--set", "search=random", "--set", "search_space={}", "--set", "num_samples=1")


def sweep_commands(data: ReportData) -> list[tuple[str, str]]:
    """Return commands on the whole sweep, each with what it does."""
    from trainables.runtime.evaluation.needed_trust import names_no_environment

    folder = shown(data, data.folder)
    commands: list[tuple[tuple[str, ...], str]] = [
        (("run", _spec(data), "--name", f"{data.name}-again"), "run the whole sweep again")
    ]
    if data.running:
        commands.append((("resume", folder), "continue the interrupted trials"))
    if data.failed:
        commands.append((("resume", folder, "--retry-errored"), "run the failed trials again"))
    best = data.folder / "best"
    if best.is_dir() and not names_no_environment(best):
        play = ("evaluate", folder, "--episodes", "100", "--seed", "0")
        evaluate = (*play, *_trust(best))
        commands.append((evaluate, "play episodes with the best policy"))
    if data.winner is not None and any(map(is_of_policy, _kept(data.winner))):
        commands.append((("export", folder, "-o", "policy"), "export the best policy to a folder"))
    commands.append((("report", folder), "write this page again"))
    return [(shlex.join(("tunescape", *words)), what) for words, what in commands]


def trial_command(data: ReportData, trial: TrialRecord) -> str:
    """Return the command that runs one trial's configuration again, seeds included."""
    name = f"{data.name}-{trial.trial_id}"
    words = ["tunescape", "run", _spec(data), "--name", name, *_SEARCH_AGAIN]
    if data.final is not None:
        words += ["--set", "final=null"]
    if _was_replaced(data, trial):
        replay = {
            "algorithm": "pbt_replay",
            "sweep": shown(data, data.folder),
            "trial": trial.trial_id,
        }
        return shlex.join([*words, *_assignments("scheduler", replay)])
    if data.scheduler["algorithm"] != "fifo":
        words += ["--set", "scheduler=fifo"]
    flat = flatten(trial.config)
    names = [name for name in data.settings if name in flat]
    if "seed" in flat and "seed" not in names:
        names.append("seed")
    for setting in names:
        words += _assignments(f"config.{setting.replace('/', '.')}", flat[setting])
    words += _end(data, trial)
    return shlex.join(words)


def commands_of(data: ReportData, trial: TrialRecord) -> list[tuple[str, str]]:
    """Return how to train one trial again, and how to look at its newest checkpoint."""
    from trainables.runtime.evaluation.needed_trust import names_no_environment

    commands = [(trial_command(data, trial), "train it again")]
    newest = max(_kept(trial), key=lambda path: path.name, default=None)
    if newest is not None and is_of_policy(newest):
        policies = newest / POLICY.parent  # a folder for each
        line = ("tunescape", "evaluate", shown(data, newest), "--episodes", "100", "--seed", "0")
        words = (*line, *_trust(policies))
        if not names_no_environment(policies):
            commands.append((shlex.join(words), "play episodes with its newest checkpoint"))
    elif newest is not None:  # of a trainable of one's own
        what = "its newest checkpoint, for the code that wrote it"
        commands.append((f"ls {shlex.quote(shown(data, newest))}", what))
    return commands


def _kept(trial: TrialRecord) -> list[Path]:
    """Return the checkpoints of a trial that are there."""
    return [checkpoint.path for checkpoint in trial.checkpoints] or trial.unplaced


def _trust(policies: Path) -> list[str]:
    """Return the options that the command which plays with a folder's policies needs."""
    from trainables.runtime.evaluation.needed_trust import needed_trust

    return [word for entry in needed_trust(policies) for word in ("--trust", entry)]


def shown(data: ReportData, path: Path) -> str:
    """Return a path in the sweep's folder as its user would write it.

    A report is passed on, and says no more of its author's folders than it must.
    """
    storage = data.spec.get("storage")
    if isinstance(storage, str) and not Path(storage).is_absolute():
        whole = Path(storage, str(data.spec.get("name", data.name)))
        if data.folder.parts[-len(whole.parts) :] == whole.parts:
            return str(whole / path.relative_to(data.folder))
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _spec(data: ReportData) -> str:
    return shown(data, data.folder / "spec.yaml")


def _assignments(key: str, value: Any) -> list[str]:
    return ["--set", f"{key}={json.dumps(value, default=str)}"]


def _was_replaced(data: ReportData, trial: TrialRecord) -> bool:
    """Tell whether the weights of a population's trial came from a schedule of settings."""
    population = data.scheduler["algorithm"] in POPULATION
    return population and any(exploit.trial == trial.trial_id for exploit in data.lineage)


def _end(data: ReportData, trial: TrialRecord) -> list[str]:
    """Return where a scheduler stopped the trial, so that the command does so too."""
    words: list[str] = []
    for metric, limit in (data.spec.get("stop") or {}).items():
        last = trial.last(metric)
        if trial.status == "TERMINATED" and last is not None and last < limit:
            words += _assignments(f"stop.{metric}", int(last) if last.is_integer() else last)
    return words
