"""What is done about actors that fail: which failures training goes on after, and how."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Self

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.runtime.actors.group import BUILD, ActorFailure, ActorGroup, Reply

logger = logging.getLogger("trainables")


class FaultTolerance:
    """What is done about actors that fail: nothing, ignore them, or make them again.

    A failure is an actor that died, did not answer in time, or whose environment raised. A
    `ConfigError` is none: it would come again.

    Args:
        role: What the actors are, in messages.
        work: The method that is their work; to answer anything else says little.
        ignore: Whether to go on with the others.
        restart: Whether to make it again.
        num_consecutive: Failures of actors that have done no work since, before training ends.
    """

    def __init__(self, role: str, work: str, *, ignore: bool, restart: bool, num_consecutive: int):
        self.role, self.restart = role, restart
        self._work = work
        self._ignore, self._num_consecutive = ignore, num_consecutive
        self._failures: Counter[int] = Counter()

    @classmethod
    def of(cls, config: AlgorithmConfig, role: str, work: str) -> Self:
        """Return what a config's settings say of actors that sample or evaluate."""
        return cls(
            role,
            work,
            ignore=config.ignore_env_runner_failures,
            restart=config.restart_failed_env_runners,
            num_consecutive=config.num_consecutive_env_runner_failures_tolerance,
        )

    def answered(self, reply: Reply) -> None:
        """Note an answer."""
        if reply.method == self._work:
            self._failures.pop(reply.index, None)

    def failed(self, reply: Reply) -> None:
        """Note a failure.

        Raises:
            Exception: the failure itself if it is not tolerated.
            RuntimeError: if there were too many.
        """
        error = reply.error
        assert error is not None
        if isinstance(error, ConfigError) and reply.method != BUILD:
            raise error
        if not (self._ignore or self.restart):
            error.add_note(
                f"training can go on without this {self.role} (ignore_env_runner_failures) or "
                "with a new one (restart_failed_env_runners)"
            )
            raise error
        self._failures[reply.index] += 1
        count = self._failures.total()
        if count > self._num_consecutive:
            raise RuntimeError(
                f"{self.role}s failed {count} times and did not {self._work} since, the last one "
                f"{reply.index}: {error}; num_consecutive_env_runner_failures_tolerance = "
                f"{self._num_consecutive}"
            ) from error
        what = "another one is made" if self.restart else "training goes on without it"
        logger.warning("%s %d failed, %s: %s", self.role, reply.index, what, error)


class FaultTolerantActors:
    """An `ActorGroup` and what is done about those of it that fail.

    Args:
        group: The actors; their class has a method `ping`.
        faults: Which failures are tolerated.
        probe_timeout_s: How long an idle actor may take for a sign of life.
        welcome: Called with the indices of actors that were made again, once they are built.
    """

    def __init__(
        self,
        group: ActorGroup,
        faults: FaultTolerance,
        probe_timeout_s: float,
        welcome: Callable[[list[int]], None],
    ):
        self.group, self._faults, self._welcome = group, faults, welcome
        self._probe_timeout_s = probe_timeout_s
        self._recreating: set[int] = set()

    def begin(self, *, for_all: bool) -> None:
        """Wait for the first ones: all, or one. What `build` raises is raised: it is no fault."""
        for reply in self.group.wait_until_built(for_all=for_all):
            if reply.error is not None and not isinstance(reply.error, ActorFailure):
                raise reply.error
            self._failed(reply)

    def wait_until_built(self, timeout_s: float | None = None, *, for_all: bool = True) -> None:
        """Wait for those that are being built, and welcome those that were made again."""
        built = self.group.wait_until_built(timeout_s, for_all=for_all)
        for reply in [*built, *self.group.take_failures()]:
            self._failed(reply)
        self._welcome_new()

    def look_after(self) -> None:
        """Begin to replace what has failed, and see to it that at least one can be asked.

        Raises:
            RuntimeError: if none is left.
        """
        group = self.group
        self.wait_until_built(0.0)  # only looks at those that are starting
        if self._faults.restart and group.failed:
            self.restore(wait=False)
        while not group.healthy:
            self.check_left()
            if self._faults.restart:
                self.restore(wait=False)
            self.wait_until_built(for_all=False)

    def check_left(self) -> None:
        """Refuse to go on where nobody works, is being built, or is made again.

        Raises:
            RuntimeError: if it is so.
        """
        group = self.group
        if not (group.healthy or group.starting or self._faults.restart):
            raise RuntimeError(
                f"none of {len(group)} {self._faults.role}s is left; restart_failed_env_runners "
                "makes failed ones again"
            )

    def probe(self) -> list[int]:
        """Ask idle actors for a sign of life; returns those that failed.

        One that has something to do gives its sign with its answer.
        """
        idle = [i for i in self.group.healthy if not self.group.num_in_flight(i)]
        replies = self.group.call("ping", indices=idle, timeout_s=self._probe_timeout_s)
        failed = [reply for reply in replies if reply.error is not None]
        for reply in failed:
            self.group.kill(reply.index)
            logger.warning("%s", reply.error)
        return [reply.index for reply in failed]

    def restore(self, *, wait: bool = True) -> list[int]:
        """Make failed actors again.

        Args:
            wait: Else they come to life while the others work.

        Returns:
            Those that were made again and are healthy now.
        """
        for reply in self.group.take_failures():  # else they would be forgotten
            self._failed(reply)
        self._recreating.update(self.group.restore())
        if not wait:
            return self._welcome_new()
        for reply in self.group.wait_until_built():
            self._failed(reply)
        return self._welcome_new()

    def answered(self, replies: Iterable[Reply]) -> list[Reply]:
        """Return the replies that are answers; the others are failures, or raise."""
        good = []
        for reply in replies:
            if reply.error is None:
                self._faults.answered(reply)
                good.append(reply)
            else:
                self._failed(reply)
        return good

    def _failed(self, reply: Reply) -> None:
        self.group.kill(reply.index)  # also one whose environment raised: who knows its state
        self._faults.failed(reply)

    def _welcome_new(self) -> list[int]:
        new = sorted(self._recreating & set(self.group.healthy))
        self._recreating -= set(new)
        if new:
            self._welcome(new)
        return new
