"""What the settings of a league mean together, and the check of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.policies import MAIN, ROLES, LeagueConfig
from trainables.core.config.settings import is_search_domain
from trainables.core.errors import ConfigError


def check_league(given: Any) -> dict[str, Any] | None:
    """Return the checked settings of a league.

    Raises:
        ConfigError: naming the setting inside, and what is allowed.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ConfigError(f"league = {given!r} is not allowed; allowed: a dict of its settings")
    try:
        checked = LeagueConfig.check(given)
    except ConfigError as error:
        raise ConfigError(f"league: {error}") from None
    learners = checked.get("learners", {MAIN: MAIN})
    if not is_search_domain(learners):
        for policy_id, role in learners.items():
            if role not in ROLES and not is_search_domain(role):
                raise ConfigError(
                    f"league: learners: {policy_id!r} = {role!r} is not allowed; allowed: "
                    f"{', '.join(ROLES)}"
                )
        if MAIN not in learners.values():
            raise ConfigError(f"league: learners = {learners!r}: none has the role {MAIN!r}")
    if checked.get("freeze_every", 10) is None and checked.get("freeze_at_win_rate") is None:
        raise ConfigError("league: freeze_every and freeze_at_win_rate are both None; give one")
    by_priority = checked.get("opponents", "prioritized")
    if "priority_power" in checked and by_priority in ("uniform", "latest"):
        raise ConfigError(f"league: priority_power has no effect with opponents = {by_priority!r}")
    return checked


def check_learners(config: Any, policies: Mapping[str, Any]) -> None:
    """See that a league's learners are policies that are trained, and nothing else maps agents.

    Args:
        config: The algorithm's config.
        policies: Its policies by id.

    Raises:
        ConfigError: naming the setting.
    """
    if config.league is None:
        return
    has_copies = False
    for policy_id in LeagueConfig.of(config.league).learners:
        trained = config.policies_to_train
        if policy_id not in policies or policies[policy_id].is_fixed:
            raise ConfigError(
                f"league: learners: {policy_id!r} is no policy that learns; policies: "
                f"{', '.join(policies)}"
            )
        if not isinstance(trained, (list, type(None))):
            raise ConfigError(
                "policies_to_train is a function, which does not go with a league: frozen copies "
                "come and go; allowed: a list of ids, or None"
            )
        if trained is not None and policy_id not in trained:
            raise ConfigError(f"league: learners: {policy_id!r} is not in policies_to_train")
        has_copies = first_copy(policy_id) in policies  # as once the run has begun
    if config.policy_mapping_fn is not None and not has_copies:
        raise ConfigError(
            "policy_mapping_fn does not go with league, which says who plays whom; allowed: None"
        )


def first_copy(learner: str) -> str:
    """Return the id of a learner's first frozen copy, the one of its initial weights."""
    return f"{learner}_v0"


def first_line_up(config: Any) -> list[dict[str, Any]]:
    """Return who plays before anything is frozen: the first learner, with itself."""
    return [{"policies": {"*": next(iter(LeagueConfig.of(config.league).learners))}}]
