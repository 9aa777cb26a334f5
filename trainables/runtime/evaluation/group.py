"""`EvaluationGroup`: an algorithm's evaluation env runners; the one of a trial without actors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.evaluation.plan import EvaluationPlan
from trainables.runtime.evaluation.result import EvaluationResult
from trainables.runtime.evaluation.runner import EvaluationRunner, Task
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.workers import WorkerGroup

T = TypeVar("T")

_ROUNDS = 1 << 20  # apart from the numbers of parts


class EvaluationGroup(WorkerGroup[EvaluationRunner]):
    """All evaluation env runners of an algorithm.

    An evaluation is `sync_weights`, `begin` and `collect`; in between, actors play.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        module_slots: Which module plays which episode, see `EvaluationRunner`.
        video_folder: Where videos go; None if there are none.

    Attributes:
        is_running: Whether an evaluation has begun and is not collected.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        module_slots: ModuleSlots | None = None,
        video_folder: str | None = None,
    ):
        super().__init__(config, policies, module_slots)
        self._video_folder = video_folder
        self._plan = EvaluationPlan.of(config)
        self._played: dict[int, EvaluationResult] = {}
        self._expected_length = float(self._plan.num_timesteps)
        self._num_players = 1  # of the parts that were dealt out last
        self._seed, self._iteration = np.random.SeedSequence(0), 0
        self.is_running = False

    # ------------------------------------------------------------------ an evaluation

    def sync_weights(self, iteration: int, version: int, seed: np.random.SeedSequence) -> None:
        """Evaluate the policies as they are now, from here on.

        Args:
            iteration: The iteration of training, which names videos.
            version: The version of the weights.
            seed: The root of the parts' random streams.
        """
        self._abandon()
        self.is_running = False
        self._iteration, self._seed, self.weights_version = iteration, seed, version
        self._publish()

    def _abandon(self) -> None:
        """Forget what was begun and not collected, as when training raised."""

    def begin(self, *, beside_training: bool = True) -> None:
        """Ask the actors to play; without actors, `collect` plays.

        Args:
            beside_training: Whether timesteps of no given number are as many as are made until
                `collect`; else each actor plays an episode.
        """
        self._played, self.is_running = {}, True

    def collect(self) -> EvaluationResult | None:
        """Wait for what `begin` asked for, at most `evaluation_sample_timeout_s`.

        Returns:
            The episodes of those that answered; None if nobody did.
        """
        self.is_running = False
        self._play_missing()
        result = self._plan.result(self._played, self._num_players)
        if result is not None and result.num_env_steps:
            self._expected_length = result.steps_per_episode
        return result

    @abstractmethod
    def _play_missing(self) -> None:
        """Have played what the plan misses."""

    def play(self) -> EvaluationResult | None:
        """Play one evaluation of `evaluation_duration`: `begin` and `collect`."""
        self.begin(beside_training=False)
        return self.collect()

    def play_until(self, duration_fn: Callable[[int], int]) -> EvaluationResult | None:
        """Play evaluations one after another, each on episodes of its own, as one.

        Args:
            duration_fn: Given how many episodes (or timesteps, by `evaluation_duration_unit`) were
                played, says how many more are to be; 0 ends it. The first ones are those that an
                evaluation of this length plays.

        Returns:
            All episodes; None if nobody played any.

        Raises:
            ConfigError: if it says no whole number, or 0 at first.
        """
        unit = self._config.evaluation_duration_unit
        before = self._plan, self._seed, self._video_folder
        results: list[EvaluationResult] = []
        try:
            while (left := _left(duration_fn, results, unit)) > 0:
                self._plan = EvaluationPlan(left, unit, self._config.evaluation_slots)
                if results:
                    self._seed, self._video_folder = _round_seed(before[1], len(results)), None
                result = self.play()
                if result is None:
                    break
                results.append(result)
        finally:
            self._plan, self._seed, self._video_folder = before
        return EvaluationResult.joined(results) if results else None

    def metrics(self) -> dict[str, float]:
        """Return how the actors are; nothing without actors."""
        return {}


class LocalEvaluationGroup(EvaluationGroup):
    """An evaluation env runner in this process, which plays with the learner's own policies.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        module_slots: Which module plays which episode, see `EvaluationRunner`.
        video_folder: Where videos go; None if there are none.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        module_slots: ModuleSlots | None = None,
        video_folder: str | None = None,
    ):
        super().__init__(config, policies, module_slots, video_folder)
        self._runner = self.local_env_runner = EvaluationRunner(
            config, policies, module_slots=self._module_slots
        )

    def _play_missing(self) -> None:
        # One at a time: of a number of timesteps nothing more is played than counts.
        while parts := self._plan.missing(self._played, self._expected_length)[:1]:
            task = Task(0, self._seed, self._iteration, self._video_folder, tuple(parts))
            self._played |= self._runner.play(task)


def _left(duration_fn: Callable[[int], int], results: list[EvaluationResult], unit: str) -> int:
    """Return how much is still to be played; see `EvaluationGroup.play_until`."""
    counted = "num_episodes" if unit == "episodes" else "num_env_steps"
    done = sum(int(result.metrics()[counted]) for result in results)
    left = duration_fn(done)
    if not isinstance(left, (int, np.integer)) or (left <= 0 and not results):
        allowed = "a whole number" + ("" if results else ", >= 1 at first")
        raise ConfigError(f"duration_fn({done}) = {left!r} is not allowed; allowed: {allowed}")
    return int(left)


def _round_seed(root: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """Return the root of the streams of a further evaluation, apart from those of parts."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, _ROUNDS, number))
