"""Play a policy that training left in a folder against an opponent."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.agents import AgentsLog
from experiments.commands.evaluation.chosen_policies import (
    chosen_policy,
    found_opponent,
    stored_agents,
    trained_for,
)
from experiments.commands.evaluation.evaluated import (
    HUMAN,
    Evaluation,
    LeftEarly,
    Versus,
    names_of,
    notes_of,
    shown_progress,
    stopped_by_ctrl_c,
)
from experiments.commands.evaluation.played_policy import environment_of
from experiments.commands.evaluation.policy_sources import PolicySource
from experiments.errors import ExperimentError
from trainables.core.config.config import AlgorithmConfig
from trainables.core.own_folders import trust_in
from trainables.core.policy.policy import Policy
from trainables.core.trust import doubts_of, refuse
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.matches.play_matches import play_matches
from trainables.runtime.evaluation.matches.seats import against, checked_seats, groups_of
from trainables.runtime.evaluation.needed_trust import POLICY, stored_doubts
from trainables.runtime.evaluation.watch import Outcome, Watch

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.commands.evaluation.human.table import HumanTable
    from trainables.core.data.agents_episode import AgentsEpisode
    from trainables.runtime.envs.multi_agent.vector_env import AgentGroup

_SHOWN_ALIKE = ("action_mask_key", "centralized_critic")


class _OwnReturns(AgentsLog):
    """A table of episodes in which a return is that of one policy's agent."""

    def __init__(self, policy_id: str, others: Sequence[Watch]):
        super().__init__(others)
        self._policy_id = policy_id

    def ended(self, slot: int, episode: AgentsEpisode, outcome: Outcome) -> None:
        own = [r for (_, acting), r in episode.agent_rewards.items() if acting == self._policy_id]
        super().ended(slot, episode, replace(outcome, total=float(sum(own))))


@dataclass(frozen=True)
class _Player:
    """A policy with what it plays in.

    Attributes:
        policy_id: Its id.
        folder: Where it is.
        policy: The policy.
        beside: The folders of the policies in the same place, itself too, by id.
        told: How these played together in training, as their metadata have it.
        config: The environment, how agents are shown it, and slots.
        environment: The name of the environment.
        env_config: What that is made with.
        explore: Whether actions are sampled.
    """

    policy_id: str
    folder: Path
    policy: Policy
    beside: Mapping[str, Path]
    told: Mapping[str, Any]
    config: AlgorithmConfig
    environment: str
    env_config: dict[str, Any] | None
    explore: bool


def evaluate_against(
    source: PolicySource,
    who: str,
    *,
    seats: Sequence[str],
    policy_id: str | None,
    episodes: int,
    seed: int,
    env: str | None,
    env_config: dict[str, Any] | None,
    explore: bool | None,
    num_envs: int | None,
    max_steps: int | None,
    algo: str | None,
    trust: Collection[str],
    trace: Path | None,
    progress: Console | None,
    terminal: Console | None,
) -> Evaluation:
    """Evaluate a policy against an opponent; see `evaluate_folder`.

    Raises:
        ExperimentError: No such policy is there, several are, or the opponent is none.
        LeftEarly: A human left before a game had ended.
        ConfigError: A policy is damaged or names code that is not trusted, or seats or spaces do
            not fit, or a script did what is not allowed.
    """
    if who == HUMAN:
        if num_envs not in (None, 1):
            raise ExperimentError(
                f"--num-envs {num_envs}: a human plays one game at a time; allowed: 1"
            )
        num_envs = 1
    player = _player(source, policy_id, env, env_config, explore, num_envs, trust)
    trained_by = player.policy.metadata.get("algorithm")
    if algo is not None and algo not in names_of(player.policy):
        raise ExperimentError(f"{player.folder} was trained by {trained_by}, not by {algo}")
    opponent = found_opponent(who, player.beside, trust)
    groups = groups_of(player.config)
    taken, notes = _seats(player, groups, seats)
    about = {
        "policy": str(player.folder),
        "algorithm": trained_by,
        "env": player.environment,
        "env_config": player.env_config,
        "seed": seed,
        "num_envs": player.config.num_envs_per_env_runner,
        "explore": player.explore,
        "episodes": episodes,
        "opponent": who,
        "seats": [str(seat) for seat in taken],
    }
    with ExitStack() as stack:
        table: HumanTable | None = None
        shown: list[Watch] = []
        if opponent is None:
            table = _table(terminal, groups, taken, episodes, player)
            opponent = table.policy_class()
        elif progress is not None:
            shown = [stack.enter_context(shown_progress(episodes, progress))]
        log = _OwnReturns(player.policy_id, shown)
        watches: list[AgentsWatch] = [log] if table is None else [log, table]
        if trace is not None:
            from experiments.commands.evaluation.agents_trace import AgentsTrace

            watches.append(stack.enter_context(AgentsTrace(trace, about)))
        # Who types ends a game there: a signal that is only noted would not end the waiting.
        stopped = stack.enter_context(stopped_by_ctrl_c()) if table is None else lambda: False
        start = time.perf_counter()
        matches = play_matches(
            player.config,
            player.policy,
            opponent,
            num_episodes=episodes,
            seed=seed,
            explore=player.explore,
            seats=taken,
            policy_id=player.policy_id,
            name=who,
            time_limit=max_steps,
            watches=watches,
            stopped=stopped,
        )
        wall_s = time.perf_counter() - start
    has_left, ended = table is not None and table.has_left, len(log.log)
    if not ended:
        if has_left:
            raise LeftEarly("You left before a game had ended.")
        raise KeyboardInterrupt
    if has_left:
        notes.append(f"You left after {ended} of {episodes} games.")
    else:
        notes += notes_of(ended, episodes, filmed_apart=False, left_out=[])
    return Evaluation(
        source,
        trained_by,
        player.environment,
        player.env_config,
        seed,
        player.config.num_envs_per_env_runner,
        player.explore,
        log.log.episodes,
        ended if has_left else episodes,
        wall_s,
        notes=notes,
        modules=log.modules,
        agents=log.agents,
        versus=Versus(player.policy_id, who, matches),
    )


def _player(
    source: PolicySource,
    policy_id: str | None,
    env: str | None,
    env_config: dict[str, Any] | None,
    explore: bool | None,
    num_envs: int | None,
    trust: Collection[str],
) -> _Player:
    """Return the policy that is judged, with what it plays in; see `evaluate_against`."""
    beside, told = stored_agents(source)
    if policy_id is None:
        policy_id = chosen_policy(source, beside, told.get("league"), "--policy ID")
    elif policy_id not in beside:
        raise ExperimentError(
            f"--policy {policy_id}: {source.folder} holds no such policy; there are "
            f"{', '.join(beside)}"
        )
    folder = beside[policy_id]
    trust = trust_in(folder, POLICY, trust)
    if env is None:  # networks and environment in one error
        refuse(stored_doubts(folder), trust, str(folder))
    policy = Policy.load(folder, trust=trust)
    environment, made_with, settings = environment_of(
        policy.metadata, source.folder, env, env_config, trust
    )
    alike = AlgorithmConfig.check({name: told[name] for name in _SHOWN_ALIKE if name in told})
    refuse(doubts_of(AlgorithmConfig, alike), trust, str(folder))
    config = AlgorithmConfig.from_dict(
        {
            **alike,
            **settings,
            "env_config": made_with or {},
            "num_envs_per_env_runner": num_envs or settings["num_envs_per_env_runner"],
            "policies": {policy_id: None},  # makes any environment one of several agents
        }
    )
    if explore is None:
        own = (told["policies"].get(policy_id) or {}).get("config") or {}
        explore = bool(own.get("explore", config.explore))
    return _Player(policy_id, folder, policy, beside, told, config, environment, made_with, explore)


def _seats(
    player: _Player, groups: Sequence[AgentGroup], asked: Sequence[str]
) -> tuple[list[Any], list[str]]:
    """Return the agents that the policy acts for in turn, and what is to be known of that."""
    fitting = checked_seats(groups, player.policy, asked or None)
    if asked:
        return fitting, []
    agents = [agent for group in groups for agent in group.agents]
    trained = trained_for(player.told, player.policy_id, agents)
    taken = [seat for seat in fitting if seat in trained] or fitting
    left_out = [str(seat) for seat in fitting if seat not in taken]
    if not left_out:
        return taken, []
    return taken, [
        f"{player.policy_id} was trained as {', '.join(map(str, taken))} and plays only there; "
        f"--seat {left_out[0]} chooses another agent."
    ]


def _table(
    terminal: Console | None,
    groups: Sequence[AgentGroup],
    seats: Sequence[Any],
    episodes: int,
    player: _Player,
) -> HumanTable:
    """Return where a human plays.

    Raises:
        ExperimentError: There is no terminal, or actions cannot be typed.
    """
    from experiments.commands.evaluation.human.table import HumanTable
    from experiments.commands.evaluation.human.typed_action import check_can_be_typed

    if terminal is None:
        raise ExperimentError(f"--opponent {HUMAN}: needs a terminal for your input")
    for group in against(groups, seats):
        check_can_be_typed(group.action_space, group.agents[0])
    return HumanTable(terminal, episodes, player.policy_id, player.config.action_mask_key)
