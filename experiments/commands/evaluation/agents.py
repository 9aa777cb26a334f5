"""Play episodes of several agents with the policies that training left in a folder."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.evaluated import (
    Evaluation,
    notes_of,
    shown_progress,
    stopped_by_ctrl_c,
)
from experiments.commands.evaluation.played_agents import played_agents
from experiments.commands.evaluation.policy_sources import PolicySource
from experiments.errors import ExperimentError
from trainables.runtime.evaluation.agents import evaluate_agents
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.watch import EpisodeLog, Outcome, Watch

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.core.data.agents_episode import AgentsEpisode
    from trainables.runtime.envs.multi_agent.vector_env import AgentGroup


class AgentsLog(AgentsWatch):
    """A table of the episodes that have ended, and what agents returned in them.

    Args:
        others: Who else is told of episodes.

    Attributes:
        log: The episodes.
        modules: Returns of the agents that each policy acted for, by its id.
        agents: Returns by agent.
    """

    def __init__(self, others: Sequence[Watch] = ()):
        self.log = EpisodeLog()
        self._told = [self.log, *others]
        self.modules: dict[str, list[float]] = {}
        self.agents: dict[str, list[float]] = {}

    def begin(self, groups: Sequence[AgentGroup], seeds: Sequence[int]) -> None:
        for watch in self._told:
            watch.begin(seeds, share=False)

    def ended(self, slot: int, episode: AgentsEpisode, outcome: Outcome) -> None:
        for watch in self._told:
            watch.ended(slot, outcome)
        for (agent, policy_id), total in episode.agent_rewards.items():
            self.modules.setdefault(policy_id, []).append(total)
            self.agents.setdefault(str(agent), []).append(total)


def evaluate_agents_of(
    source: PolicySource,
    *,
    episodes: int,
    seed: int,
    env: str | None,
    env_config: dict[str, Any] | None,
    explore: bool | None,
    num_envs: int | None,
    max_steps: int | None,
    algo: str | None,
    trust: Collection[str],
    policy_mapping: str | None,
    videos: Sequence[Path],
    trace: Path | None,
    progress: Console | None,
) -> Evaluation:
    """Evaluate policies that act for several agents; see `evaluate_folder`.

    Raises:
        ExperimentError: A policy is missing.
        ConfigError: A policy is damaged, or names code that is not trusted; the mapping was a
            function that cannot be found again; or the environment cannot be filmed.
    """
    played = played_agents(
        source,
        env=env,
        env_config=env_config,
        explore=explore,
        num_envs=num_envs,
        trust=trust,
        policy_mapping=policy_mapping,
    )
    config, trained_by = played.config, played.trained_by
    if algo is not None and algo not in played.names:
        raise ExperimentError(f"{source.folder} was trained by {trained_by}, not by {algo}")
    if videos:
        from trainables.runtime.evaluation.agents_video import rendering

        config = rendering(config)
    about = {
        "policy": str(source.folder),
        "algorithm": trained_by,
        "env": played.environment,
        "env_config": played.env_config,
        "seed": seed,
        "num_envs": config.num_envs_per_env_runner,
        "explore": config.explore,
        "episodes": episodes,
    }
    with ExitStack() as stack:
        shown = (
            [] if progress is None else [stack.enter_context(shown_progress(episodes, progress))]
        )
        log = AgentsLog(shown)
        watches: list[AgentsWatch] = [log]
        if trace is not None:
            from experiments.commands.evaluation.agents_trace import AgentsTrace

            watches.append(stack.enter_context(AgentsTrace(trace, about)))
        if videos:
            from trainables.runtime.evaluation.agents_video import AgentsVideo

            films = AgentsVideo(videos[:episodes], played.environment)
            watches.append(stack.enter_context(closing(films)))
        stopped = stack.enter_context(stopped_by_ctrl_c())
        start = time.perf_counter()
        evaluate_agents(
            config,
            played.policies,
            num_episodes=episodes,
            seed=seed,
            time_limit=max_steps,
            watches=watches,
            stopped=stopped,
        )
        wall_s = time.perf_counter() - start
    if not len(log.log):
        raise KeyboardInterrupt
    return Evaluation(
        source,
        trained_by,
        played.environment,
        played.env_config,
        seed,
        config.num_envs_per_env_runner,
        config.explore,
        log.log.episodes,
        episodes,
        wall_s,
        {number: path for number, path in enumerate(videos[:episodes]) if path.is_file()},
        notes=notes_of(len(log.log), episodes, filmed_apart=False, left_out=[]),
        modules=log.modules,
        agents=log.agents,
    )
