"""The class of the learner that a config names."""

from __future__ import annotations

from typing import Any

from trainables.core.callables import resolve_callable
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner


def learner_type(given: Any) -> type[Learner]:
    """Return the class that the setting `learner_class` means; it is imported if it is a name.

    Args:
        given: The setting: None, a subclass of `Learner`, or its name as `module:Name`.

    Raises:
        ConfigError: if it is no such class.
    """
    if given is None:
        return Learner
    found = resolve_callable(given) if isinstance(given, str) else given
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(
            f"learner_class = {given!r} is not allowed; allowed: a subclass of "
            "trainables.core.learning.learner.Learner, or its name as 'module:Name'"
        )
    return found
