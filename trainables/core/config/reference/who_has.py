"""Which algorithms have a setting, for messages of those that have it not."""

from __future__ import annotations

from collections.abc import Callable

from trainables import registry
from trainables.core.config.settings import Settings


def algorithms_where(holds: Callable[[type[Settings]], bool]) -> str:
    """Return the algorithms of whose config classes something holds, as a list in words."""
    return ", ".join(
        algorithm
        for algorithm in registry.algorithm_names()
        if holds(registry.config_class_of(algorithm))
    )


def who_has(name: str) -> str:
    """Return the algorithms that have a setting, as a list in words; "" if none has."""
    return algorithms_where(
        lambda config_class: (
            name in config_class.settings().keys() - config_class.without
            or name in getattr(config_class, "composites", ())
        )
    )
