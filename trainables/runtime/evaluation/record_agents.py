"""Episodes of several agents become recorded experience: each agent's rows, policy by policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainables.core.config.agents.policy_specs import RANDOM
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import EnvName, env_name, make_slots
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv
from trainables.runtime.evaluation.agents import evaluate_agents
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.result import EvaluationResult
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.module_writers import ModuleWriters
from trainables.runtime.offline.source import EpisodeWriter
from trainables.runtime.offline.writers import make_writer
from trainables.runtime.sampling.agents.agents_recorder import AgentsRecorder


class _Recording(AgentsRecorder, AgentsWatch):
    """A recorder that looks on."""


class AgentsRecorded(NamedTuple):
    """What was recorded.

    Attributes:
        played: The episodes that ended, or all until it was stopped.
        num_steps: Steps of agents that were written.
    """

    played: EvaluationResult
    num_steps: int


def record_agents(
    config: AlgorithmConfig,
    policies: Mapping[str, Policy],
    folder: Path,
    *,
    num_episodes: int,
    seed: int = 0,
    time_limit: int | None = None,
    name: str,
    format: str = "parquet",
    watches: Sequence[AgentsWatch] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> AgentsRecorded:
    """Play episodes and write them: whole files or none, a folder for each policy that acted.

    These are the episodes of `evaluate_agents`.

    Args:
        config: Says the environment, who acts for whom, `explore`, and how many slots are stepped
            together.
        policies: The policies with networks, by id.
        folder: Where the policies' folders will lie.
        num_episodes: How many.
        seed: Their seed.
        time_limit: Longer episodes are cut off.
        name: Tells the episodes and files of several recordings in a folder apart.
        format: `parquet` or `json`.
        watches: What else looks on.
        stopped: Asked before each step, perhaps set by a signal.

    Raises:
        ConfigError: The environment does not work, or the format cannot tell agents apart.
        DataError: The folder cannot be written.
    """
    if format == "minari":
        raise ConfigError(
            "the format 'minari' is not possible with several agents: its data sets have no place "
            "for agents' ids; allowed: parquet, json"
        )
    if config.centralized_critic:
        raise ConfigError(
            "centralized_critic = True is not possible with recording: what an agent is shown "
            "would be all that everyone sees; allowed: policies that were trained without it"
        )

    def writer_of(module_id: str, spaces: DataSpaces) -> EpisodeWriter:
        return make_writer(
            folder / module_id,
            spaces,
            format=format,
            prefix=f"data-{name}",
            env_id=env_name(config.env),
        )

    spaces_of: dict[str, DataSpaces] = {}
    writers = ModuleWriters(writer_of, spaces_of)

    def write(episode: Episode, spaces: DataSpaces) -> None:
        spaces_of[episode.module_id] = spaces
        writers.write(episode)

    recorder = _Recording(write, name)
    try:
        played = evaluate_agents(
            config,
            policies,
            num_episodes=num_episodes,
            seed=seed,
            time_limit=time_limit,
            watches=[recorder, *watches],
            stopped=stopped,
        )
    finally:
        writers.close()
    return AgentsRecorded(played, recorder.num_steps)


def uniform_agents(
    env: EnvName, env_config: dict[str, Any] | None, **settings: Any
) -> AlgorithmConfig | None:
    """Return a config in which all agents act uniformly at random; None: there is one agent.

    Args:
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        settings: Others.

    Raises:
        ConfigError: if the environment cannot be made.
    """
    config = AlgorithmConfig.from_dict({"env": env, "env_config": env_config or {}, **settings})
    made = make_slots(config, env, env_config)
    try:
        if not isinstance(made, AgentsVectorEnv):
            return None
        groups = made.groups
    finally:
        made.close()
    ids = [RANDOM] if len(groups) == 1 else [f"{RANDOM}_{n}" for n in range(len(groups))]
    pairs = zip(ids, groups, strict=True)
    mapping = {str(agent): policy_id for policy_id, group in pairs for agent in group.agents}
    return config.multi_agent(
        policies={policy_id: {"policy_class": RANDOM} for policy_id in ids},
        policy_mapping_fn=mapping,
    )
