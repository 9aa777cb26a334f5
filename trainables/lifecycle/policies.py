"""What an algorithm offers through its policies: actions, weights and exported folders."""

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
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.data.team import PLAYS_AS_TEAM
from trainables.core.features import feature
from trainables.core.networks.memory import AnyState
from trainables.core.own_folders import may_note, note_own
from trainables.core.policy.policy import Policy
from trainables.lifecycle.agents import encoder_sharing
from trainables.lifecycle.agents.actions import dealt_agents, joined_actions, only
from trainables.lifecycle.built_trainable import BuiltTrainable
from trainables.lifecycle.folder_trainable import running
from trainables.runtime.envs.make import EnvName, env_name
from trainables.runtime.sampling.workers import policy_of


class PolicyAccess(BuiltTrainable):
    """Base of `Algorithm`: acts, gives and takes weights, exports."""

    @running
    def compute_single_action(
        self,
        observation: Any = None,
        state: AnyState = None,
        *,
        policy_id: str | None = None,
        timestep: int | None = None,
        **options: Any,
    ) -> Any:
        """Return the action for one observation; more options: `Policy.compute_single_action`.

        Args:
            observation: Raw; None if `input_dict` holds it.
            state: Of a policy that has one.
            policy_id: Which policy acts; None: `default_policy`.
            timestep: Explore as the schedules say for so many environment steps; None: as now.
            options: `prev_action`, `prev_reward`, `info`, `input_dict`, `full_fetch`, `explore`,
                `episode`, `unsquash_action`, `clip_action`.

        Raises:
            KeyError: if there is no such policy; it names those there are.
        """
        asked = DEFAULT_MODULE_ID if policy_id is None else policy_id
        policy = policy_of(self.policies, asked)
        with self._exploring_at(policy, timestep):
            return policy.compute_single_action(observation, state, **options)

    @running
    def compute_actions(
        self,
        observations: Any = None,
        state: Any = None,
        *,
        policy_id: str | None = None,
        timestep: int | None = None,
        **options: Any,
    ) -> Any:
        """Return actions for a batch, or for a dict of observations; see `Policy.compute_actions`.

        Args:
            observations: A batch, or observations by keys of yours. Of several policies, where
                `policy_id` is None, a dict is by agent: each agent's policy acts, as
                `policy_mapping_fn` says it of an episode of number 0.
            state: Of a policy that has one; with keys, a state for each, or for some.
            policy_id: Which policy acts; None: each agent's, or else `default_policy`.
            timestep: Explore as the schedules say for so many environment steps; None: as now.
            options: `prev_action`, `prev_reward` (with keys: by the same keys, or batches in their
                order), `info`, `input_dict`, `full_fetch`, `explore`, `episodes`,
                `unsquash_actions`, `clip_actions`.

        Returns:
            Of a dict with other keys than the observation space's: actions by its keys; with
            `full_fetch`, or of a policy that has a state, also states by its keys, and what else
            there is as batches in the order of its keys; by policy id, where each agent's acts.

        Raises:
            KeyError: if there is no such policy; it names those there are.
            ConfigError: if an agent has no policy, or one that is written by hand.
        """
        if policy_id is None and isinstance(observations, dict) and self.config.is_multi_agent():
            return self._agents_actions(observations, state, timestep, options)
        asked = DEFAULT_MODULE_ID if policy_id is None else policy_id
        policy = policy_of(self.policies, asked)
        with self._exploring_at(policy, timestep):
            if not isinstance(observations, dict) or _is_batch(observations, policy):
                return policy.compute_actions(observations, state, **options)
            return feature("calls").keyed_actions(policy, observations, state, **options)

    def _agents_actions(
        self,
        observations: dict[Any, Any],
        states: Any,
        timestep: int | None,
        options: dict[str, Any],
    ) -> Any:
        """Return actions by agent; see `compute_actions`."""
        dealt = dealt_agents(self.config, observations, self.policies)
        results = {}
        for policy_id, agents in dealt.items():
            policy = self.policies[policy_id]
            with self._exploring_at(policy, timestep):
                results[policy_id] = feature("calls").keyed_actions(
                    policy,
                    {agent: observations[agent] for agent in agents},
                    only(states, agents),
                    **{name: only(value, agents) for name, value in options.items()},
                )
        return joined_actions(results, observations)

    def _exploring_at(self, policy: Policy, timestep: int | None) -> AbstractContextManager[None]:
        """Return what a policy's exploring means within it."""
        if timestep is None:
            return nullcontext()
        [policy_id] = [m for m, own in self.policies.items() if own is policy]
        return policy.exploring(**self._of_module(policy_id, self.exploration_at, timestep))

    def exploration_at(self, num_env_steps: int) -> dict[str, Any]:
        """Return what schedules of exploration say, if any, as `Policy.set_exploration` takes it.

        Args:
            num_env_steps: Environment steps since the trial began.
        """
        return {}

    def get_weights(
        self, policies: Collection[str] | None = None
    ) -> dict[str, dict[str, np.ndarray]]:
        """Return copies of the weights by policy id; None: of all policies."""
        return {p: policy_of(self.policies, p).get_weights() for p in policies or self.policies}

    @running
    def set_weights(self, weights: dict[str, dict[str, np.ndarray]]) -> None:
        """Set weights by policy id, here, on learners and on all env runners.

        Policies with the encoder of one of them (`shared_encoders`) take that over.

        Raises:
            ConfigError: if names or shapes are others, or two that have one encoder are given
                different ones.
        """
        encoder_sharing.encoders_of(self.config, self.trained_policies).check_given(weights)
        for policy_id, policy_weights in weights.items():
            policy_of(self.policies, policy_id).set_weights(policy_weights)
        self._weights_were_set(weights)
        self.env_runners.sync_weights()

    @running
    def add_policy(
        self,
        policy_id: str,
        policy_cls: Any = None,
        policy: Policy | None = None,
        *,
        observation_space: gym.Space | None = None,
        action_space: gym.Space | None = None,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        policy_state: Mapping[str, Any] | None = None,
        policy_mapping_fn: Any = None,
        policies_to_train: Any = None,
        shared_encoders: Any = None,
        evaluation_workers: bool = True,
        workers: Any = None,
    ) -> Policy | None:
        """Add a policy, which acts from the next sample on, and is in the next checkpoint.

        Args:
            policy_id: An id that no policy of this run has. That of one that was removed is free.
            policy_cls: None: a policy that learns; else one written by hand, see `PolicySpec`.
            policy: One whose weights and filter are taken over, e.g. `Policy.load` of another run.
            observation_space: What its agents see; None: what the agents see that are mapped to it.
            action_space: What its agents do, likewise.
            config: Settings in which it differs.
            policy_state: Of `Policy.get_state`, taken over.
            policy_mapping_fn: The mapping from here on; None: as before.
            policies_to_train: Which policies are trained from here on; None: as before, so that the
                new one is trained unless the setting names others.
            shared_encoders: Which policies have one encoder from here on; None: as before, so that
                the new one is among them if the setting is True. It takes over what they have
                learned, also where `policy` or `policy_state` has other weights of it.
            evaluation_workers: Only True: evaluations play with the policies that act.
            workers: Only None: all env runners have it.

        Returns:
            The learner's policy; None of one written by hand.

        Raises:
            ConfigError: if it cannot be added, with the reason.
        """
        added: Policy | None = self.policy_changes.add(
            policy_id,
            policy_cls,
            policy,
            observation_space=observation_space,
            action_space=action_space,
            config=config,
            policy_state=policy_state,
            policy_mapping_fn=policy_mapping_fn,
            policies_to_train=policies_to_train,
            shared_encoders=shared_encoders,
            evaluation_workers=evaluation_workers,
            workers=workers,
        )
        return added

    @running
    def remove_policy(
        self,
        policy_id: str = DEFAULT_MODULE_ID,
        *,
        policy_mapping_fn: Any = None,
        policies_to_train: Any = None,
        evaluation_workers: bool = True,
    ) -> None:
        """Remove a policy. Where it still acts, it does so until these episodes end.

        One that is left alone with an encoder (`shared_encoders`) goes on with it by itself.

        Args:
            policy_id: Its id.
            policy_mapping_fn: The mapping from here on; None: as before.
            policies_to_train: Which policies are trained from here on; None: as before, but for it.
            evaluation_workers: Only True: evaluations play with the policies that act.

        Raises:
            KeyError: if there is no such policy, naming those there are.
            ConfigError: if it cannot be removed, with the reason.
        """
        self.policy_changes.remove(
            policy_id,
            policy_mapping_fn=policy_mapping_fn,
            policies_to_train=policies_to_train,
            evaluation_workers=evaluation_workers,
        )

    def change_policies(
        self, config: AlgorithmConfig, states: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Go on with other policies: what `add_policy`, `remove_policy` and a league come to.

        Args:
            config: This one's, with other policies.
            states: The states of policies that are new, by id; of others the initial one.
        """
        self.policy_changes.become(config, states)

    @property
    def policy_changes(self) -> Any:
        """What changes policies while this runs, a `PolicyChanges`; made when it is first used."""
        if self._policy_changes is None:
            self._policy_changes = feature("agents").policy_changes(self)
        return self._policy_changes

    def export_policy_checkpoint(self, export_dir: str, policy_id: str = DEFAULT_MODULE_ID) -> Path:
        """Write a policy to a folder that `Policy.load` serves without Ray or an environment."""
        is_mine = may_note(Path(export_dir), "policy")
        folder = self._save_policy(policy_id, export_dir, self._policy_metadata())
        if is_mine:
            note_own(folder)
        return folder

    def _save_policy(self, policy_id: str, folder: str, metadata: dict[str, Any]) -> Path:
        policy = policy_of(self.policies, policy_id)
        policy.metadata = metadata
        return policy.save(folder)

    def _policy_metadata(self) -> dict[str, Any]:
        """Return where the policies come from."""
        return {
            "algorithm": registry.name_of(type(self)),
            **self._own_trainable(),
            "env": self._named(self.config.env),
            "env_config": self.config.env_config_for(training=False),
            "evaluation": self._evaluation_settings(),
            **self._several_agents(),
            **({PLAYS_AS_TEAM: self.config.action_mask_key} if self.config.plays_as_team else {}),
            "num_env_steps_sampled_lifetime": self.num_env_steps_sampled,
            "tunescape_version": registry.VERSION,
        }

    @staticmethod
    def _named(env: EnvName) -> str | None:
        return None if env is None else env_name(env)

    def _own_trainable(self) -> dict[str, Any]:
        """Return the name of a class of one's own, whose module may register the environment."""
        name = callable_name(type(self))
        findable = "<" not in name and not name.startswith(("trainables.", "__main__:"))
        return {TRAINABLE: name} if findable else {}

    @property
    def _evaluated(self) -> AlgorithmConfig:
        return self.config.get_evaluation_config_object()

    def _evaluation_settings(self) -> dict[str, Any]:
        """Return what `tunescape evaluate` needs to play, or estimate, what `evaluate` does."""
        config = self._evaluated
        return {
            "env": self._named(config.env),
            "env_config": config.env_config_for(training=False),
            "explore": config.explore,
            "num_envs": self.config.evaluation_config.get("num_envs_per_env_runner"),
            "gamma": config.gamma,
        }

    def _several_agents(self) -> dict[str, Any]:
        """Return what plays with several agents: all policies, and which acts for whom."""
        if self.agent_groups is None and not self.config.is_multi_agent():
            return {}
        told: dict[str, Any] = feature("evaluation").told_agents(self._evaluated)
        return told

    def export_policy_model(
        self,
        export_dir: str,
        policy_id: str = DEFAULT_MODULE_ID,
        onnx: int | None = None,
        *,
        with_env: bool = True,
    ) -> Path:
        """Write a policy as one graph from observations to actions: `model.pt2` or `policy.onnx`.

        It is compared with the policy before it is written; see `core/export/torch_program.py`.

        Args:
            export_dir: Made if missing.
            policy_id: Which policy.
            onnx: An ONNX opset version; None writes a `torch.export` program.
            with_env: Compare on observations of the environment, too, not only of its space. With
                several agents it is on those of the space alone.

        Returns:
            The file. Beside it a JSON file says what it takes and gives.

        Raises:
            ConfigError: if the policy cannot be exported so, a library is missing, or the graph
                acts otherwise than the policy.
        """
        policy = policy_of(self.policies, policy_id)
        policy.metadata = self._policy_metadata()
        played = self.config if self.config.needs_env else self._evaluated
        has_one_agent = self.agent_groups is None
        target = Path(export_dir)
        written: Path = feature("export").write_model(
            policy, target, onnx, played if with_env and has_one_agent else None
        )
        return written

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        """Write each format; of several policies each to a folder of its id."""
        exported: dict[str, str] = feature("export").write_each(self, export_formats, export_dir)
        return exported


def _is_batch(observations: dict[Any, Any], policy: Policy) -> bool:
    """Tell whether a dict is a batch of Dict observations, not observations by some other key."""
    space = policy.observation_space
    return isinstance(space, gym.spaces.Dict) and set(observations) == set(space.spaces)
