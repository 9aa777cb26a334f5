"""`EvaluationGroup`: evaluates in process, or over actors beside training."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import ray

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.bundles import EVALUATION_ENV_RUNNERS, Bundles
from trainables.runtime.actors.faults import FaultTolerance, FaultTolerantActors
from trainables.runtime.actors.group import ActorGroup, ActorHung, Reply
from trainables.runtime.actors.process import ActorOptions
from trainables.runtime.evaluation.plan import EvaluationPlan, Part, warn_of_idle_actors
from trainables.runtime.evaluation.result import EvaluationResult
from trainables.runtime.evaluation.runner import EvaluationActor, EvaluationRunner, Task
from trainables.runtime.sampling.worker_calls import CallsWorkers
from trainables.runtime.sampling.workers import LocalWorker

logger = logging.getLogger("trainables")

T = TypeVar("T")

ROLE = "evaluation env runner"

_ROUNDS = 1 << 20  # apart from the numbers of parts

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


class EvaluationGroup(CallsWorkers):
    """All evaluation env runners of an algorithm.

    An evaluation is `sync_weights`, `begin` and `collect`; in between, actors play.

    Args:
        config: The algorithm's config.
        policy: The learner's policy; the in-process runner shares it, actors copy it.
        video_folder: Where videos go; None if there are none.

    Attributes:
        local_env_runner: The runner that plays in process; None with actors.
        is_running: Whether an evaluation has begun and is not collected.
        weights_version: The version of the weights that are evaluated.
        num_timeouts: How often an actor had not played its episodes in time.
        on_recreated: Called with the indices of actors that were made again.
    """

    def __init__(self, config: AlgorithmConfig, policy: Policy, video_folder: str | None = None):
        self._actors: FaultTolerantActors | None = None
        self._task_number = 0  # higher than any that a process has seen
        self.on_recreated: Callable[[list[int]], None] | None = None
        self._start(config, policy, video_folder)

    def _start(self, config: AlgorithmConfig, policy: Policy, video_folder: str | None) -> None:
        self._config, self._policy, self._video_folder = config, policy, video_folder
        self._plan = EvaluationPlan.of(config)
        self._played: dict[int, EvaluationResult] = {}
        self._expected_length = float(self._plan.num_timesteps)
        self._num_players = 1  # of the parts that were dealt out last
        self._state: Any = None
        self._seed, self._iteration = np.random.SeedSequence(0), 0
        self.is_running = self._is_beside = False
        self.weights_version = self.num_timeouts = 0
        self.local_env_runner: EvaluationRunner | None = None
        if config.evaluation_num_env_runners == 0:
            self.local_env_runner = EvaluationRunner(config, policy)
            return
        warn_of_idle_actors(config)
        faults = FaultTolerance.of(config, ROLE, "play")
        recipe = policy.recipe

        def arguments(index: int, num_restarts: int) -> tuple[Any, ...]:
            return config, recipe, index

        if self._actors is None:
            group = ActorGroup(
                EvaluationActor,
                config.evaluation_num_env_runners,
                arguments,
                role=ROLE,
                options=_process(config),
                first_bundle=Bundles(config).first_index(EVALUATION_ENV_RUNNERS),
                build_timeout_s=config.env_runner_restore_timeout_s,
            )
        else:
            group = self._actors.group
            group.rebuild(arguments)
        self._actors = FaultTolerantActors(
            group, faults, config.env_runner_health_probe_timeout_s, self._welcome
        )
        self._is_new = True  # they are built while training begins

    def rebuild(
        self, config: AlgorithmConfig, policy: Policy, video_folder: str | None = None
    ) -> None:
        """Start over with another config, in the same actor processes where they fit."""
        before = self._config
        if self._actors is not None:
            group = self._actors.group
            for reply in self._ended(group):  # a fault of the trial before is none of this
                if reply.error is not None:
                    group.kill(reply.index)
        if (config.evaluation_num_env_runners, _process(config)) != (
            before.evaluation_num_env_runners,
            _process(before),
        ):
            self.stop()
        self._start(config, policy, video_folder)

    # ------------------------------------------------------------------ an evaluation

    def sync_weights(self, iteration: int, version: int, seed: np.random.SeedSequence) -> None:
        """Evaluate the policy as it is now, from here on.

        Args:
            iteration: The iteration of training, which names videos.
            version: The version of the weights.
            seed: Root of the parts' random streams.
        """
        self._abandon()
        self._iteration, self._seed, self.weights_version = iteration, seed, version
        if self._actors is None:
            self._local.weights_version = version
            return
        self._state = ray.put(self._policy.get_state())  # one object for all actors
        if self._config.restart_failed_env_runners:
            self._actors.restore(wait=False)
            self._actors.wait_until_built(0.0)  # only looks at those that are starting

    def begin(self, *, beside_training: bool = True) -> None:
        """Ask the actors to play; without actors, `collect` plays.

        Args:
            beside_training: Whether timesteps of no given number are as many as are made until
                `collect`; else each actor plays an episode.
        """
        self._played, self.is_running, self._is_beside = {}, True, beside_training
        if self._actors is not None:
            self._deal(self._actors.group)

    def collect(self) -> EvaluationResult | None:
        """Wait for what `begin` asked for, at most `evaluation_sample_timeout_s`.

        Returns:
            The episodes of those that answered; None if nobody did.
        """
        self.is_running = False
        if self._actors is None:
            self._play_here()
        else:
            self._wait_until_built(self._actors)
            self._wait(self._actors, self._config.evaluation_sample_timeout_s)
        result = self._plan.result(self._played, self._num_players)
        if result is not None and result.num_env_steps:
            self._expected_length = result.steps_per_episode
        return result

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

    def _play_here(self) -> None:
        while not self._is_whole:
            # One at a time: of a number of timesteps nothing more is played than counts.
            first = self._plan.missing(self._played, self._expected_length)[0]
            self._played |= self._local.play(self._task((first,)))

    def _deal(self, actors: ActorGroup) -> None:
        """Ask each healthy actor to play its share of what is missing."""
        self._task_number += 1
        players = actors.healthy
        self._num_players = max(1, len(players))
        missing = self._plan.missing(self._played, self._expected_length, len(players))
        for place, index in enumerate(players):
            share = tuple(missing[place :: len(players)])
            endless = (place, len(players)) if self._plan.is_endless else None
            if share or endless:
                task = self._task(share, endless)
                actors.submit(index, "play", task, self._state, self.weights_version)

    def _task(self, parts: tuple[Part, ...], endless: tuple[int, int] | None = None) -> Task:
        return Task(
            self._task_number,
            self._seed,
            self._iteration,
            self._video_folder,
            parts,
            endless,
            cuts_off=endless is not None and self._plan.cuts_off and self._is_beside,
        )

    def _wait(self, actors: FaultTolerantActors, timeout_s: float) -> None:
        """Wait until all is played, or nobody is left, or time is up."""
        until = time.monotonic() + timeout_s
        group = actors.group
        self._let_finish(group)
        while time.monotonic() < until:
            self._take_in(actors, group.ready(max(0.0, until - time.monotonic())))
            if not _playing(group):
                if self._is_whole or not group.healthy:
                    return
                # Timesteps that are still wanting; parts of an actor that died.
                self._deal(group)
                self._let_finish(group)
        if _playing(group):
            self._give_up(actors, timeout_s)

    def _take_in(self, actors: FaultTolerantActors, replies: Iterable[Reply]) -> None:
        """Keep what was played for the present task; put up with failures, or raise."""
        for reply in actors.answered(replies):
            if reply.method == "play" and reply.value.task_number == self._task_number:
                self._played |= reply.value.parts

    @property
    def _is_whole(self) -> bool:
        if self._plan.is_endless:
            return bool(self._played)
        return not self._plan.missing(self._played, self._expected_length)

    def _let_finish(self, actors: ActorGroup) -> None:
        """Let what is endless end with the first part that is played, or here: training is done."""
        if self._plan.is_endless:
            self._finish(actors, at_once=False)

    def _give_up(self, actors: FaultTolerantActors, timeout_s: float) -> None:
        late = _playing(actors.group)
        self.num_timeouts += len(late)
        logger.warning(
            "evaluation: %d of %d actors had not played their episodes after "
            "evaluation_sample_timeout_s = %g; %s",
            len(late),
            len(actors.group),
            timeout_s,
            _TOO_FEW_STEPS if self._plan.cuts_off else _TOO_FEW_EPISODES,
        )
        self._stop_playing(actors)

    def _abandon(self) -> None:
        """Forget what was begun and not collected, as when training raised."""
        if self._actors is not None:
            self._stop_playing(self._actors)
        self.is_running = False

    def _stop_playing(self, actors: FaultTolerantActors) -> None:
        """End what is played; an actor whose environment does not come back has failed."""
        self._take_in(actors, self._ended(actors.group))

    def _ended(self, actors: ActorGroup) -> list[Reply]:
        """Return the replies of actors that are told to end what they play."""
        self._finish(actors, at_once=True)
        until = time.monotonic() + _GRACE_S
        replies: list[Reply] = []
        while _playing(actors) and time.monotonic() < until:
            replies += actors.ready(max(0.0, until - time.monotonic()))
        return replies + [
            Reply(
                index,
                "play",
                error=ActorHung(f"{ROLE} {index} hangs in a step of its environment"),
            )
            for index in _playing(actors)
        ]

    def _finish(self, actors: ActorGroup, at_once: bool) -> None:
        for index in _playing(actors):
            actors.submit(index, "finish", self._task_number, at_once)

    # ------------------------------------------------------------------ actors

    def _wait_until_built(self, actors: FaultTolerantActors) -> None:
        """Wait for all actors at first, so that an evaluation is dealt out; later, for any.

        Raises:
            RuntimeError: if none is left and none is made again.
        """
        if self._is_new or not actors.group.healthy:
            actors.wait_until_built(for_all=self._is_new)
            self._is_new = False
        actors.check_left()

    def probe(self) -> list[int]:
        """Ask idle actors for a sign of life; return those that failed."""
        return self._actors.probe() if self._actors else []

    def restore(self) -> list[int]:
        """Make failed actors again, and wait for them; see `FaultTolerantActors.restore`."""
        return self._actors.restore() if self._actors else []

    def _welcome(self, indices: list[int]) -> None:
        """Tell of the actors that have come to life again; an evaluation brings its weights."""
        if self.on_recreated is not None:
            self.on_recreated(indices)

    @property
    def _local(self) -> EvaluationRunner:
        assert self.local_env_runner is not None
        return self.local_env_runner

    @property
    def num_env_runners(self) -> int:
        """Number of actors."""
        return 0 if self._actors is None else len(self._actors.group)

    def foreach_env_runner(
        self,
        function: Callable[[EvaluationRunner], T],
        local_env_runner: bool = True,
        env_runner_ids: Iterable[int] | None = None,
        timeout_s: float | None = None,
    ) -> list[T]:
        """Apply a function to every healthy runner, which has the weights that are evaluated.

        Args:
            function: Sent to the actors, so it must be serialisable by Ray.
            local_env_runner: Whether the in-process one takes part.
            env_runner_ids: The actors that are asked, from 1. None: all.
            timeout_s: How long each may take, seconds; None: as long as it takes.

        Returns:
            Results in order of the runners' indices.
        """
        if self._actors is None:
            return [function(self._local)] if local_env_runner else []
        self._wait_until_built(self._actors)
        group = self._actors.group
        wanted = set(group.healthy if env_runner_ids is None else env_runner_ids)
        replies = group.call(
            "call",
            function,
            self._state,
            self.weights_version,
            indices=[index for index in group.healthy if index in wanted],
            timeout_s=timeout_s,
        )
        return [reply.value for reply in self._actors.answered(replies)]

    def local_worker(self) -> EvaluationRunner | LocalWorker:
        """Return the trial's own worker: the in-process runner, with actors their master copy."""
        if self.local_env_runner is not None:
            return self.local_env_runner
        return LocalWorker(self._config, self._policy, self.weights_version)

    def metrics(self) -> dict[str, float]:
        """Return how the actors are; nothing without actors."""
        if self._actors is None:
            return {}
        return {
            "num_healthy_workers": len(self._actors.group.healthy),
            "num_timeouts": self.num_timeouts,
        }

    def stop(self) -> None:
        """End the actors."""
        if self._actors is not None:
            self._actors.group.stop()
            self._actors = None


def _playing(actors: ActorGroup) -> list[int]:
    return [index for index in actors.healthy if actors.num_in_flight(index)]


def _process(config: AlgorithmConfig) -> ActorOptions:
    """Return what an actor is started with: a second thread can end what the first plays."""
    return Bundles(config).options(EVALUATION_ENV_RUNNERS, num_threads=2)


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
