"""Record episodes of several agents: policies that training left in a folder, or random actions."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.agents import AgentsLog
from experiments.commands.evaluation.evaluated import shown_progress, stopped_by_ctrl_c
from experiments.commands.evaluation.played_agents import PlayedAgents

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.runtime.evaluation.watch import EpisodeRecord


@dataclass(frozen=True)
class AgentsPlayed:
    """What was played and written.

    Attributes:
        episodes: Those that ended, in order.
        num_steps: Steps of agents that were written.
        wall_s: Seconds that playing took.
    """

    episodes: list[EpisodeRecord]
    num_steps: int
    wall_s: float


def record_played_agents(
    played: PlayedAgents,
    folder: Path,
    *,
    name: str,
    episodes: int,
    seed: int,
    max_steps: int | None,
    format_: str,
    progress: Console | None,
) -> AgentsPlayed:
    """Play and write episodes; see `record_folder`."""
    from trainables.runtime.evaluation.record_agents import record_agents

    with ExitStack() as stack:
        shown = (
            [] if progress is None else [stack.enter_context(shown_progress(episodes, progress))]
        )
        log = AgentsLog(shown)
        stopped = stack.enter_context(stopped_by_ctrl_c())
        start = time.perf_counter()
        recorded = record_agents(
            played.config,
            played.policies,
            folder,
            num_episodes=episodes,
            seed=seed,
            time_limit=max_steps,
            name=name,
            format=format_,
            watches=[log],
            stopped=stopped,
        )
        wall_s = time.perf_counter() - start
    return AgentsPlayed(log.log.episodes, recorded.num_steps, wall_s)


def random_agents(
    env: str, env_config: dict[str, Any] | None, num_envs: int
) -> PlayedAgents | None:
    """Return uniformly random actions of all agents; None: the environment has one."""
    from trainables.runtime.evaluation.record_agents import uniform_agents

    config = uniform_agents(env, env_config, num_envs_per_env_runner=num_envs)
    if config is None:
        return None
    return PlayedAgents(config, {}, env, env_config, None, set())
