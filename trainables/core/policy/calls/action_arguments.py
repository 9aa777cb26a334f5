"""The arguments of `compute_actions`, also in the forms that callers of the reference use."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from trainables.core.errors import ConfigError
from trainables.core.networks.memory import AnyState

_STATE_IN = "state_in_"
# What else a batch of samples holds, which acting does not depend on.
_OTHER_COLUMNS = {
    *("actions", "rewards", "dones", "terminateds", "truncateds", "infos", "new_obs", "seq_lens"),
    *("t", "eps_id", "env_id", "agent_index", "unroll_id", "is_training"),
    *("action_logp", "action_prob", "action_dist_inputs", "vf_preds"),
}
# Older names of an argument.
_OLDER = {
    "unsquash_actions": "unsquash",
    "unsquash_action": "unsquash",
    "normalize_actions": "unsquash",
    "clip_actions": "clip",
    "clip_action": "clip",
}
_NOT_GIVEN = -1  # what the reference marks older names with


class ActionArguments(NamedTuple):
    """The arguments that an action is computed from.

    Attributes:
        obs: An observation, or a batch of them.
        state: The state of a policy that has one; None begins an episode.
        prev_action: The action before.
        prev_reward: The reward of the action before.
        unsquash: Whether to stretch actions to the bounds of the action space; None: as always.
        clip: Whether to clip those that are not stretched; None: as always.
    """

    obs: Any
    state: AnyState = None
    prev_action: Any = None
    prev_reward: Any = None
    unsquash: bool | None = None
    clip: bool | None = None

    def with_more(
        self, input_dict: Mapping[str, Any] | None, more: dict[str, Any], sees: Iterable[str]
    ) -> ActionArguments:
        """Add the arguments of a batch of samples, and of keywords with older names.

        Args:
            input_dict: `obs`, `state_in_0`, …, `prev_actions` and `prev_rewards`, or None.
            more: Keywords by name. One warning names those that nobody knows.
            sees: Columns that the policy looks at: `prev_actions`, `prev_rewards`.

        Raises:
            ConfigError: if there is no observation, or there are two.
        """
        unknown = [name for name in more if name not in _OLDER]
        for name, meaning in _OLDER.items():
            if more.get(name, _NOT_GIVEN) not in (None, _NOT_GIVEN):
                older: dict[str, Any] = {meaning: bool(more[name])}
                self = self._replace(**older)
        if (input_dict is None) == (self.obs is None):
            how = "none is given" if self.obs is None else "both are given"
            raise ConfigError(
                f"an observation comes as the first argument or as input_dict['obs']; {how}"
            )
        if input_dict is not None:
            self, unseen = self._of_batch(input_dict, set(sees))
            unknown += [f"input_dict[{name!r}]" for name in unseen]
        if unknown:
            warnings.warn(
                f"no effect on the action: {', '.join(unknown)}; this version knows no such "
                "argument",
                stacklevel=5,
            )
        return self

    def _of_batch(
        self, batch: Mapping[str, Any], sees: set[str]
    ) -> tuple[ActionArguments, list[str]]:
        """Return the arguments with a batch's own, and its columns that nobody knows."""
        if "obs" not in batch:
            raise ConfigError(f"input_dict has no 'obs'; it has {sorted(map(str, batch))}")
        parts = {n.removeprefix(_STATE_IN): n for n in batch if n.startswith(_STATE_IN)}
        made = self._replace(obs=batch["obs"])
        if parts and all(part.isdigit() for part in parts):
            ordered = sorted(parts, key=int)
            made = made._replace(state=[batch[parts[part]] for part in ordered])
        elif parts:
            made = made._replace(state={part: batch[name] for part, name in parts.items()})
        for column, argument in (("prev_actions", "prev_action"), ("prev_rewards", "prev_reward")):
            if column in batch and column in sees:
                made = made._replace(**{argument: batch[column]})
        known = {"obs", "prev_actions", "prev_rewards", *parts.values(), *_OTHER_COLUMNS}
        return made, [name for name in batch if name not in known]


def named_state(state: AnyState, names: Iterable[str]) -> Mapping[str, Any]:
    """Return a state by name; {} if none was given.

    Args:
        state: A state in any form that callers give.
        names: The names of the policy's state, in order.

    Raises:
        ConfigError: if a list has another number of parts than there are names.
    """
    if state is None:
        return {}
    if isinstance(state, Mapping):
        return state
    names = list(names)
    if not isinstance(state, (list, tuple)):
        raise ConfigError(
            f"state is a {type(state).__name__}; allowed: a dict by name, or a list in the order "
            f"{names}"
        )
    if not state:
        return {}
    if len(state) != len(names):
        raise ConfigError(
            f"state has {len(state)} parts; the policy's has {len(names)}"
            + (f": {names}; None begins an episode" if names else ": it is not recurrent")
        )
    return dict(zip(names, state, strict=True))


def like_given(given: AnyState, state: dict[str, Any]) -> Any:
    """Return a state by name in the form in which the one before was given."""
    if isinstance(given, tuple):
        return tuple(state.values())
    return list(state.values()) if isinstance(given, list) else state
