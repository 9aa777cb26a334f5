"""What of an algorithm's settings each policy can have of its own, and the check of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainables.core.config.settings import Settings, is_search_domain
from trainables.core.errors import ConfigError

if TYPE_CHECKING:
    from trainables.core.config.config import AlgorithmConfig

# How a policy learns and explores is its own matter, ...
_OWN_SECTIONS = ("training", "exploration")
# ... and so is how it sees and acts.
_OWN_SETTINGS = ("observation_filter", "normalize_actions", "clip_actions")
# Of these sections, what is about samples, which all policies have in common.
_COMMON = (
    "train_batch_size_per_learner",
    "replay_buffer_config",
    "store_buffer_in_checkpoints",
    "num_steps_sampled_before_learning_starts",
    "training_intensity",
    "random_warmup",
    "replay_proportion",
    "replay_buffer_num_slots",
    "broadcast_interval",
    "learner_queue_size",
    "learner_queue_timeout",
    "circular_buffer_num_batches",
    "circular_buffer_iterations_per_batch",
)


def module_settings(config_class: type[Settings]) -> list[str]:
    """Return the settings that a policy can have of its own with an algorithm."""
    return [
        name
        for name, declared in config_class.settings().items()
        if (declared.section in _OWN_SECTIONS or name in _OWN_SETTINGS)
        and name not in (*_COMMON, *config_class.without)
    ]


def check_overrides(config_class: type[AlgorithmConfig], given: Any, where: str) -> Any:
    """Return a policy's own settings, checked, by their present names; a search domain passes.

    Args:
        config_class: The algorithm's.
        given: A dict of settings; a config, of which what is not a default counts; None: nothing.
        where: The setting and the policy that they are of, for errors.

    Raises:
        ConfigError: for what the algorithm does not take, or policies have in common.
    """
    if given is None:
        return {}
    if is_search_domain(given):
        return given
    if isinstance(given, Settings):
        defaults = type(given)().to_dict()
        given = {name: value for name, value in given.to_dict().items() if value != defaults[name]}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where} = {given!r} is not allowed; allowed: a dict of settings")
    try:
        checked = config_class.check(given)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    own = module_settings(config_class)
    for name in checked:
        if name not in own and not _is_default(config_class, name, checked[name]):
            raise ConfigError(
                f"{where}: {name!r} is the same for all policies; allowed: {', '.join(own)}"
            )
    return {name: value for name, value in checked.items() if name in own}


def _is_default(config_class: type[Settings], name: str, value: Any) -> bool:
    """Tell whether a value is the algorithm's default where it does without the setting."""
    return name in config_class.without and bool(value == config_class.settings()[name].default)


def merge_overrides(
    config_class: type[Settings],
    below: Mapping[str, Any],
    above: Mapping[str, Any],
    *,
    added: bool = True,
) -> dict[str, Any]:
    """Return settings with others over them, which of dicts of settings change what they give.

    Of `exploration_config` another type changes everything: each has options of its own.

    Args:
        config_class: The algorithm's.
        below: Settings.
        above: Settings that count where both give one.
        added: Whether what only `below` has is in the result.
    """
    merged = dict(below) if added else {}
    for name, value in above.items():
        known = below.get(name)
        both = name in config_class.nested_settings() and isinstance(known, Mapping)
        is_other_kind = name == "exploration_config" and "type" in value
        merged[name] = {**known, **value} if both and known and not is_other_kind else value
    return merged
