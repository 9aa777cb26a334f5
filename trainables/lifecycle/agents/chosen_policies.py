"""Which policies of a checkpoint are recovered, whom they act for and which are trained on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trainables.core.callables import UntrustedName, is_findable
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.agents.line_ups import named_policies
from trainables.core.config.agents.shared_encoders import NAME, without_others
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.lifecycle.restoring.other_modules import without_episodes

_OVERRIDES = "algorithm_config_overrides_per_module"


class Chosen:
    """What `Algorithm.from_checkpoint` is given of several policies; None: as stored.

    Args:
        policy_ids: The policies to recover.
        policy_mapping_fn: The setting of this name.
        policies_to_train: The setting of this name.

    Attributes:
        settings: Settings of the caller's, which need no trust.
    """

    def __init__(
        self,
        policy_ids: Collection[str] | None = None,
        policy_mapping_fn: Any = None,
        policies_to_train: Any = None,
    ):
        if isinstance(policy_ids, str) or not isinstance(policy_ids, (Collection, type(None))):
            raise ConfigError(
                f"policy_ids = {policy_ids!r} is not allowed; allowed: a list or set of ids"
            )
        self._ids = None if policy_ids is None else [*dict.fromkeys(policy_ids)]
        given = {"policy_mapping_fn": policy_mapping_fn, "policies_to_train": policies_to_train}
        self.settings = {name: value for name, value in given.items() if value is not None}

    def state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a state with the policies that are chosen, without settings that are replaced.

        Raises:
            ConfigError: if there is no such policy, or a mapping names one that is left out.
            CheckpointError: if a function that must be given again is not.
        """
        config = {n: v for n, v in state["config"].items() if n not in self.settings}
        _refuse_lost(config)
        if self._ids is None:
            self._refuse_given(state)
            if not self.settings:
                return {**state, "config": config}
            self._leave_groups(config, state)
            return without_episodes(state, config)
        self._refuse_unknown(state)
        self._refuse_given(state)
        stored = config.get("policies")
        if stored is not None:
            config["policies"] = {m: spec for m, spec in stored.items() if m in self._ids}
        own = config.get(_OVERRIDES)
        if isinstance(own, Mapping):
            config[_OVERRIDES] = {m: part for m, part in own.items() if m in self._ids}
        trained = config.get("policies_to_train")
        if isinstance(trained, list):
            config["policies_to_train"] = [m for m in trained if m in self._ids]
            if trained and not config["policies_to_train"]:
                raise ConfigError(
                    f"policy_ids = {self._ids}: none of them was trained (policies_to_train = "
                    f"{trained}); give policies_to_train=…, too"
                )
        self._refuse_mapping(config)
        self._leave_groups(config, state)
        state = without_episodes(state, config)
        weights = state["policies"]
        state["policies"] = {m: part for m, part in weights.items() if m in self._ids}
        return state

    def _leave_groups(self, config: dict[str, Any], state: Mapping[str, Any]) -> None:
        """Let policies that are left out, or no longer trained, share no encoder any more."""
        chosen = self.settings.get("policies_to_train", config.get("policies_to_train"))
        learners = [m for m in state["policies"] if self._ids is None or m in self._ids]
        if isinstance(chosen, (list, tuple, set, frozenset)):
            learners = [m for m in learners if m in chosen]
        if NAME in config:
            config[NAME] = without_others(config[NAME], learners)

    def _refuse_unknown(self, state: Mapping[str, Any]) -> None:
        """Refuse ids of policies that a checkpoint does not have."""
        assert self._ids is not None
        known = _stored_ids(state)
        of_class = [m for m in state["policies"] if m not in known]
        if of_class and {*self._ids} != {*state["policies"]}:
            raise ConfigError(
                f"policy_ids = {self._ids} is not supported: the policies {', '.join(of_class)} "
                "are those of the algorithm's module_ids, not of the setting policies; allowed: all"
            )
        for policy_id in self._ids:
            if policy_id not in (*known, *of_class):
                raise ConfigError(
                    f"policy_ids: there is no policy {policy_id!r}; policies: {', '.join(known)}"
                    f"{suggestion(str(policy_id), known)}"
                )
        if not self._ids:
            raise ConfigError("policy_ids = [] recovers nothing; allowed: at least one policy")

    def _refuse_given(self, state: Mapping[str, Any]) -> None:
        """Refuse settings of the caller's that name policies which will not be there."""
        known = self._ids or _stored_ids(state)
        for name, given in self.settings.items():
            ids = named_policies(given) if name == "policy_mapping_fn" else given
            for policy_id in ids if isinstance(ids, (list, tuple, set)) else ():
                if policy_id not in known:
                    raise ConfigError(
                        f"{name}: there is no policy {policy_id!r}; policies: {', '.join(known)}"
                        f"{suggestion(str(policy_id), known)}"
                    )

    def _refuse_mapping(self, config: Mapping[str, Any]) -> None:
        """Refuse a stored mapping that names policies which are left out."""
        assert self._ids is not None
        mapping = config.get("policy_mapping_fn")
        gone = sorted({*named_policies(mapping)} - {*self._ids})
        if gone:
            raise ConfigError(
                f"policy_ids = {self._ids}: the stored policy_mapping_fn names {', '.join(gone)}, "
                "too; give policy_mapping_fn=…, e.g. {'*': " + f"{self._ids[0]!r}" + "}"
            )


def _stored_ids(state: Mapping[str, Any]) -> list[str]:
    """Return the ids of the policies that a checkpoint's settings name."""
    return [*(state["config"].get("policies") or {DEFAULT_MODULE_ID: None})]


def _refuse_lost(config: Mapping[str, Any]) -> None:
    """Refuse functions that no name finds again."""
    for name in ("policy_mapping_fn", "policies_to_train"):
        value = config.get(name)
        if isinstance(value, UntrustedName) and not is_findable(value):
            raise CheckpointError(
                f"{name} was {str(value)!r}, which cannot be found again: give {name}=…, or train "
                "with a function at the top of a module, or a dict or list of ids"
            )
