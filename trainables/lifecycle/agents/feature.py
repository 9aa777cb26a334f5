"""Several agents as a feature: their environments, sampling, evaluation and policies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from trainables.core.config.agents.agent_mapping import PoliciesToTrain
from trainables.core.config.policies import check_policy_id
from trainables.core.features import Feature
from trainables.core.learning.shared_encoders import SharedEncoders
from trainables.lifecycle.agents import encoder_sharing


class Agents(Feature):
    """What an environment with several agents, or a setting of several agents, needs."""

    def module_slots(self, module_ids: Sequence[str], groups: Sequence[Any]) -> Any:
        """Return how many agents each module acts for; see `AgentModules`.

        Args:
            module_ids: The ids of the modules with networks.
            groups: The groups of agents of an environment.
        """
        from trainables.runtime.sampling.agents.modules import AgentModules

        return AgentModules(module_ids, groups)

    def policy_changes(self, algorithm: Any) -> Any:
        """Return what changes an algorithm's policies while it runs; see `PolicyChanges`."""
        from trainables.lifecycle.agents.policy_changes import PolicyChanges

        return PolicyChanges(algorithm)

    def module_spaces(
        self,
        config: Any,
        env: Any,
        of_data: Callable[[str], Any],
        module_ids: Collection[str],
    ) -> Any:
        """Return the spaces of each module; see `lifecycle.agents.spaces`."""
        from trainables.lifecycle.agents.spaces import module_spaces

        return module_spaces(config, env, of_data, module_ids)

    def spaces_of_all(self, config: Any, env: Any) -> Any:
        """Return the spaces of the only policy, which acts for all agents of an environment."""
        from trainables.lifecycle.agents.spaces import spaces_of_all

        return spaces_of_all(config, env)

    def actions(
        self, algorithm: Any, timestep: int | None, observations: Any, states: Any, how: Any
    ) -> Any:
        """Return actions by agent; see `Algorithm.compute_actions`."""
        from trainables.lifecycle.agents.actions import actions

        return actions(algorithm, timestep, observations, states, how)

    def encoders_among(
        self, groups: Sequence[Sequence[str]], policies: Mapping[str, Any]
    ) -> SharedEncoders:
        """Return the encoders that policies of a process have in common.

        Args:
            groups: Ids of policies with one encoder; others may not be in this process.
            policies: Those that are, by id.
        """
        return SharedEncoders([[m for m in group if m in policies] for group in groups], policies)

    def begin_with_loaded(
        self, config: Any, policies: Mapping[str, Any], restored: Collection[str]
    ) -> None:
        """Let policies begin with one encoder; see `encoder_sharing`."""
        encoder_sharing.begin_with_loaded(config, policies, restored)

    def go_on_with(
        self, config: Any, policies: Mapping[str, Any], *known: Collection[str], what: str | None
    ) -> None:
        """Let policies go on with one encoder; see `encoder_sharing`."""
        encoder_sharing.go_on_with(config, policies, *known, what=what)

    def check_given_weights(
        self, config: Any, policies: Mapping[str, Any], weights: Mapping[str, Any]
    ) -> None:
        """Check that weights are of one encoder; see `SharedEncoders.check_given`."""
        encoder_sharing.encoders_of(config, policies).check_given(weights)

    def trained_of(self, module_ids: Collection[str], policies_to_train: Any) -> list[str]:
        """Return those of the modules that learn which the setting `policies_to_train` names."""
        is_trained = PoliciesToTrain(policies_to_train, fixed=())
        return [module_id for module_id in module_ids if is_trained(module_id)]

    def chosen(self, **chosen: Any) -> Any:
        """Return which policies of a checkpoint are recovered, and how; see `Chosen`."""
        from trainables.lifecycle.agents.chosen_policies import Chosen

        return Chosen(**chosen)

    def check_policy_id(self, policy_id: Any, what: str) -> None:
        """Check an id that is to name a folder, too; see `check_policy_id`."""
        check_policy_id(policy_id, what)

    def make_slots(self, config: Any, *args: Any, **options: Any) -> Any:
        """Return slots with several agents; see `multi_agent.make.make_slots`."""
        from trainables.runtime.envs.multi_agent.make import make_slots

        return make_slots(config, *args, **options)

    def make_team_slots(self, env: Any, *args: Any, **options: Any) -> Any:
        """Return slots whose agents are one agent together; see `make_team_slots`."""
        from trainables.runtime.envs.multi_agent.make import make_team_slots

        return make_team_slots(env, *args, **options)

    def env_runner_class(self) -> type[Any]:
        """Return the class of env runners that step slots with several agents."""
        from trainables.runtime.sampling.agents.runner import AgentsEnvRunner

        return AgentsEnvRunner

    def play(self, *args: Any, **options: Any) -> Any:
        """Play one episode with several agents in every slot; see `play_agents`."""
        from trainables.runtime.evaluation.play_agents import play_agents

        return play_agents(*args, **options)


FEATURE = Agents()
