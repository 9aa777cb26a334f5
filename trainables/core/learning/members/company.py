"""Who else learns in this process: `company`, which a learner asks before it learns alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from trainables.core.learning.members.request import Request


class Company(Protocol):
    """What runs the updates of members that learn side by side."""

    def updated(self, request: Request) -> dict[str, Any]:
        """Return what is reported of a request once it is met; others may be met with it."""


_PRESENT: ContextVar[Company | None] = ContextVar("company", default=None)


def company() -> Company | None:
    """Return what runs the updates of this thread's learners; None: they learn alone."""
    return _PRESENT.get()


@contextmanager
def in_company(of: Company) -> Iterator[None]:
    """Have the learners of this thread learn with others."""
    token = _PRESENT.set(of)
    try:
        yield
    finally:
        _PRESENT.reset(token)
