"""Values of settings that say nothing: what other libraries have where nobody gave one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NOT_GIVEN = -1
"""What the reference has for a name that it no longer reads."""


class Named(NamedTuple):
    """A class or function of the reference, told by its name, since it is not imported."""

    name: str

    def __repr__(self) -> str:
        return self.name


SAY_NOTHING: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            "env_task_fn",
            "always_attach_evaluation_results",
            "use_critic",
            "policy_map_cache",
            "replay_mode",
        ),
        (NOT_GIVEN,),
    ),
    "evaluation_config": (None,),
    "lr": (None,),
    "num_cpus_per_learner": ("auto",),
    "callbacks_class": (Named("DefaultCallbacks"), Named("RLlibCallback")),
    "policy_mapping_fn": (Named("DEFAULT_POLICY_MAPPING_FN"),),
}
"""Of settings that are here; the others are in `core.config.reference.defaults`."""


def is_one_of(defaults: tuple[Any, ...], value: Any) -> bool:
    """Tell whether a value is one of these."""
    return any(_same(value, default) for default in defaults)


def _same(value: Any, default: Any) -> bool:
    """Tell whether they are equal; numbers whatever their type, but `True` is not 1."""
    if isinstance(default, Named):
        return _name(value) == default.name
    if isinstance(default, dict):
        return (
            isinstance(value, Mapping)
            and set(value) == set(default)
            and all(_same(value[key], default[key]) for key in default)
        )
    if isinstance(default, list):
        return isinstance(value, (list, tuple)) and list(value) == default
    if default is None or isinstance(default, bool):
        return value is default
    is_plain = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    return is_plain and bool(value == default)


def _name(value: Any) -> str:
    """Return the last part of the name of a class or function, which may be given as text."""
    text = value if isinstance(value, str) else getattr(value, "__qualname__", "")
    return text.replace(":", ".").rpartition(".")[2]
