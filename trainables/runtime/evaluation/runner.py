"""`EvaluationRunner`: plays parts of evaluations, in process or inside an actor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from trainables.core.config.config import AlgorithmConfig
from trainables.core.features import feature
from trainables.core.logs import is_debug, logger, set_log_level
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.worker_actor import Recipes, States, WorkerActor, made_policies
from trainables.runtime.callbacks.hooks import hooks_of
from trainables.runtime.envs.kinds import AgentSlots, AnyVectorEnv
from trainables.runtime.envs.make import EnvContext, evaluation_options, make_slots
from trainables.runtime.evaluation.endless import longest_evaluated
from trainables.runtime.evaluation.plan import EvaluationPlan, Part, part_seed
from trainables.runtime.evaluation.play import play_episodes
from trainables.runtime.evaluation.result import EvaluationResult
from trainables.runtime.process_environment import num_threads
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.workers import Worker

T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """What a runner is asked to play.

    Attributes:
        number: Higher than that of any task before.
        seed: Root of the parts' random streams.
        iteration: The iteration of training, which names videos.
        video_folder: Where the video of part 0 goes; None if there is none.
        parts: What to play.
        endless: Without parts: play the plan's parts from the first number on, every n-th one,
            until `finish` is called.
        cuts_off: Whether the part that is played then is cut off.
    """

    number: int
    seed: np.random.SeedSequence
    iteration: int
    video_folder: str | None = None
    parts: tuple[Part, ...] = ()
    endless: tuple[int, int] | None = None
    cuts_off: bool = False


class Played(NamedTuple):
    """What an actor has played of a task, by the part's number."""

    task_number: int
    parts: dict[int, EvaluationResult]


class EvaluationRunner(Worker):
    """Plays parts of evaluations with policies that it leaves as they are.

    Args:
        config: The algorithm's config.
        policies: The policies that act, by module id: the algorithm's own in process; copies in an
            actor.
        worker_index: 0 in process, 1, 2, … for actors.
        module_slots: Which module plays which episode, whoever plays it: its number in the
            evaluation is that of a slot of the env runner 0. None: the only one plays all.

    Attributes:
        config: The config with `evaluation_config` applied.
        env: What is played now; None between evaluations, and before the first `sample` of one.
        weights_version: The version of the weights that the policies have.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        worker_index: int = 0,
        module_slots: ModuleSlots | None = None,
    ):
        self.config = config.get_evaluation_config_object()
        self.policies, self.worker_index = policies, worker_index
        self._module_slots = module_slots or ModuleSlots([*policies])
        self.weights_version = 0
        self.env: AnyVectorEnv | None = None
        self._plan, self._callbacks = EvaluationPlan.of(config), hooks_of(self.config)
        # By number, because `finish` may overtake the task that it is meant for.
        self._finished_task = self._ended_task = -1
        self._sample_seed: np.random.SeedSequence | None = None
        self._num_sampled = 0

    # ------------------------------------------------------------------ by a function of one's own

    def begin_samples(self, seed: np.random.SeedSequence) -> None:
        """Let `sample` play, and `foreach_env` reach the environments that it plays in.

        Args:
            seed: Root of the random streams: with the same one the same episodes are played again.
        """
        self._sample_seed, self._num_sampled = seed, 0

    def end_samples(self) -> None:
        """Close these environments."""
        self._sample_seed = None
        self.stop()

    def sample(self) -> EvaluationResult:
        """Play one episode in each slot; other ones with each call.

        There are as many slots as `evaluation_config` says (`num_envs_per_env_runner`), else one.

        Returns:
            What the episodes gave.

        Raises:
            RuntimeError: outside of `custom_evaluation_function`.
        """
        if self._sample_seed is None:
            raise RuntimeError(
                "sample() plays for a custom_evaluation_function, while it is called; else "
                "evaluation_workers.play() plays a whole evaluation"
            )
        self._open()
        num_players = max(1, self.config.evaluation_num_env_runners)
        number = self._num_sampled * num_players + max(0, self.worker_index - 1)
        self._num_sampled += 1
        num_slots = self._num_sample_slots
        part = Part(number, num_slots, first_episode=number * num_slots)
        result = self._play_part(part, self._sample_task, lambda: False, None)
        assert result is not None  # nothing stops it
        return result

    def foreach_env_with_context(self, function: Callable[[Any, EnvContext], T]) -> list[T]:
        """Apply a function to the environment of each slot and what it was made with.

        For a `custom_evaluation_function` it is that in which `sample` plays.

        Raises:
            RuntimeError: if there is none now.
        """
        if self._sample_seed is not None:
            self._open()
        return super().foreach_env_with_context(function)

    @property
    def _num_sample_slots(self) -> int:
        given: int | None = self.config.evaluation_config.get("num_envs_per_env_runner")
        return given or 1

    @property
    def _sample_task(self) -> Task:
        assert self._sample_seed is not None
        return Task(-1, self._sample_seed, 0)

    def _open(self) -> None:
        if self.env is None:
            self.env = self._make_env(self._num_sample_slots, self._sample_task, shows=False)

    # ------------------------------------------------------------------ tasks

    def play(self, task: Task) -> dict[int, EvaluationResult]:
        """Play until all is done or `finish` is called.

        Returns:
            What was played, by the part's number. A part that was begun and not ended is none,
            unless episodes are cut off there.
        """
        if self.env is not None:
            logger.warning(
                "evaluation: play() makes environments of its own: what foreach_env has changed in "
                "those of sample() is lost"
            )
        played: dict[int, EvaluationResult] = {}
        parts: Iterable[Part] = task.parts
        if task.endless is not None:
            parts = self._plan.parts_from(*task.endless)
        made_for: tuple[int, bool] | None = None

        def finished() -> bool:
            return self._finished_task >= task.number

        def ended() -> bool:
            return self._ended_task >= task.number

        cut_off = None
        if self._plan.cuts_off or task.cuts_off:  # what was made until then counts
            cut_off = finished if task.cuts_off else ended

        def stopped() -> bool:
            if ended():
                return cut_off is None
            goes_on = task.endless is None or task.cuts_off
            return not goes_on and finished() and bool(played)

        try:
            for part in parts:
                if ended():
                    break
                shows = part.number == 0 and task.video_folder is not None
                if self.env is None or made_for != (part.num_slots, shows):
                    self.stop()
                    made_for = (part.num_slots, shows)
                    self.env = self._make_env(part.num_slots, task, shows)
                result = self._play_part(part, task, stopped, cut_off)
                if result is None:
                    break
                played[part.number] = result
                if is_debug():
                    logger.debug("evaluation part %d: %s", part.number, result.metrics())
                if cut_off is not None and cut_off():
                    break
        finally:
            self.stop()
        return played

    def _play_part(
        self,
        part: Part,
        task: Task,
        stopped: Callable[[], bool],
        cut_off: Callable[[], bool] | None,
    ) -> EvaluationResult | None:
        """Return what a part gave; None if it was stopped."""
        how: dict[str, Any] = {
            "env_runner": self,
            "max_steps_per_episode": longest_evaluated(self.config.max_env_steps_without_episode),
            "if_endless": "or set max_env_steps_without_episode to ten times what it needs",
            "stopped": stopped,
            "max_steps": part.max_steps,
            "cut_off": cut_off,
        }
        env, seed = self.env, part_seed(task.seed, part.number)
        if isinstance(env, AgentSlots):
            result: EvaluationResult | None = feature("agents").play(
                self.config,
                self.policies,
                env,
                seed,
                first_episode=part.first_episode,
                callbacks=self._callbacks,
                **how,
            )
            return result
        assert env is not None
        return play_episodes(
            self.policies,
            self._module_slots.of(0, part.num_slots, part.first_episode),
            env,
            self.config.env,
            seed,
            explore=self.config.explore,
            callbacks=self._callbacks,
            **how,
        )

    def change_policies(self, config: AlgorithmConfig, policies: Mapping[str, Policy]) -> None:
        super().change_policies(config.get_evaluation_config_object(), policies)

    def stop(self) -> None:
        """Close the environments."""
        env, self.env = self.env, None
        if env is not None:
            env.close()

    def finish(self, number: int, at_once: bool) -> None:
        """End a task, from another thread.

        Args:
            number: The task's.
            at_once: Otherwise a part is played to its end if there is none yet, or cut off if the
                task says so. At once, a part is dropped; that of a number of timesteps is cut off.
        """
        self._finished_task = number
        if at_once:
            self._ended_task = number

    def _make_env(self, num_slots: int, task: Task, shows: bool) -> AnyVectorEnv:
        folder = task.video_folder if shows else None
        return make_slots(
            self.config,
            self.config.env,
            self.config.env_config_for(training=False),
            num_slots,
            options=evaluation_options(self.config, self.worker_index, task.iteration, folder),
        )


class EvaluationActor(WorkerActor[EvaluationRunner]):
    """An `EvaluationRunner` in a process of its own.

    It has two threads: one plays while the other one may tell it to finish.
    """

    def build(
        self,
        config: AlgorithmConfig,
        recipes: Recipes,
        worker_index: int,
        module_slots: ModuleSlots,
    ) -> None:
        """(Re)build the runner."""
        set_log_level(config.log_level)
        policies = made_policies(config, recipes)
        self.runner = EvaluationRunner(config, policies, worker_index, module_slots)
        logger.info("evaluation env runner %d is there", worker_index)

    def play(self, task: Task, version: int, states: States) -> Played:
        """Take over the weights, then play."""
        # Here, because the number is each thread's own.
        config = self.runner.config
        variables = config.extra_python_environs_for_worker
        torch.set_num_threads(num_threads(variables, config.num_cpus_per_env_runner))
        self._take_over(version, states)
        return Played(task.number, self.runner.play(task))

    def finish(self, number: int, at_once: bool) -> None:
        """End a task."""
        self.runner.finish(number, at_once)
