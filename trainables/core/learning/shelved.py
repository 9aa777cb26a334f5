"""A learner's memory that comes and goes with its policy's, see `PolicyShelf`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from torch import Tensor

from trainables.core.policy.shelf import Shelved


class HasMemory(Protocol):
    """A learner, as far as its memory goes."""

    shelved: Shelved | None

    @property
    def is_among_others(self) -> bool:
        """Whether its memory is a part of what several learners have."""

    def tensors(self) -> Iterator[Tensor]:
        """Yield all that come and go."""

    def keep_apart(self) -> None:
        """Have memory that no other learner has."""


F = TypeVar("F", bound=Callable[..., Any])


def in_memory(method: F) -> F:
    """Return a method of a learner, which brings back the learner's memory first."""

    @wraps(method)
    def called(learner: HasMemory, *args: Any, **kwargs: Any) -> Any:
        if learner.shelved is not None:
            learner.shelved.use()
        return method(learner, *args, **kwargs)

    return cast(F, called)


def shelve_learner(learner: HasMemory, shelved: Shelved | None) -> None:
    """Let a learner's memory come and go with that of its policy.

    Args:
        learner: The learner of the policy's module.
        shelved: Of the policy; None: it is always in memory.
    """
    if shelved is not None and learner.shelved is not shelved:
        if learner.is_among_others:  # else what comes and goes would be others' memory, too
            shelved.use()
            learner.keep_apart()
        learner.shelved = shelved
        shelved.sources.append(learner.tensors)
