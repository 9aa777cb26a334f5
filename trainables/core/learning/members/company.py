"""Who else is at work in this process: `company`, which is asked before something is done alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class NotTogetherError(Exception):
    """Something cannot be done for several members at once; the message says why."""


class Program(Protocol):
    """Does what the same members ask for, again and again, as one tensor program."""

    def run(self, requests: Sequence[Any]) -> list[Any]:
        """Do what each member asks for.

        Returns:
            What each gets, or the exception that it is to raise.

        Raises:
            NotTogetherError: before anything has changed, if it cannot be done.
        """


class Request(Protocol):
    """What a member asks for, to be done with what others ask for."""

    @property
    def owner(self) -> object:
        """Whose it is: the same owners ask for the same again."""

    def why_alone(self) -> str | None:
        """Return why it cannot be done with others; None if it can, with those of its `key`."""

    def key(self) -> Hashable:
        """Return what is equal for requests that can be done together."""

    def alone(self) -> Any:
        """Do it by itself."""


class Company(Protocol):
    """What does together what members of a process ask for."""

    def ask(self, request: Request) -> Any:
        """Return what comes of a request, once it is done; others may be done with it."""


_PRESENT: ContextVar[Company | None] = ContextVar("company", default=None)


def company() -> Company | None:
    """Return whom to ask in this thread; None: there is nobody else."""
    return _PRESENT.get()


@contextmanager
def in_company(of: Company) -> Iterator[None]:
    """Have what this thread does be done with others."""
    token = _PRESENT.set(of)
    try:
        yield
    finally:
        _PRESENT.reset(token)
