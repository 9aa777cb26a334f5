"""What a trainable refuses after `stop()`, before it touches anything."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Parts that `stop` takes down.
PARTS = ("env_runners", "eval_env_runner_group", "learners", "workers")


class StoppedError(RuntimeError, AttributeError):
    """An algorithm was stopped, and cannot do what it is asked for."""


class Stopping:
    """Part of a trainable: whether it was stopped."""

    _why_ended: str | None = None
    _is_stopped = False

    def _refuse_if_ended(self, called: str) -> None:
        """Raise if there is nothing to work with.

        Raises:
            StoppedError: naming the method, and what to do instead.
        """
        if self._why_ended is not None:
            raise StoppedError(f"{type(self).__name__}.{called}: {self._why_ended}")

    def _end(self, why: str) -> None:
        self._why_ended = why

    def stop(self) -> None:
        """Close environments and end actors. `get_policy` and `get_weights` still answer."""
        try:
            super().stop()  # type: ignore[misc]
        finally:
            name = type(self).__name__
            self._is_stopped = True
            self._end(
                "it was stopped (by stop(), or at the end of its with block); build another one, "
                f"or {name}.from_checkpoint(folder) to go on"
            )


def running(method: Callable[P, R]) -> Callable[P, R]:
    """Refuse a method's call after `stop()`, before the method begins."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        algorithm: Any = args[0]
        algorithm._refuse_if_ended(f"{method.__name__}()")
        return method(*args, **kwargs)

    return call
