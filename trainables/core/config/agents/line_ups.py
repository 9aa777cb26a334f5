"""`LineUps`: who plays for whom, drawn anew for each episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainables.core.config.policies import check_policy_id
from trainables.core.config.settings import is_search_domain
from trainables.core.errors import ConfigError

ALLOWED = "[{'weight': 2, 'policies': {'player_0': 'main', '*': 'old'}}, …], weights >= 0, one > 0"
_KEYS = {"weight", "policies"}


class LineUps:
    """Draws one of several line-ups for an episode: each has a policy for every agent.

    The draw depends on the seed, the env runner and the episode's number alone, so that a run that
    is resumed draws as one that was not interrupted.

    Args:
        given: Each with `policies`, by agents' ids or patterns of them, and a `weight`, 1 if it is
            left out; an episode has a line-up with a probability that is proportional to it.
        seed: Of all draws.
    """

    def __init__(self, given: Sequence[Mapping[str, Any]], seed: int):
        self._policies = [line_up["policies"] for line_up in given]
        weights = np.array([line_up.get("weight", 1) for line_up in given], np.float64)
        self._ends = np.cumsum(weights) / weights.sum()
        self._seed = seed
        self._last: tuple[tuple[int, int], Mapping[str, str]] | None = None

    def of_episode(self, episode: Any, worker: Any) -> Mapping[str, str]:
        """Return the policies of an episode, by agents' ids or patterns.

        Args:
            episode: It, or None: as if it were the first.
            worker: What samples it, if anything does.
        """
        number = 0 if episode is None else int(episode.episode_id)
        key = (int(getattr(worker, "worker_index", 0) or 0), number)
        if self._last is None or self._last[0] != key:  # all agents of an episode ask at once
            (word,) = np.random.SeedSequence((self._seed, *key)).generate_state(1)
            index = int(np.searchsorted(self._ends, word / 2**32, side="right"))
            self._last = key, self._policies[index]
        return self._last[1]


def check_line_ups(given: Sequence[Any]) -> list[dict[str, Any]]:
    """Return line-ups with agents' ids as texts.

    Raises:
        ConfigError: naming what is wrong with them, and what is allowed.
    """
    checked = []
    for line_up in given:
        if not isinstance(line_up, Mapping) or not {"policies"} <= {*line_up} <= _KEYS:
            raise _refused(line_up)
        policies, weight = line_up["policies"], line_up.get("weight", 1)
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not isinstance(policies, Mapping) or not policies or not is_number:
            raise _refused(line_up)
        if not 0 <= weight < float("inf"):
            raise _refused(line_up)
        for agent, policy_id in policies.items():
            if not is_search_domain(policy_id):
                check_policy_id(policy_id, f"policy_mapping_fn: {agent!r}")
        named = {str(agent): policy_id for agent, policy_id in policies.items()}
        checked.append({"weight": weight, "policies": named})
    if not sum(line_up["weight"] for line_up in checked):
        raise _refused(list(given))
    return checked


def _refused(given: Any) -> ConfigError:
    return ConfigError(f"policy_mapping_fn: {given!r} is not allowed; allowed: {ALLOWED}")


def are_line_ups(given: Any) -> bool:
    """Tell whether a value is a list of line-ups that names no code: ids and numbers alone."""
    if not isinstance(given, list):
        return False
    try:
        return check_line_ups(given) is not None
    except ConfigError:
        return False


def named_policies(mapping: Any) -> list[str]:
    """Return the ids that a mapping names: a dict by agent, or line-ups; none of a function."""
    if isinstance(mapping, Mapping):
        return [*mapping.values()]
    if isinstance(mapping, (list, tuple)):
        given = [line_up.get("policies", {}) for line_up in mapping if isinstance(line_up, Mapping)]
        return [policy for policies in given for policy in policies.values()]
    return []
