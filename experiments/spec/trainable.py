"""What a spec's `trainable` names: an algorithm of this package, or code of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.spec.function_trainable import FUNCTIONS, function_class
from trainables.core.callables import resolve_callable


def resolve_trainable(name: Any) -> type:
    """Return the trainable class that a spec names.

    Args:
        name: An algorithm's name (`PPO`), or `module:Class` for a `ray.tune.Trainable` of one's
            own, or `module:function` for a training function. If the class has a `config_class`,
            the spec's config is checked with it.

    Raises:
        ValueError: The name is unknown, with the nearest known ones.
    """
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is not the name of a trainable")
    if ":" not in name:
        from trainables.registry import get_algorithm

        return get_algorithm(name)
    found = resolve_callable(name)
    if isinstance(found, FUNCTIONS):
        return function_class(found, name)
    if not isinstance(found, type) or not hasattr(found, "default_resource_request"):
        raise ValueError(
            f"{name!r} is neither a class that extends ray.tune.Trainable nor a training function"
        )
    return found


def is_own(trainable: type) -> bool:
    """Tell whether a trainable is its user's own: none of our algorithms, nor made of one."""
    return not any(base.__module__ == "trainables.algorithm" for base in trainable.__mro__)


def with_trial_resources(trainable: Any, per_trial: Mapping[str, float]) -> Any:
    """Return the trainable with the spec's `resources.per_trial`, if it gives any."""
    if not per_trial:
        return trainable
    from ray import tune

    return tune.with_resources(trainable, tune.PlacementGroupFactory([dict(per_trial)]))
