"""`EnvRunnerGroup`: samples in process, or over Ray actors inside the trial's placement group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import ray
from gymnasium.vector import VectorEnv

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.per_worker import of_env_runner
from trainables.core.data.batch import Rollout
from trainables.core.policy.connectors.filter import RunningMoments
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.bundles import ENV_RUNNERS, Bundles
from trainables.runtime.actors.faults import FaultTolerance, FaultTolerantActors
from trainables.runtime.actors.group import ActorFailure, ActorGroup, Reply
from trainables.runtime.actors.process import ActorOptions
from trainables.runtime.envs.slot_tasks import TaskFunction
from trainables.runtime.sampling.actor import (
    EnvRunnerActor,
    RunnerPlan,
    Sample,
    SampleReport,
    make_env_runner,
    report_of,
)
from trainables.runtime.sampling.env_runner import EnvRunner, Episodes
from trainables.runtime.sampling.runner_functions import (
    ChooseTasks,
    Reseed,
    SetState,
    SetTasks,
    WithId,
)
from trainables.runtime.sampling.worker_calls import CallsWorkers
from trainables.runtime.sampling.worker_policies import LocalWorker

T = TypeVar("T")

ROLE = "env runner"

_RESTART = 1 << 20  # apart from the numbers of the streams that an env runner has itself


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
        weights_version: Of the learner's weights, counted by `sync_weights`.
        tasks: Of the slots of each env runner, in order of their index.
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
        self._group: ActorGroup | None = None
        self._actors: FaultTolerantActors | None = None  # the group, and what is done about faults
        self.local_env_runner: EnvRunner | None = None
        self.on_recreated: Callable[[list[int]], None] | None = None
        self.push_policies: Callable[[], None] | None = None
        try:
            self._start(config, policy, env, seed, video_folder)
        except BaseException:
            self.stop()  # else the actors would keep their resources for ever
            raise

    def _start(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
        video_folder: str | None,
    ) -> None:
        self._config, self._policy, self._seed = config, policy, seed
        self._video_folder = video_folder
        self.tasks: list[list[Any]] = []
        self._fragment_lengths = [
            config.get_rollout_fragment_length(index) for index in range(config.num_env_runners + 1)
        ]
        self._pending_moments: list[RunningMoments] = []
        self.weights_version = 0
        self._restarts_before: dict[int, int] = {}  # of the run that this one goes on with
        if config.num_env_runners == 0:
            assert env is not None
            self.local_env_runner = make_env_runner(config, policy, env, _child(seed, 0))
            return
        self._publish()
        faults = FaultTolerance(
            ROLE,
            "sample",
            ignore=config.ignore_env_runner_failures,
            restart=config.restart_failed_env_runners,
            num_consecutive=config.num_consecutive_env_runner_failures_tolerance,
        )
        if self._group is None:
            self._group = ActorGroup(
                EnvRunnerActor,
                config.num_env_runners,
                self._build_arguments,
                role=ROLE,
                options=_actor_options(config),
                first_bundle=Bundles(config).first_index(ENV_RUNNERS),
                build_timeout_s=config.env_runner_restore_timeout_s,
            )
        else:
            self._group.rebuild(self._build_arguments)
        self._actors = FaultTolerantActors(
            self._group, faults, config.env_runner_health_probe_timeout_s, self._welcome
        )
        self._actors.begin(for_all=config.validate_env_runners_after_construction)

    def rebuild(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
        video_folder: str | None = None,
    ) -> None:
        """Start over with another config, in the same actor processes where they fit."""
        if _processes(config) != _processes(self._config):
            self.stop()
        elif self.local_env_runner is not None:
            self.local_env_runner.stop()
            self.local_env_runner = None
        self._start(config, policy, env, seed, video_folder)

    def _build_arguments(self, index: int, num_restarts: int) -> tuple[RunnerPlan]:
        options = {
            "observation_space": self._policy.observation_space,
            "action_space": self._policy.action_space,
            **self._policy.options,
        }
        restarts = num_restarts + self._restarts_before.get(index, 0)
        seed = _child(self._seed, index, *([_RESTART, restarts] if restarts else []))
        tasks = SetTasks(self.tasks).of(index) if self.tasks else None
        return (RunnerPlan(self._config, options, seed, index, self._video_folder, tasks),)

    # ------------------------------------------------------------------ health

    @property
    def num_env_runners(self) -> int:
        """Number of actors, healthy or not."""
        return len(self._group) if self._group else 0

    @property
    def num_healthy_env_runners(self) -> int:
        """Number of actors that can be asked."""
        return len(self._group.healthy) if self._group else 0

    @property
    def num_restarts(self) -> int:
        """How often an env runner was made again, in this run and in those it goes on with."""
        now = self._group.num_restarts if self._group else 0
        return now + sum(self._restarts_before.values())

    def probe(self) -> list[int]:
        """Ask idle env runners for a sign of life; returns those that failed."""
        return self._actors.probe() if self._actors else []

    def restore(self, *, wait: bool = True) -> list[int]:
        """Make failed env runners again, see `FaultTolerantActors.restore`."""
        return self._actors.restore(wait=wait) if self._actors else []

    def _welcome(self, indices: list[int]) -> None:
        """Bring env runners that were made again up to date, and tell of them."""
        assert self._actors is not None
        if self.tasks:  # they may have changed since it was begun
            timeout_s = self._config.sample_timeout_s
            self._actors.answered(self._call(SetTasks(self.tasks), indices, timeout_s))
        if self.on_recreated is not None:
            self.on_recreated(indices)

    # ------------------------------------------------------------------ sampling

    def sample(self, *, all_columns: bool = False) -> tuple[dict[str, Rollout], Episodes]:
        """One fragment from every env runner, side by side and ordered by index.

        Filter statistics are gathered but stay as they are until `sync_weights`.

        Args:
            all_columns: Columns of env runners that failed are there, with no valid row; else they
                are missing.
        """
        if self._actors is None or self._group is None:
            sample = self._local_sample()
            return sample.rollouts, sample.episodes
        good: list[Reply] = []
        while not good:
            self._actors.look_after()
            arguments = {index: self._sample_arguments(index) for index in self._group.healthy}
            good = self._actors.answered(
                self._group.call_each("sample", arguments, timeout_s=self._config.sample_timeout_s)
            )
        episodes = Episodes()
        parts: dict[int, dict[str, Rollout]] = {}
        for reply in good:
            report, parts[reply.index] = reply.value
            episodes.extend(report.episodes)
            self._keep_moments(report)
        first = parts[good[0].index]
        if all_columns and len(parts) < len(self._group):
            blank = {m: rollout.without_steps() for m, rollout in first.items()}
            parts = {index: parts.get(index, blank) for index in range(1, len(self._group) + 1)}
        rollouts = {m: Rollout.concatenate([part[m] for part in parts.values()]) for m in first}
        return rollouts, episodes

    def request_samples(self) -> None:
        """Ask every healthy env runner for as many fragments as may be under way."""
        if self._actors is None or self._group is None:
            return
        most = self._config.max_requests_in_flight_per_env_runner
        for index in self._group.healthy:
            for _ in range(most - self._group.num_in_flight(index)):
                self._group.submit(
                    index,
                    "sample",
                    *self._sample_arguments(index),
                    num_returns=2,
                    timeout_s=self._config.sample_timeout_s,
                )

    def ready_samples(self, timeout_s: float | None = None) -> list[Sample]:
        """Samples that have arrived since the last call, each once; asks for more at once.

        In process, one fragment is sampled.

        Args:
            timeout_s: How long to wait for the first, seconds; None: as long as it takes.
        """
        if self._actors is None or self._group is None:
            return [self._local_sample()]
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._actors.look_after()
            self.request_samples()
            remaining = None if until is None else max(0.0, until - time.monotonic())
            good = self._actors.answered(self._group.ready(remaining))
            if good:
                self.request_samples()
                return [self._arrived(reply) for reply in good]
            if remaining == 0:
                return []

    def _local_sample(self) -> Sample:
        runner = self.local_env_runner
        assert runner is not None
        rollouts, episodes = runner.sample(self._fragment_lengths[0])
        report = report_of(runner, rollouts, episodes)
        self._keep_moments(report)
        return Sample(0, report.num_env_steps, episodes, report.weights_version, rollouts)

    def _arrived(self, reply: Reply) -> Sample:
        report, rollouts = reply.value
        self._keep_moments(report)
        return Sample(
            reply.index, report.num_env_steps, report.episodes, report.weights_version, rollouts
        )

    def _keep_moments(self, report: SampleReport) -> None:
        if report.moments is not None:
            self._pending_moments.append(report.moments)

    def _sample_arguments(self, index: int) -> tuple[Any, ...]:
        exploration = self._policy.exploration
        if self._config.explores_per_worker:
            exploration = of_env_runner(exploration, index, self._config.num_env_runners)
        return (self._fragment_lengths[index], exploration, *self._weights_for(index))

    # ------------------------------------------------------------------ weights

    def sync_weights(self) -> None:
        """Publish the learner's weights and the merged filter statistics as a new version.

        Each env runner takes them over when it begins with what it is asked for next.
        """
        self.weights_version += 1
        if self._policy.observations.filter is not None:
            for moments in self._pending_moments:
                self._policy.observations.filter.merge(moments)
        self._pending_moments = []
        if self.local_env_runner is not None:
            self.local_env_runner.weights_version = self.weights_version  # it shares the policy
        else:
            self._publish()

    def _publish(self) -> None:
        """Put the policy's state into the object store, once for all actors."""
        if not ray.is_initialized():
            ray.init(include_dashboard=False)
        self._published = ray.put(self._policy.get_state())
        self._has_published: dict[int, int] = {}  # actors that were sent it, and which process

    def _weights_for(self, index: int) -> tuple[int, Any]:
        """What a request brings: the version, and its state if the actor has another one."""
        assert self._group is not None
        process = self._group.restarts(index)
        if self._has_published.get(index) == process:
            return self.weights_version, None
        self._has_published[index] = process
        return self.weights_version, self._published

    # ------------------------------------------------------------------ tasks

    def choose_tasks(self, task_fn: TaskFunction, result: dict[str, Any]) -> None:
        """Ask for the task of every slot of every env runner, and set it."""
        function = ChooseTasks(task_fn, result)
        if self._actors is None:
            self.tasks = self.foreach_env_runner(function)
            return
        replies = self._call(function, timeout_s=self._config.sample_timeout_s)
        chosen = {reply.index: reply.value for reply in self._actors.answered(replies)}
        before = SetTasks(self.tasks or list(chosen.values()))
        self.tasks = [chosen.get(i, before.of(i)) for i in range(1, self.num_env_runners + 1)]

    def set_tasks(self, tasks: list[list[Any]]) -> None:
        """Set tasks again, of each env runner's slots; those of other numbers are dealt out."""
        self.tasks = tasks
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
        wanted = None if env_runner_ids is None else set(env_runner_ids)
        results = []
        if self.local_env_runner and local_env_runner and (wanted is None or 0 in wanted):
            results.append(function(self.local_env_runner))
        if self._actors is not None and self._group is not None:
            ids = [i for i in self._group.healthy if wanted is None or i in wanted]
            replies = self._call(function, ids, timeout_s)
            for reply in replies:
                if reply.error is not None and not isinstance(reply.error, ActorFailure):
                    raise reply.error
            results += [reply.value for reply in self._actors.answered(replies)]
        return results

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

    def _call(
        self,
        function: Callable[[EnvRunner], Any],
        indices: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[Reply]:
        """Replies of actors to a function."""
        assert self._group is not None
        chosen = self._group.healthy if indices is None else indices
        arguments = {index: (function, *self._weights_for(index)) for index in chosen}
        return self._group.call_each("call", arguments, timeout_s=timeout_s)

    def local_worker(self) -> EnvRunner | LocalWorker:
        """The trial's own worker: the in-process env runner, with actors their master copy."""
        if self.local_env_runner is not None:
            self.local_env_runner.push_policies = self.push_policies
            return self.local_env_runner
        return LocalWorker(self._config, self._policy, self.weights_version, self.push_policies)

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """States of all env runners, in order; None of those that have failed."""
        runners: list[dict[str, Any] | None]
        if self._actors is None or self._group is None:
            runners = self.foreach_env_runner(lambda runner: runner.get_state())
        else:
            busy = {i for i in self._group.healthy if self._group.num_in_flight(i)}
            replies = self._call(
                lambda runner: runner.get_state(), timeout_s=self._config.sample_timeout_s
            )
            states = {reply.index: reply.value for reply in self._actors.answered(replies)}
            for index in busy & set(states):  # what is under way will be lost: a seam
                states[index]["follows"] = False
            runners = [states.get(index) for index in range(1, len(self._group) + 1)]
        return {
            "weights_version": self.weights_version,
            "runners": runners,
            "restarts": [self._restarts(i) for i in range(1, self.num_env_runners + 1)],
            "pending_moments": [moments.get_state() for moments in self._pending_moments],
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s; returns whether every episode goes on where it was.

        An env runner that had failed when the state was made begins on streams of its own.
        """
        if self._group is not None:
            self._group.forget()  # what is under way is of another life
        self.weights_version = int(state["weights_version"])
        self._pending_moments = []
        for moments_state in state["pending_moments"]:
            moments = RunningMoments(0)
            moments.set_state(moments_state)
            self._pending_moments.append(moments)
        runners = state["runners"]
        if self._group is not None:
            self._publish()
        if len(runners) != max(1, self.num_env_runners):
            return False
        if self._actors is None or self._group is None:
            assert self.local_env_runner is not None
            self.local_env_runner.weights_version = self.weights_version
            return self.local_env_runner.set_state(runners[0])
        self._actors.wait_until_built()
        restarts = dict(enumerate(state.get("restarts", []), start=1))
        functions: dict[int, Callable[[EnvRunner], bool]] = {}
        for index in self._group.healthy:
            part = runners[index - 1]
            if part is None:
                restarts[index] = restarts.get(index, 0) + 1
                functions[index] = Reseed(_child(self._seed, index, _RESTART, restarts[index]))
            else:
                functions[index] = SetState(part)
        self._restarts_before = restarts
        return all(reply.value for reply in self._call_each(functions))

    def _restarts(self, index: int) -> int:
        assert self._group is not None
        return self._restarts_before.get(index, 0) + self._group.restarts(index)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes on new random streams; what is under way is dropped."""
        self._seed = seed
        if self.local_env_runner is not None:
            self.local_env_runner.reseed(_child(seed, 0))
        if self._actors is not None and self._group is not None:
            self._group.forget()
            self._call_each({i: Reseed(_child(seed, i)) for i in self._group.healthy})

    def _call_each(self, functions: Mapping[int, Callable[[EnvRunner], Any]]) -> list[Reply]:
        """Answers of actors to functions of their own."""
        assert self._actors is not None and self._group is not None
        arguments = {i: (function, *self._weights_for(i)) for i, function in functions.items()}
        timeout_s = self._config.sample_timeout_s
        return self._actors.answered(self._group.call_each("call", arguments, timeout_s=timeout_s))

    def stop(self) -> None:
        """Close environments and end the actors."""
        if self.local_env_runner is not None:
            self.local_env_runner.stop()
            self.local_env_runner = None
        if self._group is not None:
            self._group.stop()
            self._group = self._actors = None


def _child(seed: np.random.SeedSequence, *path: int) -> np.random.SeedSequence:
    """The stream of one runner: the same however many others there are."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *path))


def _actor_options(config: AlgorithmConfig) -> ActorOptions:
    needs = Bundles(config).roles[ENV_RUNNERS].needs
    return ActorOptions.of(needs, config.extra_python_environs_for_worker)


def _processes(config: AlgorithmConfig) -> tuple[Any, ...]:
    """What an actor's process was started for; actors are kept only if it stays the same."""
    return config.num_env_runners, _actor_options(config), config.env_runner_restore_timeout_s
