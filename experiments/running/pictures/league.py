"""The league of self-play that a sweep's best policy is of, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.running.pictures.source import Best, state_of_policy
from trainables.core.config.policies import LeagueConfig
from trainables.runtime.league.league import League
from trainables.runtime.league.standings import Standings, standings_of


def draw_league_of_best(best: Best, out: Path) -> Path | None:
    """Draw who beats whom in a league, and how its ratings have grown.

    Args:
        best: A policy of the league.
        out: The picture.

    Returns:
        The picture; None without a league, or before its first game.
    """
    state = state_of_policy(best.checkpoint)
    found = None if state is None else standings_in(state)
    if found is None or not np.any(found.games):
        return None
    from analysis.plots.league import plot_league

    return plot_league(found, out)


def standings_in(state: dict[str, Any]) -> Standings | None:
    """Return the standings of a run's league by its checkpoint; None if it has none."""
    if not isinstance(state.get("league"), dict):
        return None
    league = League(LeagueConfig.of(state["config"]["league"]), 0)
    league.set_state(state["league"])
    return standings_of(league, state["counters"]["num_env_steps_sampled"])
