"""Which of the policies in a folder plays against an opponent, and who the opponent is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from experiments.commands.evaluation.evaluated import HUMAN
from experiments.commands.evaluation.policy_sources import PolicySource, find_policy
from experiments.errors import ExperimentError
from experiments.spec.paths import shown_path
from trainables.core.checkpoint import load_part
from trainables.core.config.agents.agent_mapping import PolicyMapping
from trainables.core.config.agents.policy_specs import BUILT_IN
from trainables.core.config.policies import MAIN, LeagueConfig
from trainables.core.data.agents_episode import AgentsEpisode
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.core.suggestions import suggestion
from trainables.runtime.evaluation.agents import SEVERAL_AGENTS
from trainables.runtime.evaluation.matches.opponents import Opponent


def stored_agents(source: PolicySource) -> tuple[dict[str, Path], dict[str, Any]]:
    """Return the folders of a source's policies by id, and how these play together.

    Raises:
        ExperimentError: They act for one agent, or are exported graphs.
    """
    if source.is_graph:
        raise ExperimentError(
            f"{source.folder} is an exported graph and cannot play against an opponent; give a "
            "checkpoint, or an export with `tunescape export --format policy`"
        )
    folders = source.policies or {source.folder.name: source.folder}
    (metadata,) = load_part(next(iter(folders.values())), "policy", ["metadata"])
    told = metadata.get(SEVERAL_AGENTS)
    if told is None:
        raise ExperimentError(f"{source.folder} acts for one agent, which has no opponent")
    if not source.policies:  # a folder of its own may have any name
        learned = [m for m, spec in told["policies"].items() if spec["policy_class"] is None]
        if source.folder.name not in learned and len(learned) == 1:
            folders = {learned[0]: source.folder}
    return folders, told


def chosen_policy(
    source: PolicySource, policies: Collection[str], league: Mapping[str, Any] | None, how: str
) -> str:
    """Return the id of the policy that stands for all: the only one, or a league's first main one.

    Args:
        source: Where they come from, for errors.
        policies: The ids of those that are there.
        league: The setting `league` of their training.
        how: How one of them is named, for errors.

    Raises:
        ExperimentError: There are several.
    """
    if len(policies) == 1:
        return next(iter(policies))
    if league is not None:
        for learner, role in LeagueConfig.of(LeagueConfig.check(league)).learners.items():
            if role == MAIN and learner in policies:
                return learner
    raise ExperimentError(
        f"{source.folder} holds the policies {', '.join(policies)}; say which of them plays: {how}"
    )


def trained_for(told: Mapping[str, Any], policy_id: str, agents: Collection[Any]) -> list[Any]:
    """Return the agents that a policy was trained to act for.

    Args:
        told: How policies play together, as their metadata have it.
        policy_id: The policy.
        agents: All agents.

    Returns:
        The agents; none where nothing says so, or only a function.
    """
    mapping = told.get("policy_mapping_fn")
    if isinstance(mapping, str):
        return []
    given = [line_up["policies"] for line_up in mapping] if isinstance(mapping, list) else [mapping]
    found = []
    for agent in agents:
        for by_agent in given:
            try:
                acting = PolicyMapping(by_agent, [*told["policies"]])(agent, AgentsEpisode(0, 0))
            except ConfigError:  # an agent of another environment
                continue
            if acting == policy_id:
                found.append(agent)
                break
    return found


def found_opponent(
    who: str, policies: Mapping[str, Path], trust: Collection[str]
) -> Opponent | None:
    """Return what `--opponent` names.

    Args:
        who: As it was given.
        policies: The folders of the policies that are beside the one that is judged, by id.
        trust: Code that an opponent's networks may name.

    Returns:
        A policy; "random", "look_ahead" or `module:name`; None: a human.

    Raises:
        ExperimentError: It is nothing of this, or a folder without such a policy.
        ResultsError: It is a folder without a policy.
        ConfigError: It is damaged, or names code that is not trusted.
    """
    if who == HUMAN or who in BUILT_IN:
        return None if who == HUMAN else who
    if who in policies:
        return Policy.load(policies[who], trust=trust)
    path = Path(who).expanduser()
    if not path.exists() and len(path.parts) == 1:  # else it is said where there is no folder
        if ":" in who:
            return who
        beside = f", or a policy beside it: {', '.join(policies)}" if len(policies) > 1 else ""
        raise ExperimentError(
            f"--opponent {who}: allowed: {HUMAN}, {', '.join(BUILT_IN)}, module:name of a "
            f"class or function, the folder of a policy, checkpoint, trial or sweep{beside}"
            f"{suggestion(who, [HUMAN, *BUILT_IN, *policies])}"
        )
    source = find_policy(path)
    folders, told = stored_agents(source)
    example = shown_path(next(iter(folders.values())))
    chosen = chosen_policy(source, folders, told.get("league"), f"--opponent {example}")
    return Policy.load(folders[chosen], trust=trust)
