"""`Runners`: where a group's env runners are, and what they all share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.policy.connectors.filter import RunningMoments
from trainables.runtime.actors.group import ActorGroup
from trainables.runtime.sampling.actor import Sample, SampleReport
from trainables.runtime.sampling.env_runner import EnvRunner

T = TypeVar("T")


@dataclass
class Shared:
    """What a group's env runners have in common.

    Attributes:
        weights_version: The version of the learner's weights, counted by `sync_weights`.
        tasks: The tasks of the slots of each env runner, in order of their index.
        moments: What the observation filter has to learn of the samples since `sync_weights`.
    """

    weights_version: int = 0
    tasks: list[list[Any]] = field(default_factory=list)
    moments: list[RunningMoments] = field(default_factory=list)

    def received(self, index: int, report: SampleReport, rollouts: Any) -> Sample:
        """Return the sample of an env runner; its moments are kept."""
        if report.moments is not None:
            self.moments.append(report.moments)
        steps, version = report.num_env_steps, report.weights_version
        return Sample(index, steps, report.episodes, version, rollouts)


class Runners(Protocol):
    """The env runners of a group, in this process or in actors. Indices of actors begin at 1.

    Attributes:
        local: The env runner of this process, whose index is 0; None with actors.
    """

    local: EnvRunner | None

    @property
    def healthy(self) -> list[int]:
        """The indices of those that can be asked."""

    @property
    def restarts(self) -> list[int]:
        """How often each actor was made again, in this run and in those it goes on with."""

    def probe(self) -> list[int]:
        """Ask idle actors for a sign of life; returns those that failed."""

    def restore(self, *, wait: bool) -> list[int]:
        """Make failed actors again, see `FaultTolerantActors.restore`."""

    def sample(self) -> list[Sample]:
        """Return a fragment of each that did not fail, of one at least, in order of their index."""

    def request_samples(self) -> None:
        """Ask every healthy actor for as many fragments as may be under way."""

    def ready_samples(self, timeout_s: float | None) -> list[Sample]:
        """Return the samples that have arrived since the last call, see `EnvRunnerGroup`."""

    def publish(self) -> None:
        """Let each have the policy's present state when it begins with what it is asked next."""

    def ask_all(self, function: Callable[[EnvRunner], T]) -> list[T | None]:
        """Results of a function, a place for each env runner; None of those that failed."""

    def foreach(
        self, function: Callable[[EnvRunner], T], indices: Iterable[int], timeout_s: float | None
    ) -> list[T]:
        """Results of a function, see `EnvRunnerGroup.foreach_env_runner`."""

    def get_states(self) -> list[dict[str, Any] | None]:
        """Return the state of each; None of those that have failed."""

    def set_states(self, states: list[dict[str, Any] | None], restarts: list[int]) -> bool:
        """Take over states and `restarts`; returns whether every episode goes on where it was."""

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes on new random streams; what is under way is dropped."""

    def stop(self) -> None:
        """Close environments and end the actors."""

    def handed_over(self, config: AlgorithmConfig) -> ActorGroup | None:
        """Stop, but for actor processes that fit another config; these are returned."""


def joined(samples: list[Sample], num_columns: int) -> dict[str, Rollout]:
    """Return the rollouts of samples side by side.

    Args:
        samples: At least one, in order of the index.
        num_columns: Of so many env runners: in the place of those that have no sample there are
            columns without a valid row. 0: of those that have one.
    """
    parts = {sample.index: sample.rollouts for sample in samples}
    first = samples[0].rollouts
    if len(parts) < num_columns:
        blank = {m: rollout.without_steps() for m, rollout in first.items()}
        parts = {index: parts.get(index, blank) for index in range(1, num_columns + 1)}
    return {m: Rollout.concatenate([part[m] for part in parts.values()]) for m in first}


def child_seed(seed: np.random.SeedSequence, *path: int) -> np.random.SeedSequence:
    """Return the stream of one env runner: the same however many others there are."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *path))
