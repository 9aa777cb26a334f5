"""Readers of one's own: what `input_` may name instead of files."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.config.experience import InputKey
from trainables.core.errors import ConfigError
from trainables.runtime.offline.io_context import IOContext

_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")  # module:name, as settings keep callables


class InputReader(ABC):
    """Gives steps, a batch at a time, for ever: what a callable given as `input_` returns.

    Whatever has such a `next` will do. With `get_state` and `set_state`, of what JSON holds, a
    resumed run goes on where the stopped one was; without them it reads from the beginning.
    """

    @abstractmethod
    def next(self) -> Mapping[str, Any]:
        """Return the next batch: columns by the names that files have, `[N, ...]` each.

        `obs`, `actions`, `rewards` and `terminateds` (or `dones`) are needed; `truncateds`,
        `new_obs`, `eps_id`, `t` and `action_logp` may be there. Nested observations are dicts of
        arrays. Rows of an episode follow one another; an episode ends with its batch. Without
        `new_obs`, one that is truncated bootstraps from the value of its last row's observation,
        and of one that ends amid it the last row is left out.
        """


def register_input(name: str, creator: Callable[[IOContext], Any]) -> None:
    """Give a reader's creator a name, which `input_` may have in all processes of a sweep.

    Args:
        name: The name.
        creator: Gets an `IOContext` and returns an `InputReader`.

    Raises:
        ConfigError: if it cannot be called, or the name is one that `input_` has anyway.
    """
    if not callable(creator):
        raise ConfigError(f"register_input({name!r}, {creator!r}): allowed: a callable")
    if name in ("sampler", "dataset"):
        raise ConfigError(f"register_input({name!r}, …): the name says something else in input_")
    from ray.tune.registry import register_input as register  # Ray takes seconds to import

    register(name, creator)


def input_creator(item: InputKey) -> Callable[[IOContext], Any] | None:
    """Return what makes the reader that a source of `input_` names; None: it names data.

    Raises:
        ConfigError: for a `module:name` that is not there.
    """
    if callable(item):
        return item
    if not isinstance(item, str):
        return None
    registered = _registered(item)
    if registered is not None or not _NAMED.fullmatch(item) or item.startswith("minari:"):
        return registered
    found: Callable[[IOContext], Any] = resolve_callable(item)
    return found


def make_reader(item: InputKey, context: IOContext) -> Any:
    """Return the reader that a source of `input_` names.

    Raises:
        ConfigError: if what it names returns something else.
    """
    creator = input_creator(item)
    assert creator is not None
    reader = creator(context)
    if not callable(getattr(reader, "next", None)):
        raise ConfigError(
            f"input_ = {reader_name(item)!r} returned {type(reader).__name__}; allowed: an "
            "InputReader, whose next() gives a batch of columns"
        )
    return reader


def reader_name(item: InputKey) -> str:
    """Return what messages call a source."""
    return callable_name(item) if callable(item) else str(item)


def _registered(name: str) -> Callable[[IOContext], Any] | None:
    """Return what was registered under a name, looked up only if Ray is in use."""
    if "ray.tune" not in sys.modules:
        return None
    from ray.tune.registry import registry_contains_input, registry_get_input

    if not registry_contains_input(name):
        return None
    found: Callable[[IOContext], Any] = registry_get_input(name)
    return found
