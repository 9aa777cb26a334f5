"""`EnvRunnerGroup`: an algorithm's env runners; the one of a trial without actors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any, NoReturn, TypeVar

import numpy as np
import ray

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.stored import from_store, to_store
from trainables.core.policy.filter import RunningMoments
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.kinds import AnyVectorEnv
from trainables.runtime.sampling.env_runner import make_env_runner
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.sampling_worker import Episodes, SampleReport, SamplingWorker
from trainables.runtime.sampling.workers import WorkerGroup

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """A fragment of one env runner.

    Attributes:
        index: The env runner's number, from 1; 0 in process.
        num_env_steps: The number of rows that do not only reset.
        episodes: The episodes that ended.
        weights_version: The version of the weights that acted.
        rollouts: The rollouts by module id, or a Ray reference to that.
    """

    index: int
    num_env_steps: int
    episodes: Episodes
    weights_version: int
    rollouts: Any

    def fetch(self) -> dict[str, Rollout]:
        """Return the rollouts by module id: read-only arrays if they are another process's."""
        fetched: dict[str, Rollout] = (
            ray.get(self.rollouts) if isinstance(self.rollouts, ray.ObjectRef) else self.rollouts
        )
        return fetched


class EnvRunnerGroup(WorkerGroup[SamplingWorker]):
    """All env runners of an algorithm behind one `sample`.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        module_slots: Which module acts in which slot; None: the only one in all.

    Attributes:
        tasks: The tasks of the slots of each env runner, in order of their index.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        module_slots: ModuleSlots | None = None,
    ):
        super().__init__(config, policies, module_slots)
        self.tasks: list[list[Any]] = []
        # How many columns of each module each env runner had last, by module id.
        self._widths: dict[str, dict[int, int]] = {}
        # Of the samples since `sync_weights`, by module id.
        self._moments: list[dict[str, RunningMoments]] = []

    # ------------------------------------------------------------------ sampling

    def sample(self, *, all_columns: bool = False) -> tuple[dict[str, Rollout], Episodes]:
        """Return one fragment from every env runner, side by side and ordered by index.

        Filter statistics are gathered but stay as they are until `sync_weights`.

        Args:
            all_columns: Whether columns of env runners that failed are there, with no valid row;
                else they are missing.
        """
        samples = self._sample_each()
        episodes = Episodes()
        for sample in samples:
            episodes.extend(sample.episodes)
        parts = {sample.index: sample.rollouts for sample in samples}
        joined = {}
        for m in self._policies:
            of_module = {index: part[m] for index, part in parts.items() if m in part}
            if not of_module:
                continue  # those that have slots of it have failed
            if all_columns:
                of_module = self._with_silent(m, of_module, parts)
            rollout = Rollout.concatenate([of_module[index] for index in sorted(of_module)])
            joined[m] = self._in_place(m, of_module, rollout)
        return joined, episodes

    def _in_place(self, module_id: str, parts: dict[int, Rollout], joined: Rollout) -> Rollout:
        """Return a rollout no column of which goes on from another one's.

        With several agents an env runner may have more columns than before, or none: what stands
        behind them is moved.

        Args:
            module_id: The module that the rollouts are of.
            parts: The rollout of each env runner that has one.
            joined: All of them side by side.
        """
        widths = {index: part.valid.shape[1] for index, part in parts.items()}
        before = self._widths.get(module_id, widths)
        self._widths[module_id] = widths
        if widths == before or len({*widths, *before}) == 1:
            return joined
        return replace(joined, follows=np.zeros_like(joined.follows))

    def _with_silent(
        self, module_id: str, of_module: dict[int, Rollout], sampled: Collection[int]
    ) -> dict[int, Rollout]:
        """Return rollouts of a module with those of env runners that have sampled nothing of it.

        Args:
            module_id: The module that they are of.
            of_module: The rollouts by index of the env runner.
            sampled: The indices of the env runners that have sampled.
        """
        return of_module

    @abstractmethod
    def _sample_each(self) -> list[Sample]:
        """Return a fragment of each that did not fail, of one at least, in order of their index."""

    def _received(self, index: int, report: SampleReport, rollouts: Any) -> Sample:
        """Return the sample of an env runner; its moments are kept."""
        if report.moments:
            self._moments.append(report.moments)
        steps, version = report.num_env_steps, report.weights_version
        return Sample(index, steps, report.episodes, version, rollouts)

    @abstractmethod
    def sample_ahead(self) -> None:
        """Begin with what `sample` will return, with the weights of now, and do not wait for it."""

    @abstractmethod
    def request_samples(self) -> None:
        """Ask every healthy env runner for as many fragments as may be under way."""

    @abstractmethod
    def ready_samples(self, timeout_s: float | None = None) -> list[Sample]:
        """Return the samples that have arrived since the last call, each once; ask for more.

        In process, one fragment is sampled.

        Args:
            timeout_s: How long to wait for the first, seconds; None: as long as it takes.
        """

    # ------------------------------------------------------------------ weights

    def sync_weights(self) -> None:
        """Publish the learner's weights and the merged filter statistics as a new version.

        Each env runner takes them over when it begins with what it is asked for next.
        """
        self.weights_version += 1
        for moments in self._moments:
            for module_id, of_module in moments.items():
                if module_id not in self._policies:
                    continue  # it was removed while the sample was under way
                learned = self._policies[module_id].observations.filter
                assert learned is not None  # else there were no moments
                learned.merge(of_module)
        self._moments = []
        self._publish()

    # ------------------------------------------------------------------ tasks

    def choose_tasks(self, task_fn: Callable[..., Any], result: dict[str, Any]) -> None:
        """Ask for the task of every slot of every env runner, and set it."""
        chosen = self._ask_all(methodcaller("choose_tasks", task_fn, result))
        before = self.tasks or [tasks for tasks in chosen if tasks is not None]
        self.tasks = [
            tasks_of(before, index) if tasks is None else tasks
            for index, tasks in enumerate(chosen, start=1)
        ]

    def set_tasks(self, tasks: list[list[Any]]) -> None:
        """Set tasks again, of each env runner's slots; those of other numbers are dealt out."""
        self.tasks = tasks
        if tasks:
            timeout_s = self._config.sample_timeout_s
            self.foreach_env_runner(
                lambda runner: runner.set_tasks(tasks_of(tasks, runner.worker_index)),
                timeout_s=timeout_s,
            )

    def _ask_all(self, function: Callable[[SamplingWorker], T]) -> list[T | None]:
        """Return the results of a function, one of each env runner; None of those that failed."""
        return [*self._foreach(function, self._healthy, None)]

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return the states of all env runners, in order; None of those that have failed."""
        return {
            "weights_version": self.weights_version,
            "runners": self._get_states(),
            "restarts": self._restarts,
            "pending_moments": [
                to_store({m: _state_of(moments.get(m)) for m in self._policies})
                for moments in self._moments
            ],
        }

    def _get_states(self) -> list[dict[str, Any] | None]:
        return self._ask_all(methodcaller("get_state"))

    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s; return whether every episode goes on where it was.

        An env runner that had failed when the state was made begins on streams of its own.
        """
        self.weights_version = int(state["weights_version"])
        self._moments = []
        for stored in state["pending_moments"]:
            by_module = from_store(stored, self._policies).items()
            self._moments.append({m: _moments_of(part) for m, part in by_module if part})
        return self._set_states(state["runners"], state.get("restarts", []))

    @abstractmethod
    def _set_states(self, states: list[dict[str, Any] | None], restarts: list[int]) -> bool:
        """Take over states and `_restarts`; return whether every episode goes on."""

    @abstractmethod
    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes on new random streams; what is under way is dropped."""


class LocalEnvRunnerGroup(EnvRunnerGroup):
    """An env runner in this process, which acts with the learner's own policies.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        env: The environment, which is closed by `stop`.
        seed: The root of the random streams.
        module_slots: Which module acts in which slot; None: the only one in all.
        output: Where what is sampled is recorded; None: nowhere.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        env: AnyVectorEnv,
        seed: np.random.SeedSequence,
        module_slots: ModuleSlots | None = None,
        output: Any = None,
    ):
        super().__init__(config, policies, module_slots)
        self._fragment_length = config.get_rollout_fragment_length(0)
        self._runner = self.local_env_runner = make_env_runner(
            config, policies, env, child_seed(seed, 0), 0, self._module_slots, output
        )

    def _sample_each(self) -> list[Sample]:
        rollouts, episodes = self._runner.sample(self._fragment_length)
        return [self._received(0, self._runner.report(rollouts, episodes), rollouts)]

    def sample_ahead(self) -> None:
        """Begin with nothing: this process samples when `sample` is called."""

    def request_samples(self) -> None:
        """Ask for nothing: `ready_samples` samples."""

    def ready_samples(self, timeout_s: float | None = None) -> list[Sample]:
        return self._sample_each()

    def _set_states(self, states: list[dict[str, Any] | None], restarts: list[int]) -> bool:
        if len(states) != 1 or states[0] is None:
            return False
        self._publish()
        return self._runner.set_state(states[0])

    def reseed(self, seed: np.random.SeedSequence) -> None:
        self._runner.reseed(child_seed(seed, 0))


def _state_of(moments: RunningMoments | None) -> dict[str, Any] | None:
    return None if moments is None else moments.get_state()


def _moments_of(state: dict[str, Any]) -> RunningMoments:
    moments = RunningMoments(0)
    moments.set_state(state)
    return moments


def tasks_of(tasks: list[list[Any]], index: int) -> list[Any]:
    """Return the tasks of an env runner's slots; those of other numbers are dealt out."""
    return tasks[max(0, index - 1) % len(tasks)]


def child_seed(seed: np.random.SeedSequence, *path: int) -> np.random.SeedSequence:
    """Return the stream of one env runner: the same however many others there are."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *path))


_NOTHING_TO_SAMPLE = (
    "training steps no environment (needs_env of its config is False), so there is nothing to "
    "sample: training_step learns from what the algorithm has, and evaluate() plays"
)


class NoEnvRunners(EnvRunnerGroup):
    """A group without any env runner: whoever is asked gives nothing, and sampling raises.

    It counts versions of the weights, which evaluations report.
    """

    def _sample_each(self) -> NoReturn:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def sample_ahead(self) -> NoReturn:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def request_samples(self) -> NoReturn:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def ready_samples(self, timeout_s: float | None = None) -> list[Sample]:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def _set_states(self, states: list[dict[str, Any] | None], restarts: list[int]) -> bool:
        return True  # no episode is under way

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw nothing."""
