"""Policies that come and go while an algorithm runs: `add_policy` and `remove_policy`."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import gymnasium as gym

from trainables.core.callables import callable_name
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.config.policy_specs import PolicySpec, check_policy_id
from trainables.core.config.settings import CODE
from trainables.core.config.several_agents import all_policies
from trainables.core.config.shared_encoders import (
    encoder_groups,
    learning_policies,
    without_others,
)
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.policy.fixed_policy import make_fixed_policy
from trainables.core.policy.policy import Policy
from trainables.core.policy.shelf import shelf_for
from trainables.core.trust import Doubt, doubts_of, refuse, resolved, untrusted_names
from trainables.lifecycle import building
from trainables.lifecycle.agents import encoder_sharing
from trainables.lifecycle.folder_trainable import running
from trainables.lifecycle.policy_access import PolicyAccess
from trainables.lifecycle.spaces import Spaces
from trainables.runtime.random_streams import draw_seed
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


class PolicyChanges(PolicyAccess):
    """Base of `Algorithm`: adds and removes policies on learners, env runners and evaluations.

    Agents keep the policy that they have until their episode ends; who begins one is mapped anew.
    """

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
        self._check_change("add_policy", evaluation_workers=evaluation_workers, workers=workers)
        check_policy_id(policy_id, "add_policy")
        if policy_id in all_policies(self.config):
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
        policies = {**self._specs_with_spaces(), policy_id: spec}
        changed = self._changed_config(
            policies, policy_mapping_fn, policies_to_train, shared_encoders
        )
        self._become(changed, {policy_id: policy_state} if policy_state is not None else {})
        return self.policies.get(policy_id)

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
        self._check_change("remove_policy", evaluation_workers=evaluation_workers)
        policies = self._specs_with_spaces()
        if policy_id not in policies:
            raise KeyError(f"no policy {policy_id!r}; there are {sorted(policies)}")
        del policies[policy_id]
        if not policies:
            raise ConfigError(f"remove_policy: {policy_id!r} is the only policy")
        chosen = self.config.policies_to_train
        if policies_to_train is None and isinstance(chosen, list):
            policies_to_train = [other for other in chosen if other != policy_id]
        self._become(self._changed_config(policies, policy_mapping_fn, policies_to_train), {})

    def _changes(self) -> dict[str, Any]:
        """Return what a checkpoint holds of policies that came and went; nothing if none has."""
        before = {*all_policies(self._configured)}
        if self.config is self._configured and self._used_ids == before:
            return {}
        return {"used_policy_ids": sorted(self._used_ids)}

    def _adopt(self, state: Mapping[str, Any], what: str) -> None:
        """Take over the policies that a run with these settings had by then: some came and went.

        Of code only what this run's own settings name is taken over: a checkpoint may come from a
        stranger.

        Args:
            state: See `Algorithm.get_state`.
            what: How messages call it.

        Raises:
            CheckpointError: if the policies, or the mapping, need other code.
        """
        if "used_policy_ids" not in state or self._groups is None:
            return
        own = self.config.to_dict()
        stored = {name: state["config"][name] for name in _SETTINGS if name in state["config"]}
        for name in ("policy_mapping_fn", "policies_to_train"):
            is_same = callable(own[name]) and callable_name(own[name]) == stored.get(name)
            if is_same or own[name] == stored.get(name):
                del stored[name]
        kind = type(self.config)
        known = {doubt.entry for doubt in doubts_of(kind, own)} | {*_code_of(own)}
        doubts = [*doubts_of(kind, kind.check(stored))]
        doubts += [Doubt("policies", code, CODE, code) for code in untrusted_names(stored)]
        refuse(doubts, known, what)
        config = self.config.copy(copy_frozen=False)
        config.update_from_dict(resolved(stored, known, what))
        config.validate()
        config.freeze()
        self._refuse_others(config)
        self._become(config, {})
        self._used_ids |= {*state["used_policy_ids"]}

    def _refuse_others(self, config: AlgorithmConfig) -> None:
        """Refuse a policy that is another here than in a config: it was removed, its id used again.

        Raises:
            ConfigError: naming it.
        """
        groups = SimpleNamespace(groups=self._groups)
        here, there = (c.get_multi_agent_setup(env=groups)[0] for c in (self.config, config))
        for policy_id in here.keys() & there.keys():
            if here[policy_id] != there[policy_id]:
                raise ConfigError(
                    f"the policy {policy_id!r} was removed and is another by then, "
                    f"{there[policy_id]!r}; here it is {here[policy_id]!r}: give it so in policies"
                )

    def _check_change(self, name: str, **given: Any) -> None:
        if self._groups is None and self.config.is_multi_agent():
            raise ConfigError(
                f"{name}: which agents there are, and their spaces, the environment says; allowed: "
                "with the setting env"
            )
        if self._groups is None:
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

    def _specs_with_spaces(self) -> dict[str, PolicySpec]:
        """Return the policies that there are, with what their agents see and do.

        Where agents differ in that, another mapping may leave a policy without any, to tell it.
        """
        specs = all_policies(self.config)
        if self._groups is None or len(self._groups) == 1:
            return dict(specs)
        whole, _ = self.config.get_multi_agent_setup(env=SimpleNamespace(groups=self._groups))
        return {
            m: PolicySpec(
                spec.policy_class, whole[m].observation_space, whole[m].action_space, spec.config
            )
            for m, spec in specs.items()
        }

    def _changed_config(
        self,
        policies: Mapping[str, PolicySpec],
        mapping: Any,
        to_train: Any,
        shared_encoders: Any = None,
    ) -> AlgorithmConfig:
        """Return this config with other policies, checked and frozen."""
        changed = self.config.copy(copy_frozen=False)
        overrides = self.config.algorithm_config_overrides_per_module
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
        kept = without_others(self.config.shared_encoders, learners)
        changed.shared_encoders = kept if shared_encoders is None else shared_encoders
        changed.validate()
        changed.freeze()
        return changed

    def _map_agents(self, mapping: list[dict[str, Any]]) -> None:
        """Map agents that begin an episode from here on by other line-ups of the same policies."""
        if mapping == self.config.policy_mapping_fn:
            return
        config = self.config.copy(copy_frozen=False)
        config.update_from_dict({"policy_mapping_fn": mapping})
        config.freeze()
        self.config = config
        for part in (self.env_runners, self.evaluation):
            part.change_policies(config, self.module_slots)

    def _become(self, config: AlgorithmConfig, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on with other policies.

        Args:
            config: This one's, with other policies.
            states: The states of policies that are new, by id; of others the initial one.
        """
        assert self._groups is not None
        specs, _ = config.get_multi_agent_setup(env=SimpleNamespace(groups=self._groups))
        self._check_new(config, specs)
        wanted = type(self).module_ids(config)
        made = {}
        shelf = shelf_for(config, len(wanted), self.policies.values())
        for module_id in wanted:
            if module_id in self.policies:
                continue
            observation, action = specs[module_id].observation_space, specs[module_id].action_space
            assert observation is not None and action is not None
            made[module_id] = self._made_policy(config, module_id, Spaces(observation, action))
            if module_id in states:
                made[module_id].set_state(dict(states[module_id]))
            if shelf is not None:
                shelf.add(made[module_id])
        encoder_sharing.encoders_of(config, {**self.policies, **made})  # before anything changes
        self.learners.pull_weights()
        sharing = [m for group in encoder_groups(self.config) for m in group]
        there, self.config = [*self.policies], config
        for module_id in [m for m in self.policies if m not in wanted]:
            del self.policies[module_id]
        self.policies.update(made)
        self._used_ids |= all_policies(config).keys()
        trained = building.trained_ids(type(self).trained_modules(config), self.policies)
        for module_id in [m for m in self.learner_connectors if m not in trained]:
            del self.learner_connectors[module_id]
        for module_id in trained:
            if module_id not in self.learner_connectors:
                connectors = self.make_learner_connectors(self.policies[module_id])
                self.learner_connectors[module_id] = connectors
        # Before and after: targets of new learners are made of it, and learners elsewhere may have
        # other weights of policies that have just come to share theirs.
        encoder_sharing.go_on_with(config, self.trained_policies, sharing, there)
        self.learners.change_modules(
            config,
            self.trained_policies,
            type(self).make_learner,
            type(self)._checked_parts,
            self.learner_connectors,
            draw_seed(self._change_streams(",".join(trained)).learner),
        )
        if encoder_sharing.go_on_with(config, self.trained_policies, sharing, there):
            self.learners.push_policies()
        self.modules_changed(self._change_streams(",".join(trained)).storage)
        for part in (self.env_runners, self.evaluation):
            part.change_policies(config, self.module_slots)
        self.env_runners.sync_weights()
        logger.info("policies: %s; trained: %s", ", ".join(self.policies), ", ".join(trained))

    def _check_new(self, config: AlgorithmConfig, specs: Mapping[str, PolicySpec]) -> None:
        """Check that env runners can have the policies that are new, before anything changes.

        Raises:
            ConfigError: if one fits no agent, or one written by hand cannot be made.
        """
        assert self._groups is not None
        known = all_policies(self.config)
        for policy_id in [m for m in all_policies(config) if m not in known]:
            group_of(self._groups, policy_id, specs[policy_id], config)
            if specs[policy_id].is_fixed:
                make_fixed_policy(policy_id, specs[policy_id])

    def _made_policy(self, config: AlgorithmConfig, module_id: str, spaces: Spaces) -> Policy:
        before, self.config = self.config, config  # which hooks read
        try:
            return building.make_policy(
                self.config_of(module_id),
                spaces,
                self._of_module(module_id, self.module_options),
                draw_seed(self._change_streams(module_id).module),
                None,
                self.policy_options(module_id),
            )
        finally:
            self.config = before

    def _change_streams(self, name: str) -> Any:
        """Return random streams of a change: the same whenever the run is repeated."""
        return self._random_streams(zlib.crc32(name.encode()), self._iteration, 1)


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
