"""`RemoteEnvRunnerGroup`: env runners in actors inside the trial's placement group."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import attrgetter, methodcaller
from typing import Any, TypeVar

import numpy as np
import ray

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.exploration import of_env_runner
from trainables.core.data.batch import Rollout
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.bundles import ENV_RUNNERS
from trainables.runtime.actors.env_runner_actor import EnvRunnerActor, RunnerPlan
from trainables.runtime.actors.group import ActorGroup, Reply
from trainables.runtime.actors.remote_workers import RemoteWorkers
from trainables.runtime.offline.output import OutputPlan
from trainables.runtime.sampling.group import EnvRunnerGroup, Sample, child_seed, tasks_of
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.sampling_worker import SamplingWorker

T = TypeVar("T")

_WRITE_TIMEOUT_S = 120  # in which an actor must have written what it still holds
_RESTART = 1 << 20  # apart from the numbers of the streams that an env runner has itself


class RemoteEnvRunnerGroup(RemoteWorkers[SamplingWorker], EnvRunnerGroup):
    """Env runners in actors, each with copies of the learner's policies.

    One that fails (dies, does not answer within `sample_timeout_s`, or has an environment that
    raises) is handled as the `fault_tolerance` settings say. What it was sampling is lost and was
    never counted. One that is made again has its predecessor's index, weights, filter, tasks and
    exploration, and random streams of its own.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        seed: The root of the random streams.
        video_folder: Where videos go; None if there are none.
        existing: Actors of another config whose processes fit this one.
        module_slots: Which module acts in which slot; None: the only one in all.
        output: Where what is sampled is recorded; None: nowhere.
    """

    _role = ENV_RUNNERS

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        seed: np.random.SeedSequence,
        video_folder: str | None,
        existing: ActorGroup | None,
        module_slots: ModuleSlots | None = None,
        output: OutputPlan | None = None,
    ):
        super().__init__(config, policies, module_slots)
        self._seed, self._video_folder, self._output = seed, video_folder, output
        self._restarts_before: dict[int, int] = {}  # of the run that this one goes on with
        self._fragment_lengths = {
            index: config.get_rollout_fragment_length(index)
            for index in range(1, config.num_env_runners + 1)
        }
        self._start(EnvRunnerActor, "sample", existing)
        try:
            self._publish()
            self._actors.begin(for_all=config.validate_env_runners_after_construction)
        except BaseException:
            self.stop()  # else the actors would keep their resources for ever
            raise

    def _build_arguments(self, index: int, num_restarts: int) -> tuple[RunnerPlan]:
        restarts = num_restarts + self._restarts_before.get(index, 0)
        seed = child_seed(self._seed, index, *([_RESTART, restarts] if restarts else []))
        tasks = tasks_of(self.tasks, index) if self.tasks else None
        recipes = {m: policy.recipe for m, policy in self._policies.items()}
        given = (self._config, recipes, self._module_slots, seed)
        return (RunnerPlan(*given, index, self._video_folder, tasks, self._output),)

    # ------------------------------------------------------------------ health

    @property
    def _restarts(self) -> list[int]:
        own = super()._restarts
        return [self._restarts_before.get(i, 0) + n for i, n in enumerate(own, start=1)]

    def _welcome(self, indices: list[int]) -> None:
        """Bring env runners that were made again up to date, and tell of them."""
        if self.tasks:  # they may have changed since it was begun
            own = {i: methodcaller("set_tasks", tasks_of(self.tasks, i)) for i in indices}
            self._call_each(own)
        super()._welcome(indices)

    # ------------------------------------------------------------------ sampling

    def _sample_each(self) -> list[Sample]:
        good: list[Reply] = []
        while not good:
            self._actors.look_after()
            self.sample_ahead()  # those that have not begun yet
            good = self._actors.answered(self._all_under_way())
        return self._samples(good)

    def sample_ahead(self) -> None:
        for index in self._group.healthy:
            if not self._group.num_in_flight(index):
                self._submit(index)

    def _all_under_way(self) -> list[Reply]:
        """Wait for an answer of each env runner that was asked; in order of their index."""
        replies: list[Reply] = []
        while any(self._group.num_in_flight(index) for index in self._group.healthy):
            replies += self._group.ready(None)
        return sorted(replies, key=attrgetter("index"))

    def request_samples(self) -> None:
        most = self._config.max_requests_in_flight_per_env_runner
        for index in self._group.healthy:
            for _ in range(most - self._group.num_in_flight(index)):
                self._submit(index, num_returns=2)

    def _submit(self, index: int, num_returns: int = 1) -> None:
        """Ask an env runner for a fragment; with `num_returns` 2 it stays in the object store."""
        self._group.submit(
            index,
            "sample",
            *self._sample_arguments(index),
            num_returns=num_returns,
            timeout_s=self._config.sample_timeout_s,
        )

    def ready_samples(self, timeout_s: float | None = None) -> list[Sample]:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._actors.look_after()
            self.request_samples()
            remaining = None if until is None else max(0.0, until - time.monotonic())
            good = self._actors.answered(self._group.ready(remaining))
            if good:
                self.request_samples()
                return self._samples(good)
            if remaining == 0:
                return []

    def _samples(self, replies: list[Reply]) -> list[Sample]:
        return [self._received(reply.index, *reply.value) for reply in replies]

    def _sample_arguments(self, index: int) -> tuple[Any, ...]:
        exploration = {m: policy.exploration for m, policy in self._policies.items()}
        if self._config.resolve().explores_per_worker:
            total = self._config.num_env_runners
            exploration = {m: of_env_runner(v, index, total) for m, v in exploration.items()}
        return (self._fragment_lengths[index], exploration, *self._weights_for(index))

    def _with_silent(
        self, module_id: str, of_module: dict[int, Rollout], sampled: Collection[int]
    ) -> dict[int, Rollout]:
        like = next(iter(of_module.values()))
        found = dict(of_module)
        if len(of_module) < len(sampled):
            found |= self._waiting(module_id, like, {*sampled} - {*of_module})
        if len(sampled) < self.num_env_runners:
            found |= self._blanks(module_id, like, sampled)
        return found

    def _waiting(self, module_id: str, like: Rollout, silent: set[int]) -> dict[int, Rollout]:
        """Return rollouts in which no time goes by, of env runners all of whose agents waited.

        Args:
            module_id: The module that they are of.
            like: One of another env runner.
            silent: The indices of the env runners that have sampled, and nothing of the module.
        """
        nothing = np.zeros(1, np.int64)
        column = replace(like.slots(0, 1).without_steps(), lengths=nothing, follows=nothing == 0)
        return {
            index: Rollout.concatenate([column] * width)
            for index, width in self._widths.get(module_id, {}).items()
            if index in silent and width
        }

    def _blanks(self, module_id: str, like: Rollout, parts: Collection[int]) -> dict[int, Rollout]:
        """Return rollouts without a valid row in place of those of env runners that failed.

        Args:
            module_id: The module that they are of.
            like: One of another env runner.
            parts: The indices of the env runners that did not fail.
        """
        blanks = {}
        for index in set(range(1, self.num_env_runners + 1)) - set(parts):
            slots = self._module_slots.of(index, self._config.num_envs_per_env_runner)
            if module_id in slots:
                column = like.slots(0, 1).without_steps()
                blanks[index] = Rollout.concatenate([column] * len(slots[module_id]))
        return blanks

    # ------------------------------------------------------------------ functions

    def _ask_all(self, function: Callable[[SamplingWorker], T]) -> list[T | None]:
        found = self._call_each(dict.fromkeys(self._group.healthy, function))
        return [found.get(index) for index in range(1, len(self._group) + 1)]

    def _call_each(self, functions: Mapping[int, Callable[[SamplingWorker], T]]) -> dict[int, T]:
        """Return results of functions by the index of the actor, without those that failed."""
        replies = self._call(functions, self._config.sample_timeout_s)
        return {reply.index: reply.value for reply in self._actors.answered(replies)}

    # ------------------------------------------------------------------ state

    def _get_states(self) -> list[dict[str, Any] | None]:
        busy = {index for index in self._group.healthy if self._group.num_in_flight(index)}
        states = super()._get_states()
        for index, state in enumerate(states, start=1):
            if state is not None and index in busy:  # what is under way will be lost: a seam
                state["follows"] = False
        return states

    def _set_states(self, states: list[dict[str, Any] | None], restarts: list[int]) -> bool:
        self._group.forget()  # what is under way is of another life
        self._publish()
        if len(states) != len(self._group):
            return False
        self._actors.wait_until_built()
        before = dict(enumerate(restarts, start=1))
        functions: dict[int, Callable[[SamplingWorker], bool | None]] = {}
        for index in self._group.healthy:
            state = states[index - 1]
            if state is None:  # it had failed: it begins on streams of its own
                before[index] = before.get(index, 0) + 1
                seed = child_seed(self._seed, index, _RESTART, before[index])
                functions[index] = methodcaller("reseed", seed)
            else:
                functions[index] = methodcaller("set_state", state)
        self._restarts_before = before
        return False not in self._call_each(functions).values()

    def stop(self) -> None:
        """End the actors, once they have written what they were to record.

        Raises:
            DataError: if one of them cannot write it.
        """
        try:
            if self._output is not None and ray.is_initialized():
                self.foreach_env_runner(methodcaller("end_output"), timeout_s=_WRITE_TIMEOUT_S)
        finally:
            super().stop()

    def reseed(self, seed: np.random.SeedSequence) -> None:
        self._seed = seed
        self._group.forget()
        healthy = self._group.healthy
        self._call_each({i: methodcaller("reseed", child_seed(seed, i)) for i in healthy})
