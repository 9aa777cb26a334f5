"""`SamplingWorker`: what env runners have in common, whatever they step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.logs import is_debug, logger, shapes
from trainables.core.policy.filter import RunningMoments
from trainables.runtime.callbacks.custom_metrics import Logged, MetricsLogger, extend
from trainables.runtime.callbacks.hooks import hooks_of
from trainables.runtime.sampling.recording import SlotRecorder
from trainables.runtime.sampling.workers import Worker


class Episodes:
    """Returns and lengths of the episodes that ended in a sample, in order; and what else it says.

    Attributes:
        returns: Sums of rewards, of all agents where there are several.
        lengths: Environment steps.
        num_env_steps: Environment steps of the sample, whether an episode ended or not.
        num_agent_steps: Actions of agents in it; 0 where there is one agent.
        num_restarts: How many environments were replaced.
        logged: What callbacks have logged, and with several agents their returns.
        matches: The same episodes as games, each a `Match`, where a league plays them.
    """

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.num_env_steps = self.num_agent_steps = 0
        self.num_restarts = 0
        self.logged: Logged = {}
        self.matches: list[Any] = []

    def extend(self, other: Episodes) -> None:
        """Append the episodes of another."""
        self.returns += other.returns
        self.lengths += other.lengths
        self.num_env_steps += other.num_env_steps
        self.num_agent_steps += other.num_agent_steps
        self.num_restarts += other.num_restarts
        extend(self.logged, other.logged)
        self.matches += other.matches


class SampleReport(NamedTuple):
    """What the driver wants to know of a sample at once; the rollouts are apart.

    Attributes:
        num_env_steps: Environment steps: those that only reset do not count.
        episodes: The episodes that ended.
        weights_version: The version of the weights that acted.
        moments: What observation filters have to learn of it, by module id.
    """

    num_env_steps: int
    episodes: Episodes
    weights_version: int
    moments: dict[str, RunningMoments]


class SamplingWorker(Worker):
    """Base of what samples rollouts, in process or as a Ray actor.

    Args:
        config: The algorithm's config.
        worker_index: 0 in process, 1, 2, … for actors.

    Attributes:
        recorders: What acts and records for each module, by module id; a module that acts nowhere
            here is missing.
    """

    recorders: dict[str, SlotRecorder]

    def __init__(self, config: AlgorithmConfig, worker_index: int):
        self.config, self.worker_index = config, worker_index
        self.weights_version = 0
        self.callbacks, self._logger = hooks_of(config), MetricsLogger()

    @abstractmethod
    def sample(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        """Step every slot `num_steps` times.

        Returns:
            A rollout `[T, N]` by module id, and the episodes that ended in it.
        """

    @abstractmethod
    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes and exploration on the random streams of `seed`."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Return random streams, running episodes and the environment's state, if it has one."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s.

        Returns:
            Whether episodes go on where they were; False if new ones were started, because the
            environment cannot give its state or the slots differ.
        """

    @abstractmethod
    def write_output(self, plan: Any) -> None:
        """Record what is sampled from here on, until the end.

        Args:
            plan: Where to, of `feature("offline").output_plan`.
        """

    @abstractmethod
    def choose_tasks(self, task_fn: Callable[..., Any], result: dict[str, Any]) -> list[Any]:
        """Ask for each slot's task and set it; return the tasks."""

    @abstractmethod
    def set_tasks(self, tasks: list[Any]) -> None:
        """Set each slot's task."""

    def _sampled(
        self, rollouts: dict[str, Rollout], episodes: Episodes
    ) -> tuple[dict[str, Rollout], Episodes]:
        """Tell callbacks and the log of a sample, and return what `sample` returns."""
        self.callbacks(
            "on_sample_end", env_runner=self, samples=rollouts, metrics_logger=self._logger
        )
        episodes.logged = self._logger.take()
        if is_debug():
            logger.debug(
                "env runner %d sampled %d env steps, %d episodes ended, weights version %d: %s",
                self.worker_index,
                episodes.num_env_steps,
                len(episodes.returns),
                self.weights_version,
                shapes(next(iter(rollouts.values())) if len(rollouts) == 1 else rollouts),
            )
        return rollouts, episodes

    def report(self, rollouts: dict[str, Rollout], episodes: Episodes) -> SampleReport:
        """Return what is said of the sample that has just been made."""
        if not episodes.num_env_steps:  # `sample` is a subclass's
            episodes.num_env_steps = sum(rollout.num_env_steps for rollout in rollouts.values())
        moments = self.take_filter_moments()
        return SampleReport(episodes.num_env_steps, episodes, self.weights_version, moments)

    def take_filter_moments(self) -> dict[str, RunningMoments]:
        """Return statistics of the frames since the last call, by id of the modules with a filter.

        Each frame is counted once.
        """
        return {
            m: recorder.take_filter_moments()
            for m, recorder in self.recorders.items()
            if recorder.policy.observations.filter is not None
        }

    def ping(self) -> int:
        """Return this runner's index; it answers when its environments are made."""
        return self.worker_index

    def end_output(self) -> None:
        """Write what has been sampled and is not in whole files yet; record no more.

        Raises:
            DataError: if it cannot be written.
        """

    def stop(self) -> None:
        """Close the environments, and what they are recorded to."""
        try:
            self.end_output()
        finally:
            self.env.close()
