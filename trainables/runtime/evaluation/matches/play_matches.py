"""`play_matches`: games of one policy against an opponent, which takes all other seats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import PolicySpec
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.policy.policy import Policy
from trainables.runtime.evaluation.agents import evaluate_agents
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.matches.game_log import GameLog, seat_of
from trainables.runtime.evaluation.matches.games import Matches
from trainables.runtime.evaluation.matches.legal_actions import LegalActions
from trainables.runtime.evaluation.matches.opponents import (
    Opponent,
    opponent_class,
    opponent_name,
)
from trainables.runtime.evaluation.matches.seats import (
    against,
    check_opponent,
    checked_seats,
    groups_of,
)

OPPONENT = "opponent"
"""The id of the policy that acts for the opponent; with agents of several kinds, how ids begin."""

_OF_POLICIES = (
    "policies",
    "policy_mapping_fn",
    "policies_to_train",
    "league",
    "algorithm_config_overrides_per_module",
)


def play_matches(
    config: AlgorithmConfig,
    policy: Policy,
    opponent: Opponent,
    *,
    num_episodes: int = 10,
    seed: int = 0,
    explore: bool = False,
    num_envs: int | None = None,
    seats: Sequence[Any] | None = None,
    policy_id: str = "policy",
    name: str | None = None,
    time_limit: int | None = None,
    watches: Sequence[AgentsWatch] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> Matches:
    """Play games against an opponent, in which the policy takes each seat in turn.

    Neither the policy nor its filter statistics change. The opponent acts for all other agents.

    Args:
        config: Says the environment, and what its agents are shown (`action_mask_key`,
            `centralized_critic`). Its own policies do not matter.
        policy: Who is judged.
        opponent: Another policy; "random" or "look_ahead"; a class with `compute_actions`, see
            `FixedPolicy`; a function `(observations, rng, masks) -> actions`, which are what they
            are there; or `module:name` of a class or function, which is imported.
        num_episodes: Games. Of `len(seats)` seats, game n has seat `n % len(seats)`.
        seed: The seed of environments, exploration, and what an opponent draws.
        explore: Whether policies with networks sample actions, or take the most likely.
        num_envs: Slots that are stepped together; None: as the config says.
        seats: Agents that the policy acts for in turn; None: all whose spaces it fits.
        policy_id: What watches call the policy.
        name: What errors call the opponent; None: as it is given.
        time_limit: A game longer than this is cut off, and its returns are those so far.
        watches: Who else looks on.
        stopped: Asked before each step.

    Returns:
        The games that have ended: all, unless it was stopped.

    Raises:
        ConfigError: if the environment has one agent, seats or spaces do not fit, or an opponent
            written by hand raises, or does what is not allowed.

    Example:
        >>> from trainables import PPOConfig
        >>> from trainables.runtime.evaluation.matches.play_matches import play_matches
        >>> game = {"payoffs": "rock_paper_scissors", "rounds": 1}
        >>> config = PPOConfig().environment("matrix_game", env_config=game)
        >>> algo = config.multi_agent(policies=["main"]).build()
        >>> matches = play_matches(config, algo.get_policy("main"), "random", num_episodes=20)
        >>> matches.tally("player_0").games
        10
        >>> algo.stop()
    """
    name = opponent_name(opponent) if name is None else name
    kind = None if isinstance(opponent, Policy) else opponent_class(opponent)
    config = config.copy(copy_frozen=False)
    # Policies by id make any environment one of several agents.
    config.update_from_dict({**dict.fromkeys(_OF_POLICIES), "policies": [policy_id]})
    every = groups_of(config)
    taken = checked_seats(every, policy, seats)
    groups = against(every, taken)
    ids = _ids(len(groups), policy_id)
    policies, legal = {policy_id: policy}, list[AgentsWatch]()
    if isinstance(opponent, Policy):
        check_opponent(groups, opponent, name)
        policies.update(dict.fromkeys(ids, opponent))
    else:
        legal.append(LegalActions(ids, name, config.action_mask_key))
    specs = {
        own: PolicySpec(kind, group.observation_space, group.action_space)
        for own, group in zip(ids, groups, strict=True)
    }
    by_agent = {
        agent: own for own, group in zip(ids, groups, strict=True) for agent in group.agents
    }
    config.update_from_dict(
        {
            "policies": {policy_id: PolicySpec(), **specs},
            "policy_mapping_fn": _mapping(taken, policy_id, by_agent),
            "explore": explore,
            "num_envs_per_env_runner": num_envs or config.num_envs_per_env_runner,
        }
    )
    log = GameLog(taken)
    evaluate_agents(
        config,
        policies,
        num_episodes=num_episodes,
        seed=seed,
        time_limit=time_limit,
        watches=[*legal, log, *watches],
        stopped=stopped,
    )
    return Matches(taken, sorted(log.games, key=lambda game: game.episode))


def _ids(num_groups: int, policy_id: str) -> list[str]:
    """Return the ids of the opponent's policies: one acts for agents with equal spaces."""
    first = OPPONENT if policy_id != OPPONENT else f"other_{OPPONENT}"
    return [first] if num_groups == 1 else [f"{first}_{number}" for number in range(num_groups)]


def _mapping(
    seats: Sequence[Any], policy_id: str, others: Mapping[Any, str]
) -> Callable[[Any, AgentsEpisode], str]:
    """Return who acts for whom: the policy for one seat, which moves on with each episode."""

    def policy_of(agent: Any, episode: AgentsEpisode) -> str:
        return policy_id if agent == seat_of(seats, episode) else others[agent]

    return policy_of
