"""`LeagueConfig`: the settings of self-play against frozen copies, inside `league`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.settings import Settings, is_search_domain, setting
from trainables.core.errors import ConfigError

MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER = "main", "main_exploiter", "league_exploiter"
ROLES = (MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER)


@dataclass
class LeagueConfig(Settings):
    """Settings of a league: learners, their frozen copies, and who plays whom.

    The roles are those of AlphaStar (Vinyals et al., 2019).
    """

    what: ClassVar[str] = "league setting"

    learners: dict[str, str] = setting(
        {MAIN: MAIN},
        "multi_agent",
        "the policies that learn, and their roles: main (plays itself and all frozen copies), "
        "main_exploiter (plays the main learners) or league_exploiter (plays all frozen copies)",
        harmless=lambda roles: all(role in ROLES for role in roles.values()),
    )
    freeze_every: int | None = setting(
        10,
        "multi_agent",
        "iterations between copies of a learner; None: copy only by its wins",
        ge=1,
        harmless=True,
    )
    freeze_at_win_rate: float | None = setting(
        None,
        "multi_agent",
        "also copy a learner when it has won this share of its last win_rate_games games against "
        "others (a draw is half a win)",
        gt=0,
        le=1,
        harmless=True,
    )
    win_rate_games: int = setting(
        100, "multi_agent", "number of games in a win rate", ge=1, harmless=True
    )
    max_copies: int | None = setting(
        None,
        "multi_agent",
        "greatest number of frozen copies of each learner; the oldest are dropped, but never the "
        "first; None: keep all",
        ge=2,
        harmless=True,
    )
    self_play_share: float = setting(
        0.35,
        "multi_agent",
        "share of a main learner's games against itself",
        ge=0,
        le=1,
        harmless=True,
    )
    opponents: str = setting(
        "prioritized",
        "multi_agent",
        "which frozen copies main learners and league exploiters play: uniform, latest (of each "
        "learner), or prioritized: in proportion to (1 - win rate) ** priority_power",
        choices=("prioritized", "uniform", "latest"),
    )
    priority_power: float = setting(
        2.0,
        "multi_agent",
        "how strongly harder opponents are preferred (prioritized)",
        ge=0,
        harmless=True,
    )
    reset_probability: float = setting(
        0.25,
        "multi_agent",
        "probability that a league exploiter returns to its first weights when it is copied; a "
        "main exploiter always does",
        ge=0,
        le=1,
        harmless=True,
    )
    game_decay: float = setting(
        0.99,
        "multi_agent",
        "factor on the weight of a pair's older games after each new one, because learners change",
        gt=0,
        le=1,
        harmless=True,
    )


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
