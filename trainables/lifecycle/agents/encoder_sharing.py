"""Policies with one encoder begin alike: at the start, and whenever others set their weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trainables.core.config.agents.shared_encoders import NAME
from trainables.core.config.policies import encoder_groups
from trainables.core.errors import ConfigError
from trainables.core.learning.shared_encoders import SharedEncoders
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy


def encoders_of(config: Any, policies: Mapping[str, Policy]) -> SharedEncoders:
    """Return the encoders that policies have in common.

    Args:
        config: The algorithm's config.
        policies: Those that learn, by id.

    Raises:
        ConfigError: for policies of a group whose networks, or what they see, differ.
    """
    return SharedEncoders(encoder_groups(config), policies)


def begin_with_loaded(
    config: Any, policies: Mapping[str, Policy], restored: Collection[str] = ()
) -> None:
    """Let policies begin with one encoder: one that `load_state_path` gave, if it gave any.

    Args:
        config: The algorithm's config.
        policies: Those that learn, by id.
        restored: Ids of those that a checkpoint restores, which begin later.

    Raises:
        ConfigError: if it gave several that differ.
    """
    path = config.load_state_path
    named = () if path is None else path if isinstance(path, Mapping) else policies
    loaded = [m for m in named if m not in restored]
    for source, unlike in encoders_of(config, policies).begin(loaded).items():
        for other in unlike:
            if other in loaded:
                raise ConfigError(
                    f"load_state_path = {path!r} gives {source!r} and {other!r}, which have one "
                    f"encoder ({NAME}), different ones; allowed: the same folder for both, or none "
                    "for one of them"
                )


def go_on_with(
    config: Any, policies: Mapping[str, Policy], *known: Collection[str], what: str | None = None
) -> bool:
    """Let policies go on with one encoder; tell whether any had another one.

    Args:
        config: The algorithm's config.
        policies: Those that learn, by id.
        known: See `SharedEncoders.begin`.
        what: Where the encoders of the first of `known` come from: a warning says so if they
            differ.
    """
    found = encoders_of(config, policies).begin(*known)
    for source, unlike in found.items():
        lost = [m for m in unlike if known and m in known[0]]
        if lost and what is not None:
            logger.warning(
                "%s has different encoders of policies that have one here (%s), among them that of "
                "%s; it is now that of %s, too",
                what,
                NAME,
                source,
                ", ".join(lost),
            )
    return any(found.values())
