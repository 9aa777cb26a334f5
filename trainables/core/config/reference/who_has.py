"""Which algorithms have a setting, for messages of those that have it not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainables.core.config.settings import Settings

_sources: list[Callable[[], Mapping[str, type[Settings]]]] = []


def look_in(configs: Callable[[], Mapping[str, type[Settings]]]) -> None:
    """Take the config classes of algorithms by name from a function, which is called when asked."""
    _sources.append(configs)


def algorithms_where(holds: Callable[[type[Settings]], bool]) -> str:
    """Return the algorithms of whose config classes something holds, as a list in words."""
    return ", ".join(
        algorithm
        for configs in _sources
        for algorithm, config_class in configs().items()
        if holds(config_class)
    )


def who_has(name: str) -> str:
    """Return the algorithms that have a setting, as a list in words; "" if none has."""
    return algorithms_where(
        lambda config_class: (
            name in config_class.settings().keys() - config_class.without
            or name in getattr(config_class, "composites", ())
        )
    )
