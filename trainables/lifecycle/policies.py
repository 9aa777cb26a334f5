"""`PolicySet`: the policies of an algorithm: how they are made, act, and are told of elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from trainables import registry
from trainables.core.callables import callable_name
from trainables.core.checkpoint import TRAINABLE
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.team import PLAYS_AS_TEAM
from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.policy.policy import Policy
from trainables.lifecycle import building
from trainables.lifecycle.spaces import Spaces
from trainables.runtime.envs.make import EnvName, env_name
from trainables.runtime.random_streams import draw_seed
from trainables.runtime.sampling.module_slots import module_seeds
from trainables.runtime.sampling.workers import policy_of


class PolicySet:
    """The policies of an algorithm, by module id.

    Args:
        algorithm: The algorithm.
    """

    def __init__(self, algorithm: Any):
        self._algorithm = algorithm

    def made(
        self,
        spaces: Mapping[str, Spaces],
        seed: np.random.SeedSequence,
        weights: Mapping[str, Any],
    ) -> dict[str, Policy]:
        """Return the policies that an algorithm begins with.

        Args:
            spaces: What each sees and does, by module id.
            seed: The root of the seeds of their initial weights.
            weights: By module id, those that they will be given, see `Policy`.

        Raises:
            ConfigError: if one has a memory, and its config none, or the other way round.
        """
        algorithm = self._algorithm
        seeds = module_seeds(algorithm.module_slots.module_ids, seed)
        policies = {}
        shelf = None
        if algorithm.config.policy_map_capacity is not None:
            shelf = feature("shelf").shelf_for(algorithm.config, len(seeds))
        for module_id, own_seed in seeds.items():
            policies[module_id] = building.make_policy(
                algorithm.config_of(module_id),
                spaces[module_id],
                building.of_module(module_id, algorithm.module_options),
                draw_seed(own_seed),
                weights.get(module_id),
                algorithm.policy_options(module_id),
            )
            if shelf is not None:
                shelf.add(policies[module_id])
        has_memory = bool(algorithm.config.resolve().state_stride)
        for module_id, policy in policies.items():
            if policy.is_recurrent != has_memory:  # what is learned from is cut into sequences
                raise ConfigError(
                    f"the module {module_id!r} and the setting model differ in whether there is a "
                    "memory (use_lstm, use_gru, use_attention); allowed: all modules have one, or "
                    "none has"
                )
        return policies

    # ------------------------------------------------------------------ actions

    def single_action(
        self, policy_id: str | None, timestep: int | None, observation: Any, state: Any, **how: Any
    ) -> Any:
        """Return one action; see `Algorithm.compute_single_action`."""
        policy = self._acting(policy_id)
        with self.exploring_at(policy, timestep):
            return policy.compute_single_action(observation, state, **how)

    def actions(
        self, policy_id: str | None, timestep: int | None, observations: Any, state: Any, **how: Any
    ) -> Any:
        """Return actions; see `Algorithm.compute_actions`."""
        has_keys = isinstance(observations, dict)
        if policy_id is None and has_keys and self._algorithm.config.is_multi_agent():
            return feature("agents").actions(self._algorithm, timestep, observations, state, how)
        policy = self._acting(policy_id)
        with self.exploring_at(policy, timestep):
            if not has_keys or _is_batch(observations, policy):
                return policy.compute_actions(observations, state, **how)
            return feature("calls").keyed_actions(policy, observations, state, **how)

    def _acting(self, policy_id: str | None) -> Policy:
        asked = DEFAULT_MODULE_ID if policy_id is None else policy_id
        return policy_of(self._algorithm.policies, asked)

    def exploring_at(self, policy: Policy, timestep: int | None) -> AbstractContextManager[None]:
        """Return what exploring means within it for a policy.

        Args:
            policy: One of the algorithm's.
            timestep: As the schedules say for so many environment steps; None: as now.
        """
        if timestep is None:
            return nullcontext()
        algorithm = self._algorithm
        [policy_id] = [m for m, own in algorithm.policies.items() if own is policy]
        exploration = building.of_module(policy_id, algorithm.exploration_at, timestep)
        return policy.exploring(**exploration)

    # ------------------------------------------------------------------ weights

    def set_weights(self, weights: dict[str, dict[str, np.ndarray]]) -> None:
        """Set weights here, not yet elsewhere; see `Algorithm.set_weights`."""
        algorithm = self._algorithm
        if algorithm.config.shared_encoders:
            feature("agents").check_given_weights(
                algorithm.config, algorithm.trained_policies, weights
            )
        for policy_id, policy_weights in weights.items():
            policy_of(algorithm.policies, policy_id).set_weights(policy_weights)

    def go_on_with_encoders(self, *known: Collection[str], what: str | None = None) -> None:
        """Let policies that have one encoder go on with one.

        Args:
            known: Ids of those whose encoders are worth more, the most first.
            what: Where the encoders of the first of `known` come from: a warning says so if they
                differ.
        """
        algorithm = self._algorithm
        if algorithm.config.shared_encoders:
            feature("agents").go_on_with(
                algorithm.config, algorithm.trained_policies, *known, what=what
            )

    # ------------------------------------------------------------------ folders

    def save(self, policy_id: str, folder: str, metadata: dict[str, Any]) -> Path:
        """Write a policy to a folder.

        Args:
            policy_id: Its id.
            folder: The folder, made if missing.
            metadata: What its folder says besides, see `metadata`.
        """
        policy = policy_of(self._algorithm.policies, policy_id)
        policy.metadata = metadata
        return policy.save(folder)

    def write_model(self, policy_id: str, folder: str, onnx: int | None, *, with_env: bool) -> Path:
        """Write a policy as one graph; see `Algorithm.export_policy_model`."""
        algorithm = self._algorithm
        policy = policy_of(algorithm.policies, policy_id)
        policy.metadata = self.metadata()
        played = algorithm.config if algorithm.config.needs_env else self._evaluated
        is_compared = with_env and algorithm.agent_groups is None
        written: Path = feature("export").write_model(
            policy, Path(folder), onnx, played if is_compared else None
        )
        return written

    def metadata(self) -> dict[str, Any]:
        """Return where the policies come from, and how they play."""
        algorithm = self._algorithm
        config = algorithm.config
        return {
            "algorithm": registry.name_of(type(algorithm)),
            **_own_trainable(type(algorithm)),
            "env": _named(config.env),
            "env_config": config.env_config_for(training=False),
            "evaluation": self._evaluation_settings(),
            **self._several_agents(),
            **({PLAYS_AS_TEAM: config.action_mask_key} if config.plays_as_team else {}),
            "num_env_steps_sampled_lifetime": algorithm.num_env_steps_sampled,
            "tunescape_version": registry.VERSION,
        }

    @property
    def _evaluated(self) -> Any:
        return self._algorithm.config.get_evaluation_config_object()

    def _evaluation_settings(self) -> dict[str, Any]:
        """Return what `tunescape evaluate` needs to play, or estimate, what `evaluate` does."""
        config = self._evaluated
        given = self._algorithm.config.evaluation_config
        return {
            "env": _named(config.env),
            "env_config": config.env_config_for(training=False),
            "explore": config.explore,
            "num_envs": given.get("num_envs_per_env_runner"),
            "gamma": config.gamma,
        }

    def _several_agents(self) -> dict[str, Any]:
        """Return what plays with several agents: all policies, and which acts for whom."""
        algorithm = self._algorithm
        if algorithm.agent_groups is None and not algorithm.config.is_multi_agent():
            return {}
        told: dict[str, Any] = feature("evaluation").told_agents(self._evaluated)
        return told


def _named(env: EnvName) -> str | None:
    return None if env is None else env_name(env)


def _own_trainable(algorithm: type[Any]) -> dict[str, Any]:
    """Return the name of a class of one's own, whose module may register the environment."""
    name = callable_name(algorithm)
    findable = "<" not in name and not name.startswith(("trainables.", "__main__:"))
    return {TRAINABLE: name} if findable else {}


def _is_batch(observations: dict[Any, Any], policy: Policy) -> bool:
    """Tell whether a dict is a batch of Dict observations, not observations by some other key."""
    space = policy.observation_space
    return isinstance(space, gym.spaces.Dict) and set(observations) == set(space.spaces)
