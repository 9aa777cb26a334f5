"""The setting `shared_encoders`: groups of policies whose networks have one encoder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trainables.core.config.policies import (
    SHARED_ENCODERS,
    PolicySpec,
    check_policy_id,
    named_to_train,
)
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.suggestions import suggestion

NAME = SHARED_ENCODERS
_ALLOWED = "True: all policies that learn; [['a', 'b'], ['c', 'd']]: groups of them; False: none"
Given = bool | list[list[str]]


def check_shared_encoders(given: Any) -> Given:
    """Return groups as lists of ids, or a bool as it is.

    Raises:
        ConfigError: for another form, a group of fewer than two, or a policy that is named twice.
    """
    if given is None or isinstance(given, bool):
        return bool(given)
    if not isinstance(given, (list, tuple)) or not given:
        raise ConfigError(f"{NAME} = {given!r} is not allowed; allowed: {_ALLOWED}")
    groups: list[list[str]] = []
    for group in given:
        if not isinstance(group, (list, tuple)):
            hint = f"; write [{[*given]!r}]" if isinstance(group, str) else ""
            raise ConfigError(f"{NAME} = {given!r} is not allowed; allowed: {_ALLOWED}{hint}")
        for policy_id in group:
            check_policy_id(policy_id, NAME)
        if len(group) < 2:
            raise ConfigError(
                f"{NAME}: the group {[*group]!r} has nobody to share with; allowed: two or more"
            )
        groups.append([*group])
    named = [m for group in groups for m in group]
    for policy_id in named:
        if named.count(policy_id) > 1:
            raise ConfigError(
                f"{NAME}: {policy_id!r} is named twice; allowed: each policy in one group"
            )
    return groups


def learning_policies(policies: Mapping[str, PolicySpec], policies_to_train: Any) -> list[str]:
    """Return the ids of the policies that have learners, in their order.

    Args:
        policies: By id.
        policies_to_train: The setting: ids, a function, or None.
    """
    chosen = named_to_train(policies_to_train) or [*policies]
    return [m for m, spec in policies.items() if m in chosen and not spec.is_fixed]


def encoder_groups(config: Any) -> list[list[str]]:
    """Return the groups of policies that have one encoder each; none of them has fewer than two.

    Args:
        config: An algorithm's config.
    """
    given: Given = config.shared_encoders
    if given is True:
        return [learning_policies(config.policies or {}, config.policies_to_train)]
    return given or []


def without_others(given: Given, learners: Collection[str]) -> Given:
    """Return the setting for a run that goes on with fewer policies that learn.

    Args:
        given: As it was.
        learners: Their ids.
    """
    if isinstance(given, bool):
        return given and len(learners) > 1
    groups = [[m for m in group if m in learners] for group in given]
    return [group for group in groups if len(group) > 1] or False


def check_encoder_groups(config: Any, policies: Mapping[str, PolicySpec]) -> None:
    """Check that the policies of a group can have one encoder.

    Args:
        config: The algorithm's.
        policies: Its policies by id.

    Raises:
        ConfigError: naming the settings that do not fit together, and the policies.
    """
    if not config.shared_encoders:
        return
    said = f"{NAME} = {config.shared_encoders!r}"
    if not type(config).shares_encoders:
        able = feature("reference").algorithms_where(
            lambda kind: getattr(kind, "shares_encoders", False)
        )
        raise ConfigError(
            f"{said} is not supported by {type(config).__name__.removesuffix('Config')}, whose "
            f"updates leave each encoder to its policy; allowed: False, or one of {able}"
        )
    if config.league is not None:
        raise ConfigError(
            f"{said} does not go with league, whose exploiters go back to their first weights, "
            "encoders among them; allowed: False, or no league"
        )
    capacity = config.policy_map_capacity
    if capacity is not None and len(policies) > capacity:
        raise ConfigError(
            f"{said} does not go with policies on disk (policy_map_capacity = {capacity} of "
            f"{len(policies)} policies): each step of one would bring all into memory; allowed: "
            "False, or policy_map_capacity=None"
        )
    learners = learning_policies(policies, config.policies_to_train)
    if config.shared_encoders is True and len(learners) < 2:
        raise ConfigError(
            f"{said} has no effect: only {', '.join(map(repr, learners))} learns; allowed: False, "
            "or at least two policies that learn"
        )
    for group in encoder_groups(config):
        for policy_id in group:
            _refuse_what_does_not_learn(policy_id, policies, learners)
        _check_kinds(config, group)


def _refuse_what_does_not_learn(
    policy_id: str, policies: Mapping[str, PolicySpec], learners: Collection[str]
) -> None:
    if policy_id not in policies:
        raise ConfigError(
            f"{NAME}: there is no policy {policy_id!r}; policies: {', '.join(policies)}"
            f"{suggestion(policy_id, policies)}"
        )
    if policies[policy_id].is_fixed:
        raise ConfigError(
            f"{NAME}: {policy_id!r} is written by hand (policy_class = "
            f"{policies[policy_id].policy_class!r}), so it has no encoder; allowed: "
            f"{', '.join(learners)}"
        )
    if policy_id not in learners:
        raise ConfigError(
            f"{NAME}: {policy_id!r} is not in policies_to_train, so that nothing of it may change; "
            f"allowed: {', '.join(learners)}"
        )


def _check_kinds(config: Any, group: list[str]) -> None:
    """Refuse what its members' own settings make different, or what each has of its own."""
    first, *others = group
    models = {m: config.module_config(m).resolve().model for m in group}
    for policy_id in others:
        if models[policy_id] != models[first]:
            raise ConfigError(
                f"{NAME}: {first!r} and {policy_id!r} have different settings of model (their own "
                "config, algorithm_config_overrides_per_module); allowed: the same for a group"
            )
    for policy_id in group:
        if (kept := config.module_config(policy_id).observation_filter) != "NoFilter":
            raise ConfigError(
                f"{NAME} does not go with observation_filter = {kept!r} of {policy_id!r}: each "
                "policy has statistics of its own, by which one observation would be another to "
                "the same encoder; allowed: 'NoFilter'"
            )
