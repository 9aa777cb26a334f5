"""`RemoteLearnerGroup`: one or more learner actors that train the same networks."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from trainables.core.config.config import AlgorithmConfig
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.part import Parts, no_parts
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.bundles import LEARNERS, Bundles
from trainables.runtime.actors.group import ActorFailure, ActorGroup, ActorHung, Reply
from trainables.runtime.actors.own_ray import LOOPBACK
from trainables.runtime.learners.actor import LearnerActor, WorkerRecipe, shares
from trainables.runtime.learners.group import DataLost, check_part_states
from trainables.runtime.learners.process_ranks import RankLost

logger = logging.getLogger("trainables")

_BUILD_TIMEOUT_S = 600.0
_UPDATE_TIMEOUT_S = 1800.0  # one that takes longer hangs
_TOO_LONG = (
    f" (an update has {_UPDATE_TIMEOUT_S:g} s, which no setting changes: a smaller train batch or "
    "fewer passes over it take less)"
)
_CAUSE_WAIT_S = 10.0
_MAX_RESTARTS_IN_A_ROW = 3


class LearnersLost(RuntimeError):
    """A learner has ended; the others cannot go on without it."""


@dataclass(eq=False)
class _Request:
    """What some learners were asked, and their answers so far."""

    method: str
    count: int
    replies: dict[int, Reply] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return len(self.replies) == self.count

    @property
    def value(self) -> Any:
        """The first learner's answer."""
        return self.replies[1].value


class RemoteLearnerGroup:
    """Learner actors in the trial's bundles. Each has a share of the data of every update.

    Actor 1 is rank 0: its results and states are the group's. If one dies, all are made again from
    the state that was remembered last, see `remember`: `run` repeats the interrupted update, those
    that were submitted are dropped with their data. Updates since then are lost: where an iteration
    has several training steps, the repeated one is of weights that are older than those that acted.

    Args:
        config: The algorithm's config.
        policies: The trial's own, by module id. They are where learners start, and take over
            weights in `pull_weights`.
        make_learner: Makes the learner of a module by its config.
        seed: The seed of the learners' random stream.
        existing: Actors of another config whose processes fit this one.
        make_parts: Makes the parts of a policy's module by its config.

    Attributes:
        num_restarts: How often the learners were made again.
        num_env_steps: Environment steps of the trial: what schedules of parts go by.
    """

    num_env_steps = 0

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        make_learner: Callable[[AlgorithmConfig, Any], Any],
        seed: int,
        existing: ActorGroup | None = None,
        make_parts: Callable[[AlgorithmConfig, Policy], Parts] = no_parts,
    ):
        recipes = {m: policy.recipe for m, policy in policies.items()}
        self._policies = policies
        self._recipe = WorkerRecipe(config, recipes, make_learner, make_parts, seed)
        self._generator = torch.Generator().manual_seed(seed)
        self.num_restarts = self._num_failures = 0
        # References to the policies' states after the last finished update, and to those that the
        # trial's own policies have.
        self._published: Any = None
        self._pulled: Any = None
        self._remembering: _Request | None = None
        self._forget_requests()
        if existing is None:
            bundles = Bundles(config)
            self._actors = ActorGroup(
                LearnerActor,
                config.num_learners,
                lambda index, restarts: (self._recipe,),
                role="learner",
                options=bundles.options(LEARNERS),
                first_bundle=bundles.first_index(LEARNERS),
                build_timeout_s=_BUILD_TIMEOUT_S,
            )
        else:
            self._actors = existing
            existing.rebuild(lambda index, restarts: (self._recipe,))
        try:
            try:
                self._begin()
            except LearnersLost:
                if existing is None:
                    raise
                self._end()  # to the trial before, perhaps: one hangs in its update
                self._actors.restore()
                self._begin()
        except BaseException:
            self.stop()  # else the actors would keep the trial's bundles for ever
            raise

    def handed_over(self, config: AlgorithmConfig) -> ActorGroup | None:
        """Stop, but for actor processes that fit another config; these are returned."""
        if _processes(config) == _processes(self._recipe.config):
            return self._actors
        self.stop()
        return None

    def _begin(self) -> None:
        """Wait for the learners; they begin with the weights of the trial's policies."""
        try:
            self._connect()
            self._ask("begin", (self._policy_states(),))
            self._state = self._ask("get_state", (), [1]).value
        except LearnersLost as error:
            raise LearnersLost(f"the learners cannot start: {error}") from error

    # ------------------------------------------------------------------ updates

    def run(self, function: Callable[..., Any], data: Any, *args: Any) -> Any:
        while True:
            try:
                result = self._waited(self._update(function, data, args)).value[0]
            except LearnersLost as error:
                self._restart(error)
                continue
            return result

    def submit(self, function: Callable[..., Any], data: Any, *args: Any) -> None:
        try:
            self._queue.append(self._update(function, data, args))
        except LearnersLost as error:
            self._restart(error)

    def finished(self, timeout_s: float | None = 0.0) -> list[Any]:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            if self._queue:
                self._receive(0.0)
            # An update is done when every rank has said so.
            while self._queue and not self._queue[0].is_done:
                remaining = None if until is None else max(0.0, until - time.monotonic())
                self._receive(remaining)
                if remaining == 0.0:
                    break
        except LearnersLost as error:
            self._restart(error)
        results = []
        while self._queue and self._queue[0].is_done:
            results.append(self._queue.popleft().value[0])
        return results

    @property
    def num_queued(self) -> int:
        return sum(not request.is_done for request in self._queue)

    def _update(self, function: Callable[..., Any], data: Any, args: tuple[Any, ...]) -> _Request:
        filters = {
            module_id: policy.observations.filter.get_state()
            for module_id, policy in self._policies.items()
            if policy.observations.filter is not None
        }
        parts = shares(data, len(self._actors))
        return self._request(
            "run",
            {
                index: (function, part, filters, self.num_env_steps, args)
                for index, part in enumerate(parts, start=1)
            },
        )

    # ------------------------------------------------------------------ weights and states

    def pull_weights(self) -> None:
        if self._published is None or self._published is self._pulled:
            return
        try:
            states = ray.get(self._published)
        except RayError as error:  # they were on a node that is gone
            self._restart(LearnersLost(f"the weights of the last update are lost: {error}"))
            return
        self._pulled = self._published
        self._take_over(states)

    def _take_over(self, policy_states: dict[str, Any]) -> None:
        for module_id, state in policy_states.items():
            self._policies[module_id].set_weights(state["weights"])

    def push_policies(self) -> None:
        self._sure("set_state", ({"policies": self._policy_states(), "learner": None},))
        self._published = self._pulled = None
        self._state["policies"] = self._policy_states()

    def remember(self) -> None:
        # Not waited for: it comes when what was submitted before is done.
        if self._remembering is None:
            try:
                self._remembering = self._request("get_state", {1: ()})
            except LearnersLost as error:
                self._restart(error)

    @property
    def generator(self) -> torch.Generator:
        """A random stream of this process, for what is drawn before data is shared out."""
        return self._generator

    def reseed(self, seed: int) -> None:
        self._generator.manual_seed(seed)
        self._sure("reseed", (seed,))
        self._state = self._sure("get_state", (), [1])

    def get_state(self) -> dict[str, Any]:
        self._state = self._sure("get_state", (), [1])
        # The weights that belong to it: what was submitted before is done.
        self._take_over(self._state["policies"])
        self._pulled = self._published
        return {**self._state["learner"], "driver_generator": self._generator.get_state()}

    def check_state(self, state: dict[str, Any]) -> None:
        check_part_states(state, self._state["learner"].get("parts", {}), tells=True)

    def set_state(self, state: dict[str, Any], *, with_random: bool = True) -> None:
        if with_random and "driver_generator" in state:
            self._generator.set_state(state["driver_generator"])
        own = {name: part for name, part in state.items() if name != "driver_generator"}
        own["learners"] = dict(own["learners"])  # it may be in files of this node
        whole = {"policies": self._policy_states(), "learner": own}
        self._sure("set_state", (whole, with_random))
        self._queue.clear()  # what was submitted before is done, but is no result of this state
        self._published = self._pulled = None
        self._state = self._sure("get_state", (), [1])

    def _policy_states(self) -> dict[str, Any]:
        return {module_id: policy.get_state() for module_id, policy in self._policies.items()}

    def stop(self) -> None:
        self._actors.stop()

    def change_modules(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        make_learner: Callable[[AlgorithmConfig, Any], Any],
        make_parts: Callable[[AlgorithmConfig, Policy], Parts],
        learner_connectors: dict[str, LearnerConnectors],
        seed: int,
    ) -> None:
        before = self.get_state()
        recipes = {m: policy.recipe for m, policy in policies.items()}
        self._policies = policies
        self._recipe = WorkerRecipe(config, recipes, make_learner, make_parts, seed)
        self._forget_requests()
        self._actors.rebuild(lambda index, restarts: (self._recipe,))
        self._begin()
        state = {**self._state["learner"], "driver_generator": before["driver_generator"]}
        state["generator"] = before["generator"]
        for name in ("learners", "parts"):  # what goes on
            own = state.get(name, {})
            own |= {m: part for m, part in before.get(name, {}).items() if m in own}
        self.set_state(state)

    # ------------------------------------------------------------------ requests

    def _sure(self, method: str, args: tuple[Any, ...], indices: list[int] | None = None) -> Any:
        """Ask learners, of whom none may be lost for good; the first one's answer."""
        while True:
            try:
                return self._ask(method, args, indices).value
            except LearnersLost as error:
                self._restart(error)

    def _ask(
        self, method: str, args: tuple[Any, ...], indices: list[int] | None = None
    ) -> _Request:
        asked = range(1, len(self._actors) + 1) if indices is None else indices
        return self._waited(self._request(method, dict.fromkeys(asked, args)))

    def _request(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> _Request:
        request = _Request(method, len(arguments))
        for index, args in arguments.items():
            try:
                self._actors.submit(
                    index,
                    method,
                    *args,
                    num_returns=2 if method == "run" else 1,
                    timeout_s=_UPDATE_TIMEOUT_S,
                )
            except ActorFailure as error:
                raise LearnersLost(str(error)) from None
            self._owed[index].append(request)
        return request

    def _waited(self, request: _Request) -> _Request:
        while not request.is_done:
            self._receive(None)
        return request

    def _receive(self, timeout_s: float | None) -> None:
        """Take the answers that have come.

        Raises:
            LearnersLost: if a learner has failed.
            Exception: what a learner has raised. They are ended, for they no longer have the same
                weights; whatever is asked next makes them again.
        """
        replies = self._actors.ready(timeout_s)
        for reply in replies:
            if reply.error is None:
                request = self._owed[reply.index].popleft()
                request.replies[reply.index] = reply
                if request.is_done:
                    self._on_done(request)
        if any(reply.error is not None for reply in replies):
            cause = self._cause(replies)
            if not isinstance(cause, LearnersLost):
                self._end()
            raise cause

    def _on_done(self, request: _Request) -> None:
        if request.method == "run":
            self._num_failures = 0
            self._published = request.value[1]
        if request is self._remembering:
            self._state, self._remembering = request.value, None

    def _cause(self, replies: list[Reply]) -> Exception:
        """Return why an update failed: what a learner raised itself, if one did.

        The others then only say that they have lost it.
        """
        while True:
            errors = [reply.error for reply in replies if reply.error is not None]
            for error in errors:
                if not isinstance(error, (ActorFailure, DataLost, RankLost)):
                    return error
                if isinstance(error, ActorHung):
                    return LearnersLost(f"{error}{_TOO_LONG}")
                if isinstance(error, (ActorFailure, DataLost)):
                    return LearnersLost(str(error))
            more = self._actors.ready(_CAUSE_WAIT_S)
            if not more:
                return LearnersLost(str(errors[0]))
            replies = [*replies, *more]

    # ------------------------------------------------------------------ start and restart

    def _connect(self) -> None:
        """Wait until all are built, and let them meet."""
        for reply in self._actors.wait_until_built(_BUILD_TIMEOUT_S):
            assert reply.error is not None
            if isinstance(reply.error, ActorFailure):
                raise LearnersLost(str(reply.error))
            raise reply.error
        self._forget_requests()
        size, host, port = len(self._actors), LOOPBACK, 0
        addresses = {reply.value for reply in self._ask("address", ()).replies.values()}
        one_node = len(addresses) == 1
        if size > 1:
            if not one_node:
                host = self._ask("address", (), [1]).value
            port = self._ask("open", (host, size), [1]).value
        self._waited(
            self._request(
                "join",
                {rank + 1: (rank, size, host, port, one_node) for rank in range(size)},
            )
        )

    def _restart(self, error: LearnersLost) -> None:
        """Make all learners again, from the state that was remembered last.

        Raises:
            RuntimeError: if they have died again and again without an update between.
        """
        while True:
            self._num_failures += 1
            if self._num_failures > _MAX_RESTARTS_IN_A_ROW:
                raise RuntimeError(
                    f"the learners were lost {self._num_failures} times in a row, the last time "
                    f"because {error}"
                ) from error
            self.num_restarts += 1
            logger.warning(
                "the learners are made again (%d times so far), from the state at the end of the "
                "last iteration, because %s",
                self.num_restarts,
                error,
            )
            self._end()
            self._actors.restore()
            try:
                self._connect()
                self._set_state(self._state)
            except LearnersLost as again:
                error = again
                continue
            self._published = self._pulled = None
            self._take_over(self._state["policies"])
            return

    def _end(self) -> None:
        """End all learners, with what they were asked."""
        for index in range(1, len(self._actors) + 1):
            self._actors.kill(index)
        self._forget_requests()

    def _set_state(self, state: dict[str, Any]) -> None:
        self._ask("set_state", (ray.put(state),))

    def _forget_requests(self) -> None:
        self._queue: deque[_Request] = deque()
        self._owed: dict[int, deque[_Request]] = {
            index: deque() for index in range(1, self._recipe.config.num_learners + 1)
        }
        self._remembering = None
        self._pulled = None


def _processes(config: AlgorithmConfig) -> tuple[Any, ...]:
    """Return what an actor's process was started for."""
    return (
        config.num_learners,
        config.num_cpus_per_learner,
        config.extra_python_environs_for_worker,
        config.num_gpus_per_learner,
        config.fake_gpus,
    )
