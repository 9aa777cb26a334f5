"""The reference's form of curiosity: two numbers in `learner_config_dict`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.exploration import is_intrinsic
from trainables.core.config.settings import is_search_domain
from trainables.core.errors import ConfigError

LEARNER_DICT = "learner_config_dict"
_MEANS = {"intrinsic_reward_coeff": "eta", "forward_loss_weight": "beta"}


def without_learner_dict(values: Mapping[str, Any], present: Any = None) -> Mapping[str, Any]:
    """Return values with an `exploration_config` in the place of the learner's curiosity.

    Its bonuses are as they are, and not normalised. How actions are chosen stays what it was, and
    so do other options of a curiosity that the config has already.

    Args:
        values: Settings by name.
        present: The config that they are of, which may say how actions are chosen; None: none.

    Raises:
        ConfigError: for another entry, or if `exploration_config` says something else.
    """
    given = values.get(LEARNER_DICT)
    if not isinstance(given, Mapping) or not given or is_search_domain(given):
        return values
    for name in given:
        if name not in _MEANS:
            raise ConfigError(
                f"{LEARNER_DICT}: {name!r} is not supported: give a subclass of Learner as "
                f"learner_class; allowed: {', '.join(_MEANS)}, which are curiosity's"
            )
    meant = {"type": "Curiosity", "normalize_bonus": False}
    meant |= {_MEANS[name]: value for name, value in given.items()}
    found = {name: value for name, value in values.items() if name != LEARNER_DICT}
    exploration = found.get("exploration_config")
    if exploration is None:
        exploration = {} if present is None else present.exploration_config
    if not isinstance(exploration, Mapping) or is_search_domain(exploration):
        raise ConfigError(
            f"{LEARNER_DICT} cannot be joined with exploration_config = {exploration!r}; allowed: "
            "a dict, which may hold search domains"
        )
    if is_intrinsic(exploration):
        for name, value in meant.items():
            is_given = name == "type" or ("exploration_config" in found and name in exploration)
            if is_given and exploration[name] != value:
                raise ConfigError(
                    f"{name!r} of exploration_config is given twice with different values: "
                    f"{LEARNER_DICT} says {value!r}"
                )
        meant = {**exploration, **meant}
    elif exploration:
        meant["sub_exploration"] = dict(exploration)
    return {**found, "exploration_config": meant}
