"""What an evaluation gave, and what shows and ends one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.policy_sources import PolicySource
from experiments.errors import ExperimentError
from trainables.runtime.evaluation.watch import Outcome, Watch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from experiments.commands.evaluation.summary import Summary
    from trainables.core.policy.actable import Actable
    from trainables.runtime.evaluation.matches.games import Game, Matches
    from trainables.runtime.evaluation.watch import EpisodeRecord


HUMAN = "human"
"""What `--opponent` calls who types at the terminal."""


class LeftEarly(ExperimentError):
    """A human has left before a game had ended."""


@dataclass(frozen=True)
class Versus:
    """A policy and its opponent.

    Attributes:
        policy_id: The policy that is judged.
        opponent: The opponent as it was named: human, random, code, a folder or a policy.
        matches: Their games.
    """

    policy_id: str
    opponent: str
    matches: Matches

    @cached_property
    def games(self) -> dict[int, Game]:
        """The games by the number of their episode."""
        return {game.episode: game for game in self.matches.games}


@dataclass(frozen=True)
class Evaluation:
    """What was played.

    Attributes:
        source: Where the policy comes from.
        algorithm: The algorithm that trained it.
        environment: The environment that it played in.
        env_config: The environment's settings.
        seed: The seed of the episodes.
        num_envs: Slots that were stepped together.
        explore: Whether actions were sampled.
        episodes: Those that ended, in order.
        num_asked: How many were asked for.
        wall_s: Seconds that playing took.
        videos: The files of the first episodes, by number.
        notes: What is to be known about the numbers.
        modules: Of several agents the returns of the agents that each policy acted for, by its id.
        agents: Their returns by agent.
        versus: Against whom one policy played; None: against nobody in particular. The episodes'
            returns are then those of that policy's agent.
    """

    source: PolicySource
    algorithm: str | None
    environment: str
    env_config: dict[str, Any] | None
    seed: int
    num_envs: int
    explore: bool
    episodes: list[EpisodeRecord]
    num_asked: int
    wall_s: float
    videos: dict[int, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    modules: dict[str, list[float]] = field(default_factory=dict)
    agents: dict[str, list[float]] = field(default_factory=dict)
    versus: Versus | None = None

    @property
    def interrupted(self) -> bool:
        """Whether episodes are missing."""
        return len(self.episodes) < self.num_asked

    @property
    def summary(self) -> Summary:
        """Statistics of the episodes."""
        from experiments.commands.evaluation.summary import summary_of

        return summary_of(self.episodes)


def names_of(policy: Actable) -> set[Any]:
    """What the algorithm of a policy is called: by its class, too, where that is the user's."""
    from trainables.core.checkpoint import TRAINABLE

    own = str(policy.metadata.get(TRAINABLE, ""))
    return {policy.metadata.get("algorithm"), own, own.partition(":")[2]}


def notes_of(ended: int, asked: int, filmed_apart: bool, left_out: list[str]) -> list[str]:
    """Return what is to be known about the numbers of an evaluation."""
    notes = []
    if ended < asked:
        notes.append(
            f"Interrupted: {ended} of {asked} episodes had ended. The others are missing, and "
            "long episodes are more often among them."
        )
    if filmed_apart:
        notes.append(
            "This environment steps all slots at once and cannot be filmed. All episodes are from "
            "separate environments, with other random streams than without a video."
        )
    if left_out:
        notes.append(
            f"Left out of the trace, because they are large: {', '.join(left_out)} "
            "(--trace-images includes them)."
        )
    return notes


@contextmanager
def stopped_by_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; the second one interrupts as usual."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def press(signum: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class _Shown(Watch):
    def __init__(self, progress: Progress, total: int):
        self._progress = progress
        self._task = progress.add_task("episodes", total=total, mean="")
        self._num, self._sum = 0, 0.0

    def ended(self, slot: int, outcome: Outcome) -> None:
        self._num, self._sum = self._num + 1, self._sum + outcome.total
        mean = f"return {self._sum / self._num:.2f} so far"
        self._progress.update(self._task, advance=1, mean=mean)


@contextmanager
def shown_progress(total: int, console: Console) -> Iterator[Watch]:
    """Show a bar that counts episodes; nothing where there is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[mean]}"),
    )
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        yield _Shown(progress, total)
