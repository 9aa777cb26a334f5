"""What a spec's `trainable` names: an algorithm of this package, or `module:Class`."""

from __future__ import annotations

import importlib
from typing import Any


def resolve_trainable(name: Any) -> type:
    """The trainable class that a spec names.

    Args:
        name: An algorithm's name (`PPO`), or `module:Class` for a `ray.tune.Trainable` of one's
            own. If the class has a `config_class`, the spec's config is checked with it.

    Raises:
        ValueError: The name is unknown, with the nearest known ones.
    """
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is not the name of a trainable")
    if ":" not in name:
        from trainables.registry import get_algorithm

        return get_algorithm(name)
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from None
    if not isinstance(found, type) or not hasattr(found, "default_resource_request"):
        raise ValueError(f"{name!r} is not a class that extends ray.tune.Trainable")
    return found
