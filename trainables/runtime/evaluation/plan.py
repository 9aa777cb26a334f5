"""What an evaluation plays: parts, each with a seed of its own, whoever plays them."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, count

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.runtime.evaluation.result import EvaluationResult

logger = logging.getLogger("trainables")


@dataclass(frozen=True)
class Part:
    """Episodes that are played side by side, one in each slot.

    Its seed belongs to its number. So it is the same part in the trial's own process and in any
    actor, and a result does not depend on who played what.

    Attributes:
        number: Its number, from 0.
        num_slots: Slots that are stepped together.
        max_steps: Steps of all slots together after which episodes are cut off; None: none is.
        first_episode: The number of its first slot's episode in the evaluation, from 0.
    """

    number: int
    num_slots: int
    max_steps: int | None = None
    first_episode: int = 0


class EvaluationPlan:
    """Which parts an evaluation has, and which of those that were played make its result.

    - A number of episodes is dealt out evenly to the fewest parts of at most `num_slots` slots.
    - For a number of timesteps parts are played in order, one episode a slot, until they have as
      many together: there the episodes of the last part are cut off, and no return is known of
      them. Players that are faster play ahead; what is too much does not count.
    - "auto" goes on in the same way until it is stopped. The mean of what one player has ended by
      then is right, whatever the lengths; so a result is the mean of players' means. That of all
      episodes would favour players with many of them, that is with short ones. In timesteps an
      episode that is running then is cut off; in episodes a player's first one is played to its
      end.

    Args:
        duration: Episodes, timesteps, or "auto".
        unit: "episodes" or "timesteps".
        num_slots: Slots that are stepped together.

    Attributes:
        is_endless: Whether it goes on until it is stopped.
        cuts_off: Whether episodes are cut off where it stops.
        num_timesteps: 0 of a plan that does not count them.
    """

    def __init__(self, duration: int | str, unit: str, num_slots: int):
        self.is_endless, self.cuts_off = duration == "auto", unit == "timesteps"
        self._num_slots = num_slots
        self._parts: list[Part] = []
        self.num_timesteps = 0
        if isinstance(duration, int) and unit == "timesteps":
            self.num_timesteps = duration
        elif isinstance(duration, int):
            sizes = dealt_evenly(duration, math.ceil(duration / num_slots))
            firsts = accumulate(sizes, initial=0)
            self._parts = [
                Part(number, size, first_episode=first)
                for number, (size, first) in enumerate(zip(sizes, firsts, strict=False))
            ]

    @classmethod
    def of(cls, config: AlgorithmConfig) -> EvaluationPlan:
        """Return the plan of a config's evaluations."""
        return cls(
            config.evaluation_duration, config.evaluation_duration_unit, config.evaluation_slots
        )

    @property
    def num_parts(self) -> int | None:
        """How many there are; None if the episodes decide."""
        return len(self._parts) or None

    def parts_from(self, first: int, step: int) -> Iterator[Part]:
        """Yield the parts of an endless plan for one of `step` players."""
        return (self._part(number) for number in count(first, step))

    def _part(self, number: int, max_steps: int | None = None) -> Part:
        return Part(number, self._num_slots, max_steps, number * self._num_slots)

    def missing(
        self, played: Mapping[int, EvaluationResult], expected_length: float, at_least: int = 1
    ) -> list[Part]:
        """Return what is to be played next; nothing once the result is whole.

        Args:
            played: What has been played, by the part's number.
            expected_length: The length of episodes in steps, as long as none has been played.
            at_least: How many parts there are to be, if more are played anyway than are needed.
        """
        if self._parts:
            return [part for part in self._parts if part.number not in played]
        if self._is_whole(played):
            return []
        lengths = [part.steps_per_episode for part in played.values() if part.num_env_steps]
        expected = self._num_slots * float(np.mean(lengths) if lengths else expected_length)
        steps, missing = 0.0, list[Part]()
        wanting = self.num_timesteps  # behind the parts before the first that is missing
        for number in count():
            if number in played:
                steps += played[number].num_env_steps
                wanting -= 0 if missing else played[number].num_env_steps
            elif steps < self.num_timesteps or len(missing) < at_least:
                missing.append(self._part(number, wanting))
                steps += expected
            else:
                return missing
        raise AssertionError("count() does not end")

    def result(
        self, played: Mapping[int, EvaluationResult], num_players: int = 1
    ) -> EvaluationResult | None:
        """Return the episodes that count, in order of their parts; None if there are none.

        Args:
            played: What has been played, by the part's number.
            num_players: The `step` of `parts_from`, of an endless plan.
        """
        parts = [played[number] for number in sorted(played)]
        if self.num_timesteps and self._is_whole(played):
            totals = np.cumsum([part.num_env_steps for part in parts])
            last = int(np.argmax(totals >= self.num_timesteps))
            before = int(totals[last]) - parts[last].num_env_steps
            parts = [*parts[:last], parts[last].cut_after(self.num_timesteps - before)]
        if not parts:
            return None
        weights = _equal_players(played, num_players) if self.is_endless else None
        return replace(EvaluationResult.joined(parts), weights=weights)

    def _is_whole(self, played: Mapping[int, EvaluationResult]) -> bool:
        """Tell whether the first parts, without a gap, have all timesteps."""
        steps = 0
        for number in count():
            if steps >= self.num_timesteps > 0:
                return True
            if number not in played:
                return False
            steps += played[number].num_env_steps
        raise AssertionError("count() does not end")


def dealt_evenly(total: int, shares: int) -> list[int]:
    """Return whole shares that add up to a total, the first ones larger by one where need be."""
    base, rest = divmod(total, shares)
    return [base + (share < rest) for share in range(shares)]


def part_seed(root: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return the seed of a part, by the root of an evaluation's streams and the part's number."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, number))


def _equal_players(played: Mapping[int, EvaluationResult], num_players: int) -> np.ndarray:
    """Return weights of episodes, in order of their parts: all players that ended one are equal."""
    players = np.concatenate(
        [np.full(len(played[number].returns), number % num_players) for number in sorted(played)]
    )
    return 1.0 / np.bincount(players)[players]


def warn_of_idle_actors(config: AlgorithmConfig) -> None:
    """Warn if there are more actors than parts of an evaluation."""
    num_actors, num_parts = config.evaluation_num_env_runners, EvaluationPlan.of(config).num_parts
    num_episodes = config.evaluation_duration
    if isinstance(num_episodes, str) or num_parts is None or num_parts >= num_actors:
        return
    logger.warning(
        "evaluation: %d episodes in parts of up to %d slots are %d parts, so %d of %d actors are "
        "idle: set evaluation_config={'num_envs_per_env_runner': %d}, or "
        "evaluation_num_env_runners=%d",
        num_episodes,
        config.evaluation_slots,
        num_parts,
        num_actors - num_parts,
        num_actors,
        math.ceil(num_episodes / num_actors),
        num_parts,
    )
