"""`EnvRunnerGroup`: an algorithm's env runners, in process or in Ray actors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import VectorEnv

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.policy.connectors.filter import RunningMoments
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.group import ActorGroup
from trainables.runtime.envs.slot_tasks import TaskFunction
from trainables.runtime.sampling.actor import Sample
from trainables.runtime.sampling.env_runner import EnvRunner, Episodes
from trainables.runtime.sampling.local_runners import LocalRunners
from trainables.runtime.sampling.remote_runners import RemoteRunners
from trainables.runtime.sampling.runner_functions import ChooseTasks, SetTasks, WithId
from trainables.runtime.sampling.runners import Runners, Shared, joined
from trainables.runtime.sampling.worker_calls import CallsWorkers
from trainables.runtime.sampling.worker_policies import LocalWorker

T = TypeVar("T")


class EnvRunnerGroup(CallsWorkers):
    """All env runners of an algorithm behind one `sample`.

    With actors, one that fails (dies, does not answer within `sample_timeout_s`, or has an
    environment that raises) is handled as the `fault_tolerance` settings say. What it was sampling
    is lost and was never counted. One that is made again has its predecessor's index, weights,
    filter, tasks and exploration, and random streams of its own.

    Args:
        config: The algorithm's config.
        policy: The learner's policy; the in-process runner shares it, actors copy it.
        env: The in-process runner's environment; None with actors.
        seed: Root of the runners' random streams.
        video_folder: Where videos go; None if there are none.

    Attributes:
        on_recreated: Called with the indices of env runners that were made again.
        push_policies: Called when the weights of `local_worker()` are set: learners elsewhere
            take them over.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
        video_folder: str | None = None,
    ):
        self.on_recreated: Callable[[list[int]], None] | None = None
        self.push_policies: Callable[[], None] | None = None
        self._start(config, policy, env, seed, video_folder, None)

    def _start(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
        video_folder: str | None,
        existing: ActorGroup | None,
    ) -> None:
        self._config, self._policy, self._shared = config, policy, Shared()
        self._runners: Runners
        if config.num_env_runners == 0:
            assert env is not None
            self._runners = LocalRunners(config, policy, env, seed, self._shared)
        else:
            self._runners = RemoteRunners(
                config,
                policy,
                seed,
                self._shared,
                video_folder=video_folder,
                on_recreated=self._recreated,
                existing=existing,
            )

    def rebuild(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
        video_folder: str | None = None,
    ) -> None:
        """Start over with another config, in the same actor processes where they fit."""
        existing = self._runners.handed_over(config)
        self._start(config, policy, env, seed, video_folder, existing)

    def _recreated(self, indices: list[int]) -> None:
        if self.on_recreated is not None:
            self.on_recreated(indices)

    # ------------------------------------------------------------------ health

    @property
    def local_env_runner(self) -> EnvRunner | None:
        """The in-process env runner; None with actors."""
        return self._runners.local

    @property
    def num_env_runners(self) -> int:
        """Number of actors, healthy or not."""
        return len(self._runners.restarts)

    @property
    def num_healthy_env_runners(self) -> int:
        """Number of actors that can be asked."""
        return sum(index > 0 for index in self._runners.healthy)

    @property
    def num_restarts(self) -> int:
        """How often an env runner was made again, in this run and in those it goes on with."""
        return sum(self._runners.restarts)

    def probe(self) -> list[int]:
        """Ask idle env runners for a sign of life; returns those that failed."""
        return self._runners.probe()

    def restore(self, *, wait: bool = True) -> list[int]:
        """Make failed env runners again, see `FaultTolerantActors.restore`."""
        return self._runners.restore(wait=wait)

    # ------------------------------------------------------------------ sampling

    def sample(self, *, all_columns: bool = False) -> tuple[dict[str, Rollout], Episodes]:
        """One fragment from every env runner, side by side and ordered by index.

        Filter statistics are gathered but stay as they are until `sync_weights`.

        Args:
            all_columns: Columns of env runners that failed are there, with no valid row; else they
                are missing.
        """
        samples = self._runners.sample()
        episodes = Episodes()
        for sample in samples:
            episodes.extend(sample.episodes)
        return joined(samples, self.num_env_runners if all_columns else 0), episodes

    def request_samples(self) -> None:
        """Ask every healthy env runner for as many fragments as may be under way."""
        self._runners.request_samples()

    def ready_samples(self, timeout_s: float | None = None) -> list[Sample]:
        """Samples that have arrived since the last call, each once; asks for more at once.

        In process, one fragment is sampled.

        Args:
            timeout_s: How long to wait for the first, seconds; None: as long as it takes.
        """
        return self._runners.ready_samples(timeout_s)

    # ------------------------------------------------------------------ weights

    @property
    def weights_version(self) -> int:
        """The version of the learner's weights, counted by `sync_weights`."""
        return self._shared.weights_version

    @weights_version.setter
    def weights_version(self, version: int) -> None:
        self._shared.weights_version = version

    def sync_weights(self) -> None:
        """Publish the learner's weights and the merged filter statistics as a new version.

        Each env runner takes them over when it begins with what it is asked for next.
        """
        self._shared.weights_version += 1
        if self._policy.observations.filter is not None:
            for moments in self._shared.moments:
                self._policy.observations.filter.merge(moments)
        self._shared.moments = []
        self._runners.publish()

    # ------------------------------------------------------------------ tasks

    @property
    def tasks(self) -> list[list[Any]]:
        """The tasks of the slots of each env runner, in order of their index."""
        return self._shared.tasks

    def choose_tasks(self, task_fn: TaskFunction, result: dict[str, Any]) -> None:
        """Ask for the task of every slot of every env runner, and set it."""
        chosen = self._runners.ask_all(ChooseTasks(task_fn, result))
        before = SetTasks(self.tasks or [tasks for tasks in chosen if tasks is not None])
        self._shared.tasks = [
            before.of(index) if tasks is None else tasks
            for index, tasks in enumerate(chosen, start=1)
        ]

    def set_tasks(self, tasks: list[list[Any]]) -> None:
        """Set tasks again, of each env runner's slots; those of other numbers are dealt out."""
        self._shared.tasks = tasks
        if tasks:
            self.foreach_env_runner(SetTasks(tasks), timeout_s=self._config.sample_timeout_s)

    # ------------------------------------------------------------------ access

    def foreach_env_runner(
        self,
        function: Callable[[EnvRunner], T],
        local_env_runner: bool = True,
        env_runner_ids: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[T]:
        """Apply a function to every healthy env runner; results in order of their index.

        Each has the learner's present weights by then. What the function raises is raised here;
        one that dies or does not answer is a failure, and its result is missing.

        Args:
            function: Sent to the actors, so it must be serialisable by Ray.
            local_env_runner: Whether the in-process one takes part.
            env_runner_ids: Only these, from 1; 0 is the in-process one. None: all.
            timeout_s: How long each may take, seconds; None: as long as it takes.
        """
        healthy = self._runners.healthy
        wanted = set(healthy if env_runner_ids is None else env_runner_ids)
        if not local_env_runner:
            wanted.discard(0)
        return self._runners.foreach(function, [i for i in healthy if i in wanted], timeout_s)

    def foreach_env_runner_with_id(
        self,
        function: Callable[[int, EnvRunner], T],
        local_env_runner: bool = True,
        env_runner_ids: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[T]:
        """Like `foreach_env_runner`; the function also gets the runner's index."""
        return self.foreach_env_runner(
            WithId(function), local_env_runner, env_runner_ids, timeout_s
        )

    def local_worker(self) -> EnvRunner | LocalWorker:
        """The trial's own worker: the in-process env runner, with actors their master copy."""
        if self.local_env_runner is not None:
            self.local_env_runner.push_policies = self.push_policies
            return self.local_env_runner
        return LocalWorker(self._config, self._policy, self.weights_version, self.push_policies)

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """States of all env runners, in order; None of those that have failed."""
        return {
            "weights_version": self.weights_version,
            "runners": self._runners.get_states(),
            "restarts": self._runners.restarts,
            "pending_moments": [moments.get_state() for moments in self._shared.moments],
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s; returns whether every episode goes on where it was.

        An env runner that had failed when the state was made begins on streams of its own.
        """
        self.weights_version = int(state["weights_version"])
        self._shared.moments = []
        for moments_state in state["pending_moments"]:
            moments = RunningMoments(0)
            moments.set_state(moments_state)
            self._shared.moments.append(moments)
        return self._runners.set_states(state["runners"], state.get("restarts", []))

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes on new random streams; what is under way is dropped."""
        self._runners.reseed(seed)

    def stop(self) -> None:
        """Close environments and end the actors."""
        self._runners.stop()
