"""Evaluation of policies that act for several agents, without the algorithm that trained them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import PolicySpec, all_policies
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import env_name, make_slots
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv
from trainables.runtime.evaluation.agents_watch import AgentsWatch
from trainables.runtime.evaluation.endless import LONGEST_EVALUATED
from trainables.runtime.evaluation.plan import EvaluationPlan, part_seed
from trainables.runtime.evaluation.play_agents import play_agents
from trainables.runtime.evaluation.result import NOTHING, EvaluationResult
from trainables.runtime.random_streams import random_streams

SEVERAL_AGENTS = "several_agents"
"""Key of a policy's metadata: settings with which all policies of its run play together."""


def told_agents(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the settings that say who acts for whom, as a policy's metadata hold them.

    Args:
        config: That of evaluations.
    """
    specs = {}
    for policy_id, spec in all_policies(config).items():
        own = spec.config
        if not spec.is_fixed:
            explore = config.module_config(policy_id).explore
            own = {} if explore == config.explore else {"explore": explore}
        specs[policy_id] = dict(
            PolicySpec(spec.policy_class, spec.observation_space, spec.action_space, own)
        )
    return {
        "policies": specs,
        "policy_mapping_fn": config.policy_mapping_fn,
        "action_mask_key": config.action_mask_key,
        "centralized_critic": config.centralized_critic,
        "league": config.league,
    }


def evaluate_agents(
    config: AlgorithmConfig,
    policies: Mapping[str, Policy],
    *,
    num_episodes: int = 10,
    seed: int = 0,
    time_limit: int | None = None,
    watches: Sequence[AgentsWatch] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> EvaluationResult:
    """Play episodes with several agents; neither policies nor their filter statistics change.

    These are the episodes that `Algorithm.evaluate` plays if the algorithm's setting `seed` is this
    one and `evaluation_duration` is `num_episodes`, see `evaluate_policy`.

    Args:
        config: Says the environment, who acts for whom, `explore`, and how many slots are stepped
            together.
        policies: The policies with networks, by id.
        num_episodes: How many.
        seed: The seed of environments and exploration.
        time_limit: An episode longer than this is cut off: it counts as truncated.
        watches: What looks on.
        stopped: Asked before each step, perhaps set by a signal.

    Returns:
        What the parts gave that were played to the end: all, unless it was stopped.

    Raises:
        ConfigError: if the environment cannot be made, has but one agent, does not fit a policy or
            never ends.
    """
    root = random_streams(seed).evaluation
    plan = EvaluationPlan(num_episodes, "episodes", config.num_envs_per_env_runner)
    played: dict[int, EvaluationResult] = {}
    for part in plan.missing(played, 0.0):
        env = make_slots(config, config.env, config.env_config_for(training=False), part.num_slots)
        try:
            if not isinstance(env, AgentsVectorEnv):
                raise ConfigError(
                    f"env {env_name(config.env)!r} has one agent; allowed: one of several agents"
                )
            result = play_agents(
                config,
                policies,
                env,
                part_seed(root, part.number),
                first_episode=part.first_episode,
                max_steps_per_episode=max(LONGEST_EVALUATED, time_limit or 0),
                time_limit=time_limit,
                watches=watches,
                stopped=stopped,
                if_endless="or time_limit (--max-steps) cuts episodes off",
            )
        finally:
            env.close()
        if result is None:
            break
        played[part.number] = result
    return plan.result(played) or NOTHING
