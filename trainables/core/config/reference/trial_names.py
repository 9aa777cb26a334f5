"""Names in the dict of a trial, where Tune's schedulers may have added a setting's other name.

Ray's population-based training puts what it mutates into a trial's dict under the name that it was
given, e.g. `train_batch_size`, behind `train_batch_size_per_learner` from a config object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainables.core.config.reference.compatibility import ALIASES

if TYPE_CHECKING:
    from trainables.core.config.config import AlgorithmConfig


def with_one_name_each(
    config_class: type[AlgorithmConfig], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of a trial, each setting by one name: of two names the later one counts.

    Only of settings that may change in mid-run. What else is given twice stays, and is an error
    unless both are equal. A `…_schedule` counts in any place, so it stays as well.

    Args:
        config_class: Says which settings may change.
        values: A trial's dict, in the order in which Tune and its scheduler have filled it.
    """
    values = _without_composed(config_class, values)
    last = {ALIASES.get(name, name): name for name in values if not _is_schedule(name)}
    return {
        name: value
        for name, value in values.items()
        if _is_schedule(name)
        or last[target := ALIASES.get(name, name)] == name
        or target not in config_class.settings()
        or config_class.why_fixed((target,)) is not None
    }


def _without_composed(
    config_class: type[AlgorithmConfig], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The values without those that a later name stands for among others, e.g. `momentum`."""
    kept, order = dict(values), list(values)
    for name in filter(kept.__contains__, config_class.composites):
        for outer, *inner in config_class.composed(name, values[name]):
            is_later = outer in kept and order.index(outer) < order.index(name)
            if not is_later or config_class.why_fixed((outer, *inner)) is not None:
                continue
            if inner and isinstance(kept[outer], dict):
                kept[outer] = {k: v for k, v in kept[outer].items() if k != inner[0]}
            elif not inner:
                del kept[outer]
    return kept


def _is_schedule(name: str) -> bool:
    return str(name).endswith("_schedule")
