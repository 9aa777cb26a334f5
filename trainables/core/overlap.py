"""How many recorded episodes an estimate by importance weights has to rest on."""

from __future__ import annotations

LEAST_SHARE, LEAST_EPISODES = 0.05, 10


def rests_on_too_few(size: float, num_episodes: float) -> bool:
    """Tell whether an estimate is worth little.

    Args:
        size: The effective sample size that it rests on.
        num_episodes: How many episodes there are.
    """
    return size < max(LEAST_EPISODES, LEAST_SHARE * num_episodes)
