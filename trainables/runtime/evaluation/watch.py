"""Who looks on while episodes are played: a table of them, traces, progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainables.runtime.sampling.module_slots import SlotsOf


@dataclass(frozen=True)
class PlayedStep:
    """One step of all slots.

    Attributes:
        obs: What was acted on, batched as the environment gives it; a copy.
        actions: The actions that the environment was given, batched.
        rewards: The rewards of the slots, `[N]`.
        terminated: Where the environment has ended an episode, `[N]`.
        truncated: Where the environment or the limit of the evaluation cut one off, `[N]`.
        lengths: Steps of the slots' episodes with this one, `[N]`.
        counts: Slots whose step is one of an episode that counts, `[N]`.
        slots_of: The slots in which each policy acted, `[M]` by module id.
        next_obs: What the actions led to, batched; the environment may write over it later.
        policy_outputs: Computes what policies thought of it, in all slots what all of them give,
            see `SlotActor.policy_outputs`.
    """

    obs: Any
    actions: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    lengths: np.ndarray
    counts: np.ndarray
    slots_of: SlotsOf
    next_obs: Any
    policy_outputs: Callable[[], dict[str, np.ndarray]]


class Watch:
    """Looks on; every method may stay as it is.

    Attributes:
        wants_steps: Whether `step` is to be called, which costs a copy of every observation.
    """

    wants_steps = False

    def begin(self, seeds: Sequence[int], share: bool) -> None:
        """Take note of the episodes that the slots begin.

        Args:
            seeds: The seeds that the slots' environments are reset with.
            share: Whether that is one seed, of a vector environment that is one piece.
        """

    def step(self, step: PlayedStep) -> None:
        """Take note of a step of all slots."""

    def ended(self, slot: int, outcome: Outcome) -> None:
        """Take note of the end of a slot's episode."""


@dataclass(frozen=True)
class Outcome:
    """How an episode ended.

    Attributes:
        total: Undiscounted sum of rewards.
        length: Steps.
        terminated: Whether the environment ended it.
        truncated: Whether it was cut off, by the environment or by a limit of the evaluation.
    """

    total: float
    length: int
    terminated: bool
    truncated: bool


@dataclass(frozen=True)
class EpisodeRecord:
    """An episode and how to play it again.

    Attributes:
        episode: Its number, from 0.
        part: Number of the part of the evaluation; the episodes of a part are played side by side.
        slot: Its place in the part.
        num_slots: Number of slots of the part.
        seed: The seed that its environment was reset with. One of a vector environment that is one
            piece (`shares_seed`) is that of all its slots together.
        shares_seed: Whether the part's slots have one seed.
        outcome: How it ended.
    """

    episode: int
    part: int
    slot: int
    num_slots: int
    seed: int
    shares_seed: bool
    outcome: Outcome


class EpisodeLog(Watch):
    """A table of the episodes that have ended, also of parts that were not played to the end."""

    def __init__(self) -> None:
        self._ended: list[EpisodeRecord] = []
        self._seeds: Sequence[int] = ()
        self._share = False
        self._part, self._first = -1, 0

    def begin(self, seeds: Sequence[int], share: bool) -> None:
        self._first += len(self._seeds)
        self._part += 1
        self._seeds, self._share = seeds, share

    def ended(self, slot: int, outcome: Outcome) -> None:
        self._ended.append(
            EpisodeRecord(
                self._first + slot,
                self._part,
                slot,
                len(self._seeds),
                self._seeds[slot],
                self._share,
                outcome,
            )
        )

    @property
    def episodes(self) -> list[EpisodeRecord]:
        """In order of their numbers."""
        return sorted(self._ended, key=lambda record: record.episode)

    def __len__(self) -> int:
        return len(self._ended)
