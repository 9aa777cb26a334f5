"""A training function of one's own as the class that Tune makes of it: `module:train_fn`.

    def train_fn(config):
        for number in range(10):
            tune.report({"loss": config["lr"] / (number + 1)})

Tune runs such a function in a thread of the trial's process. What it reports are the results, and
a checkpoint is there if it reports one along: `tune.report(metrics, checkpoint=…)`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)


def is_function_class(trainable: type) -> bool:
    """Tell whether a class was made of a training function."""
    return any(
        base.__module__ == "ray.tune.trainable.function_trainable" for base in trainable.__mro__
    )


@functools.cache
def function_class(function: Callable[..., Any], name: str) -> Any:
    """Return the trainable class of a training function.

    Args:
        function: A function of the config, or what `tune.with_resources` or `tune.with_parameters`
            made of one. Its attribute `metrics` may list what it reports.
        name: The name that the spec has for it, for messages.

    Raises:
        ValueError: It cannot be called with a config alone.
    """
    from ray.tune.trainable import wrap_function

    from experiments.internals.tune import name_trainable

    try:
        found: Any = wrap_function(function)
    except ValueError:
        raise ValueError(
            f"{name!r} is a function that cannot be called with the trial's config alone; write "
            "`def train_fn(config):`, and give it other arguments with tune.with_parameters"
        ) from None
    # Tune calls the trials by it, and `module:function` may be a partial, which has none.
    name_trainable(found, getattr(function, "__name__", name.rpartition(":")[2]))
    found.train_function = staticmethod(function)
    if hasattr(function, "metrics"):
        found.metrics = function.metrics
    return found
