"""`RemoteEvaluationGroup`: evaluation over actors, which play beside training if that is wanted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from trainables.core.config.config import AlgorithmConfig
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.bundles import EVALUATION_ENV_RUNNERS
from trainables.runtime.actors.group import ActorGroup, ActorHung, Reply
from trainables.runtime.actors.remote_workers import RemoteWorkers
from trainables.runtime.evaluation.group import EvaluationGroup
from trainables.runtime.evaluation.plan import warn_of_idle_actors
from trainables.runtime.evaluation.runner import EvaluationActor, EvaluationRunner, Task
from trainables.runtime.sampling.module_slots import ModuleSlots

logger = logging.getLogger("trainables")

T = TypeVar("T")

_TOO_FEW_EPISODES = (
    "the result is of what others have played. Make sure that episodes end (a time limit), raise "
    "evaluation_sample_timeout_s, lower evaluation_duration, or set "
    "evaluation_duration_unit='timesteps', which cuts episodes off"
)
_TOO_FEW_STEPS = (
    "the result is of the timesteps that were made by then: raise evaluation_sample_timeout_s, or "
    "lower evaluation_duration"
)

# What an actor that is late is given to end the step of its environment.
_GRACE_S = 5.0


class RemoteEvaluationGroup(RemoteWorkers[EvaluationRunner], EvaluationGroup):
    """Evaluation env runners in actors.

    Parts are dealt out among those that are healthy; others play those of one that fails.

    Args:
        config: The algorithm's config.
        policies: The learner's policies, by module id.
        module_slots: Which module plays which episode, see `EvaluationRunner`.
        video_folder: Where videos go; None if there are none.
        existing: Actors of another config whose processes fit this one.

    Attributes:
        num_timeouts: How often an actor had not played its episodes in time.
    """

    _role = EVALUATION_ENV_RUNNERS
    _num_threads = 2  # the second can end what the first plays

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        module_slots: ModuleSlots | None = None,
        video_folder: str | None = None,
        existing: ActorGroup | None = None,
    ):
        super().__init__(config, policies, module_slots, video_folder)
        warn_of_idle_actors(config)
        self.num_timeouts = 0
        self._task_number = 0  # higher with every deal
        self._is_beside = False
        self._start(EvaluationActor, "play", existing)
        self._is_new = True  # they are built while training begins

    def _build_arguments(self, index: int, num_restarts: int) -> tuple[Any, ...]:
        recipes = {m: policy.recipe for m, policy in self._policies.items()}
        return self._config, recipes, index, self._module_slots

    # ------------------------------------------------------------------ an evaluation

    def _publish(self) -> None:
        super()._publish()
        if self._config.restart_failed_env_runners:
            self._actors.restore(wait=False)
            self._actors.wait_until_built(0.0)  # only looks at those that are starting

    def begin(self, *, beside_training: bool = True) -> None:
        super().begin()
        self._is_beside = beside_training
        self._deal()

    def _deal(self) -> None:
        """Ask each healthy actor to play its share of what is missing."""
        self._task_number += 1
        plan, players = self._plan, self._group.healthy
        self._num_players = max(1, len(players))
        missing = plan.missing(self._played, self._expected_length, len(players))
        for place, index in enumerate(players):
            share = tuple(missing[place :: len(players)])
            endless = (place, len(players)) if plan.is_endless else None
            if share or endless:
                task = Task(
                    self._task_number,
                    self._seed,
                    self._iteration,
                    self._video_folder,
                    share,
                    endless,
                    cuts_off=plan.is_endless and plan.cuts_off and self._is_beside,
                )
                self._group.submit(index, "play", task, *self._weights_for(index))

    def _play_missing(self) -> None:
        """Wait until all is played, or nobody is left, or time is up."""
        self._wait_until_built()
        timeout_s = self._config.evaluation_sample_timeout_s
        until = time.monotonic() + timeout_s
        self._let_finish()
        while time.monotonic() < until:
            self._take_in(self._group.ready(max(0.0, until - time.monotonic())))
            if not self._playing:
                if self._is_whole or not self._group.healthy:
                    return
                # Timesteps that are still wanting; parts of an actor that died.
                self._deal()
                self._let_finish()
        if self._playing:
            self._give_up(timeout_s)

    def _take_in(self, replies: Iterable[Reply]) -> None:
        """Keep what was played for the present task; put up with failures, or raise."""
        for reply in self._actors.answered(replies):
            if reply.method == "play" and reply.value.task_number == self._task_number:
                self._played |= reply.value.parts

    @property
    def _is_whole(self) -> bool:
        if self._plan.is_endless:
            return bool(self._played)
        return not self._plan.missing(self._played, self._expected_length)

    @property
    def _playing(self) -> list[int]:
        return [index for index in self._group.healthy if self._group.num_in_flight(index)]

    def _let_finish(self) -> None:
        """Let what is endless end with the first part that is played, or here: training is done."""
        if self._plan.is_endless:
            self._finish(at_once=False)

    def _finish(self, at_once: bool) -> None:
        for index in self._playing:
            self._group.submit(index, "finish", self._task_number, at_once)

    def _give_up(self, timeout_s: float) -> None:
        late = self._playing
        self.num_timeouts += len(late)
        logger.warning(
            "evaluation: %d of %d actors had not played their episodes after "
            "evaluation_sample_timeout_s = %g; %s",
            len(late),
            len(self._group),
            timeout_s,
            _TOO_FEW_STEPS if self._plan.cuts_off else _TOO_FEW_EPISODES,
        )
        self._take_in(self._ended())

    def _abandon(self) -> None:
        self._take_in(self._ended())

    def _ended(self) -> list[Reply]:
        """Return the replies of actors that are told to end what they play.

        One whose environment does not come back has failed.
        """
        self._finish(at_once=True)
        until = time.monotonic() + _GRACE_S
        replies: list[Reply] = []
        while self._playing and time.monotonic() < until:
            replies += self._group.ready(max(0.0, until - time.monotonic()))
        return replies + [
            Reply(
                index,
                "play",
                error=ActorHung(
                    f"evaluation env runner {index} hangs in a step of its environment"
                ),
            )
            for index in self._playing
        ]

    # ------------------------------------------------------------------ actors

    def _wait_until_built(self) -> None:
        """Wait for all actors at first, so that an evaluation is dealt out; later, for any.

        Raises:
            RuntimeError: if none is left and none is made again.
        """
        if self._is_new or not self._group.healthy:
            self._actors.wait_until_built(for_all=self._is_new)
            self._is_new = False
        self._actors.check_left()

    def _weights_for(self, index: int) -> tuple[int, Any]:
        return self.weights_version, self._published  # of two requests either may come first

    def metrics(self) -> dict[str, float]:
        return {
            "num_healthy_workers": len(self._group.healthy),
            "num_timeouts": self.num_timeouts,
        }

    def foreach_env_runner(
        self,
        function: Callable[[EvaluationRunner], T],
        local_env_runner: bool = True,
        env_runner_ids: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[T]:
        self._wait_until_built()
        return super().foreach_env_runner(function, local_env_runner, env_runner_ids, timeout_s)

    def handed_over(self, config: AlgorithmConfig) -> ActorGroup | None:
        if self._processes(config) == self._processes(self._config):
            for reply in self._ended():  # a fault of the trial before is none of the next
                if reply.error is not None:
                    self._group.kill(reply.index)
        return super().handed_over(config)
