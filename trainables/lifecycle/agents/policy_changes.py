"""`PolicyChanges`: policies that come and go while an algorithm runs."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import gymnasium as gym

from trainables.core.callables import callable_name
from trainables.core.config.agents.shared_encoders import learning_policies, without_others
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import (
    PolicySpec,
    all_policies,
    check_policy_id,
    encoder_groups,
)
from trainables.core.config.settings import CODE
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.policy.fixed_policy import make_fixed_policy
from trainables.core.policy.policy import Policy
from trainables.core.policy.shelf import shelf_for
from trainables.core.trust import Doubt, doubts_of, refuse, resolved, untrusted_names
from trainables.lifecycle import building
from trainables.lifecycle.agents import encoder_sharing
from trainables.lifecycle.building import of_module
from trainables.lifecycle.spaces import Spaces
from trainables.runtime.random_streams import draw_seed, random_streams
from trainables.runtime.sampling.agents.agent_lanes import group_of

# What a change of policies may change.
_SETTINGS = (
    "policies",
    "policy_mapping_fn",
    "policies_to_train",
    "algorithm_config_overrides_per_module",
    "shared_encoders",
)
_ALL_WORKERS = (None, -1)  # what the reference has for "all"


class PolicyChanges:
    """Adds and removes the policies of an algorithm: on learners, env runners and evaluations.

    Agents keep the policy that they have until their episode ends; who begins one is mapped anew.

    Args:
        algorithm: The algorithm, before its policies are changed first.
    """

    def __init__(self, algorithm: Any):
        self._owner = weakref.ref(algorithm)  # which has this
        self._configured = algorithm.config  # with the policies that it begins with
        self._used_ids = {*all_policies(algorithm.config)}  # also of policies that are removed

    @property
    def _algorithm(self) -> Any:
        return self._owner()

    def add(
        self,
        policy_id: str,
        policy_cls: Any,
        policy: Policy | None,
        *,
        observation_space: gym.Space | None,
        action_space: gym.Space | None,
        config: AlgorithmConfig | Mapping[str, Any] | None,
        policy_state: Mapping[str, Any] | None,
        policy_mapping_fn: Any,
        policies_to_train: Any,
        shared_encoders: Any,
        evaluation_workers: bool,
        workers: Any,
    ) -> Policy | None:
        """Add a policy; see `Algorithm.add_policy`."""
        algorithm = self._algorithm
        self._check_change("add_policy", evaluation_workers=evaluation_workers, workers=workers)
        check_policy_id(policy_id, "add_policy")
        if policy_id in all_policies(algorithm.config):
            raise ConfigError(
                f"add_policy: there is a policy {policy_id!r} in this run; allowed: another id"
            )
        if policy is not None and (policy_cls is not None or policy_state is not None):
            raise ConfigError("add_policy: give policy, policy_cls or policy_state, not several")
        _check_forms(policy, policy_state, config)
        if policy is not None:
            observation_space = observation_space or policy.observation_space
            action_space = action_space or policy.action_space
            policy_state = policy.get_state()
        own = config.to_dict() if isinstance(config, AlgorithmConfig) else dict(config or {})
        spec = PolicySpec(policy_cls, observation_space, action_space, own)
        policies = {**self.specs_with_spaces(), policy_id: spec}
        changed = self.changed_config(
            policies, policy_mapping_fn, policies_to_train, shared_encoders
        )
        states = {} if policy_state is None else {policy_id: policy_state}
        algorithm.change_policies(changed, states)
        return algorithm.policies.get(policy_id)

    def remove(
        self,
        policy_id: str,
        *,
        policy_mapping_fn: Any,
        policies_to_train: Any,
        evaluation_workers: bool,
    ) -> None:
        """Remove a policy; see `Algorithm.remove_policy`."""
        algorithm = self._algorithm
        self._check_change("remove_policy", evaluation_workers=evaluation_workers)
        policies = self.specs_with_spaces()
        if policy_id not in policies:
            raise KeyError(f"no policy {policy_id!r}; there are {sorted(policies)}")
        del policies[policy_id]
        if not policies:
            raise ConfigError(f"remove_policy: {policy_id!r} is the only policy")
        chosen = algorithm.config.policies_to_train
        if policies_to_train is None and isinstance(chosen, list):
            policies_to_train = [other for other in chosen if other != policy_id]
        changed = self.changed_config(policies, policy_mapping_fn, policies_to_train)
        algorithm.change_policies(changed, {})

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of policies that came and went; nothing if none has."""
        algorithm = self._algorithm
        before = {*all_policies(self._configured)}
        if algorithm.config is self._configured and self._used_ids == before:
            return {}
        return {"used_policy_ids": sorted(self._used_ids)}

    def adopt(self, state: Mapping[str, Any], what: str) -> None:
        """Take over the policies that a run with these settings had by then: some came and went.

        Of code only what this run's own settings name is taken over: a checkpoint may come from a
        stranger.

        Args:
            state: See `Algorithm.get_state`.
            what: How messages call it.

        Raises:
            CheckpointError: if the policies, or the mapping, need other code.
        """
        algorithm = self._algorithm
        own = algorithm.config.to_dict()
        stored = {name: state["config"][name] for name in _SETTINGS if name in state["config"]}
        for name in ("policy_mapping_fn", "policies_to_train"):
            is_same = callable(own[name]) and callable_name(own[name]) == stored.get(name)
            if is_same or own[name] == stored.get(name):
                del stored[name]
        kind = type(algorithm.config)
        known = {doubt.entry for doubt in doubts_of(kind, own)} | {*_code_of(own)}
        doubts = [*doubts_of(kind, kind.check(stored))]
        doubts += [Doubt("policies", code, CODE, code) for code in untrusted_names(stored)]
        refuse(doubts, known, what)
        config = algorithm.config.copy(copy_frozen=False)
        config.update_from_dict(resolved(stored, known, what))
        config.validate()
        config.freeze()
        self._refuse_others(config)
        algorithm.change_policies(config, {})
        self._used_ids |= {*state["used_policy_ids"]}

    def _refuse_others(self, config: AlgorithmConfig) -> None:
        """Refuse a policy that is another here than in a config: it was removed, its id used again.

        Raises:
            ConfigError: naming it.
        """
        algorithm = self._algorithm
        groups = SimpleNamespace(groups=algorithm.agent_groups)
        here, there = (c.get_multi_agent_setup(env=groups)[0] for c in (algorithm.config, config))
        for policy_id in here.keys() & there.keys():
            if here[policy_id] != there[policy_id]:
                raise ConfigError(
                    f"the policy {policy_id!r} was removed and is another by then, "
                    f"{there[policy_id]!r}; here it is {here[policy_id]!r}: give it so in policies"
                )

    def _check_change(self, name: str, **given: Any) -> None:
        algorithm = self._algorithm
        if algorithm.agent_groups is None and algorithm.config.is_multi_agent():
            raise ConfigError(
                f"{name}: which agents there are, and their spaces, the environment says; allowed: "
                "with the setting env"
            )
        if algorithm.agent_groups is None:
            raise ConfigError(
                f"{name}: the environment has one agent, and so there is one policy; allowed: "
                "with the setting policies, e.g. policies=['main'], which is for several"
            )
        if not given["evaluation_workers"]:
            raise ConfigError(
                f"{name}: evaluation_workers = False is not supported: evaluations play with the "
                "policies that act"
            )
        if given.get("workers") not in _ALL_WORKERS:
            raise ConfigError(f"{name}: workers is not supported: all have all policies")

    def specs_with_spaces(self) -> dict[str, PolicySpec]:
        """Return the policies that there are, with what their agents see and do.

        Where agents differ in that, another mapping may leave a policy without any, to tell it.
        """
        algorithm = self._algorithm
        specs = all_policies(algorithm.config)
        if algorithm.agent_groups is None or len(algorithm.agent_groups) == 1:
            return dict(specs)
        whole, _ = algorithm.config.get_multi_agent_setup(
            env=SimpleNamespace(groups=algorithm.agent_groups)
        )
        return {
            m: PolicySpec(
                spec.policy_class, whole[m].observation_space, whole[m].action_space, spec.config
            )
            for m, spec in specs.items()
        }

    def changed_config(
        self,
        policies: Mapping[str, PolicySpec],
        mapping: Any,
        to_train: Any,
        shared_encoders: Any = None,
    ) -> AlgorithmConfig:
        """Return this config with other policies, checked and frozen."""
        algorithm = self._algorithm
        changed = algorithm.config.copy(copy_frozen=False)
        overrides = algorithm.config.algorithm_config_overrides_per_module
        given = {"policies": dict(policies)}
        given["algorithm_config_overrides_per_module"] = {
            m: own for m, own in overrides.items() if m in policies
        }
        if mapping is not None:
            given["policy_mapping_fn"] = mapping
        if to_train is not None:
            given["policies_to_train"] = to_train
        changed.update_from_dict(given)
        learners = learning_policies(all_policies(changed), changed.policies_to_train)
        kept = without_others(algorithm.config.shared_encoders, learners)
        changed.shared_encoders = kept if shared_encoders is None else shared_encoders
        changed.validate()
        changed.freeze()
        return changed

    def map_agents(self, mapping: list[dict[str, Any]]) -> None:
        """Map agents that begin an episode from here on by other line-ups of the same policies."""
        algorithm = self._algorithm
        if mapping == algorithm.config.policy_mapping_fn:
            return
        config = algorithm.config.copy(copy_frozen=False)
        config.update_from_dict({"policy_mapping_fn": mapping})
        config.freeze()
        algorithm.config = config
        for part in (algorithm.env_runners, algorithm.evaluation):
            part.change_policies(config, algorithm.module_slots)

    def become(self, config: AlgorithmConfig, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on with other policies.

        Args:
            config: This one's, with other policies.
            states: The states of policies that are new, by id; of others the initial one.
        """
        algorithm = self._algorithm
        assert algorithm.agent_groups is not None
        specs, _ = config.get_multi_agent_setup(env=SimpleNamespace(groups=algorithm.agent_groups))
        self._check_new(config, specs)
        wanted = type(algorithm).module_ids(config)
        made = {}
        shelf = shelf_for(config, len(wanted), algorithm.policies.values())
        for module_id in wanted:
            if module_id in algorithm.policies:
                continue
            observation, action = specs[module_id].observation_space, specs[module_id].action_space
            assert observation is not None and action is not None
            made[module_id] = self._made_policy(config, module_id, Spaces(observation, action))
            if module_id in states:
                made[module_id].set_state(dict(states[module_id]))
            if shelf is not None:
                shelf.add(made[module_id])
        # Before anything changes.
        encoder_sharing.encoders_of(config, {**algorithm.policies, **made})
        algorithm.learners.pull_weights()
        sharing = [m for group in encoder_groups(algorithm.config) for m in group]
        there, algorithm.config = [*algorithm.policies], config
        for module_id in [m for m in algorithm.policies if m not in wanted]:
            del algorithm.policies[module_id]
        algorithm.policies.update(made)
        self._used_ids |= all_policies(config).keys()
        trained = building.trained_ids(type(algorithm).trained_modules(config), algorithm.policies)
        for module_id in [m for m in algorithm.learner_connectors if m not in trained]:
            del algorithm.learner_connectors[module_id]
        for module_id in trained:
            if module_id not in algorithm.learner_connectors:
                connectors = algorithm.make_learner_connectors(algorithm.policies[module_id])
                algorithm.learner_connectors[module_id] = connectors
        # Before and after: targets of new learners are made of it, and learners elsewhere may have
        # other weights of policies that have just come to share theirs.
        encoder_sharing.go_on_with(config, algorithm.trained_policies, sharing, there)
        algorithm.learners.change_modules(
            config,
            algorithm.trained_policies,
            type(algorithm).make_learner,
            type(algorithm).checked_parts,
            algorithm.learner_connectors,
            draw_seed(self.streams(",".join(trained)).learner),
        )
        if encoder_sharing.go_on_with(config, algorithm.trained_policies, sharing, there):
            algorithm.learners.push_policies()
        algorithm.modules_changed(self.streams(",".join(trained)).storage)
        for part in (algorithm.env_runners, algorithm.evaluation):
            part.change_policies(config, algorithm.module_slots)
        algorithm.env_runners.sync_weights()
        logger.info("policies: %s; trained: %s", ", ".join(algorithm.policies), ", ".join(trained))

    def used_again(self, config: AlgorithmConfig) -> set[str]:
        """Return the ids of policies that a config has anew, and that this run had before."""
        known = all_policies(self._algorithm.config).keys()
        return (all_policies(config).keys() & self._used_ids) - known

    def _check_new(self, config: AlgorithmConfig, specs: Mapping[str, PolicySpec]) -> None:
        """Check that env runners can have the policies that are new, before anything changes.

        Raises:
            ConfigError: if one fits no agent, or one written by hand cannot be made.
        """
        algorithm = self._algorithm
        assert algorithm.agent_groups is not None
        known = all_policies(algorithm.config)
        for policy_id in [m for m in all_policies(config) if m not in known]:
            group_of(algorithm.agent_groups, policy_id, specs[policy_id], config)
            if specs[policy_id].is_fixed:
                make_fixed_policy(policy_id, specs[policy_id])

    def _made_policy(self, config: AlgorithmConfig, module_id: str, spaces: Spaces) -> Policy:
        algorithm = self._algorithm
        before, algorithm.config = algorithm.config, config  # which hooks read
        try:
            return building.make_policy(
                algorithm.config_of(module_id),
                spaces,
                of_module(module_id, algorithm.module_options),
                draw_seed(self.streams(module_id).module),
                None,
                algorithm.policy_options(module_id),
            )
        finally:
            algorithm.config = before

    def streams(self, name: str) -> Any:
        """Return random streams of a change: the same whenever the run is repeated."""
        algorithm = self._algorithm
        return random_streams(
            algorithm.seed_entropy, zlib.crc32(name.encode()), algorithm.iteration, 1
        )


def _check_forms(policy: Any, policy_state: Any, config: Any) -> None:
    """Check what a policy is made of.

    Raises:
        ConfigError: naming the argument of `add_policy`, and what it may be.
    """
    is_state = isinstance(policy_state, Mapping) and "weights" in policy_state
    for name, given, fits, allowed in (
        ("policy", policy, isinstance(policy, Policy), "a Policy that learns, e.g. Policy.load(…)"),
        ("policy_state", policy_state, is_state, "what Policy.get_state returns"),
        ("config", config, isinstance(config, (AlgorithmConfig, Mapping)), "a dict of settings"),
    ):
        if given is not None and not fits:
            raise ConfigError(
                f"add_policy: {name} = {given!r} is not allowed; allowed: {allowed}, or None"
            )


def _code_of(value: Any) -> Iterator[str]:
    """Yield the names of callables anywhere in settings."""
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _code_of(item)
    elif callable(value):
        yield callable_name(value)
