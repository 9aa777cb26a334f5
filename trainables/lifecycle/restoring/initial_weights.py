"""Policies that begin with what another run has learned: the setting `load_state_path`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from trainables.core.callables import callable_name
from trainables.core.checkpoint import (
    CHECKPOINT_FILE,
    CheckpointError,
    check_whole,
    load_state,
    only_policy_folder,
    policy_folder,
)
from trainables.core.config.model import ModelConfig
from trainables.core.data.spaces import space_mismatch
from trainables.core.errors import ConfigError
from trainables.core.logs import logger
from trainables.core.networks.catalog import module_class
from trainables.core.paths import absolute
from trainables.core.policy.policy import Policy

_FILE = "policy"
# Of `model`: how networks begin, and how they are trained, not what they compute.
_OF_LEARNING = ("fcnet_initializer", "initial_log_std", "max_seq_len")
# Of `module`, where two types have policy and Q-functions in common: what these are built of.
_IN_COMMON = ("twin_q", "q_model", "policy_model")
# What else decides how a policy acts with its weights.
_OPTIONS = (
    "module",
    "observation_filter",
    "normalize_actions",
    "clip_actions",
    "frame_stack",
    "action_mask_key",
    "critic_obs_key",
    "env_to_module_connector",
    "module_to_env_connector",
)


def load_initial_weights(
    path: str | Mapping[str, str], policies: Mapping[str, Policy], restored: Collection[str] = ()
) -> None:
    """Give policies the weights, and filter statistics, that a folder holds.

    Nothing in the folder is run.

    Args:
        path: Of a checkpoint, of which each policy takes the one of its own id, and one that is
            alone the only one; or of a policy's folder, with which all begin. Or such folders by
            policy id, where a checkpoint of one policy counts as that policy's folder; policies
            without one begin as they are.
        policies: By module id.
        restored: Ids of policies that a checkpoint restores, which need none.

    Raises:
        ConfigError: if there is no such folder, or a policy would not act as the one in it.
        CheckpointError: if it is damaged.
    """
    is_by_id = isinstance(path, Mapping)
    unknown = [module_id for module_id in path if module_id not in policies] if is_by_id else []
    if unknown:
        raise ConfigError(
            f"load_state_path: no policy {unknown[0]!r} learns; allowed: {', '.join(policies)}"
        )
    for module_id, policy in policies.items():
        found = path.get(module_id) if isinstance(path, Mapping) else path
        if found is None or module_id in restored:
            continue
        said = f"load_state_path = {found!r}"
        alone = is_by_id or len(policies) == 1
        folder = _policy_folder(Path(absolute(found)), module_id, said, alone=alone)
        check_whole(folder)
        state = load_state(folder, _FILE)
        try:
            problem = next(_differences(policy, state), None)
        except (KeyError, TypeError, ValueError, ConfigError) as error:
            raise CheckpointError(f"{said}: policy {folder} is damaged: {error!r}") from error
        if problem is not None:
            raise ConfigError(f"{said}: {problem}; allowed: what would act as the policy there")
        weights = state["weights"]
        if _type_of(state["options"]) != _type_of(policy.options):
            own = policy.get_weights()
            weights = {**own, **{name: w for name, w in weights.items() if name in own}}
        try:
            policy.set_weights(weights)
        except ConfigError as error:
            raise ConfigError(f"{said}: {error}") from None
        if policy.observations.filter is not None:
            policy.observations.filter.set_state(state["filter"])
        logger.info("%s begins with the weights of %s", module_id, folder)


def _policy_folder(folder: Path, module_id: str, said: str, *, alone: bool) -> Path:
    if (folder / f"{_FILE}.json").exists():
        return folder
    if not (folder / CHECKPOINT_FILE).exists():
        found = "it holds no policy" if folder.is_dir() else f"there is no folder {folder}"
        raise ConfigError(
            f"{said}: {found}; allowed: the folder of a policy or a checkpoint, e.g. "
            "'runs/<name>/best'"
        )
    own = policy_folder(folder, module_id)
    if os.path.lexists(own):
        return own
    if not alone:
        raise ConfigError(f"{said}: the checkpoint has no policy {module_id!r}")
    return only_policy_folder(folder)


def _differences(policy: Policy, state: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of a stored policy's is other than a policy's own."""
    for name in ("observation_space", "action_space"):
        own, theirs = getattr(policy, name), state[name]
        mismatch = space_mismatch(own, theirs)
        if mismatch is not None:
            yield f"its {name} {theirs} does not fit {own}: {mismatch}"
    stored: Mapping[str, Any] = state["options"]
    for name in _OPTIONS:
        # What was stored before an option was there has none.
        mine, theirs = _by_name(policy.options[name]), _by_name(stored.get(name))
        if name == "module" and _act_alike(_type_of(stored), _type_of(policy.options)):
            mine, theirs = ({n: each[n] for n in _IN_COMMON} for each in (mine, theirs))
        if mine != theirs:
            yield f"there {name} is {theirs!r}, here {mine!r}"
    own_model, stored_model = (ModelConfig.of(o["model"]) for o in (policy.options, stored))
    for name in ModelConfig.settings():
        mine, theirs = (_by_name(getattr(model, name)) for model in (own_model, stored_model))
        if name not in _OF_LEARNING and mine != theirs:
            yield f"there the model has {name} = {theirs!r}, here {mine!r}"


def _type_of(options: Mapping[str, Any]) -> str:
    """Return the type of module that the options of a policy name."""
    found: str = options["module"]["type"]
    return found


def _act_alike(stored: str, own: str) -> bool:
    """Whether modules of two types, which are not the same, have policy and Q-functions in common.

    What only one of them learns, as the weight of SAC's entropy or the state value of IQL, begins
    as ever.
    """
    return stored != own and all(module_class(name).has_policy_and_q for name in (stored, own))


def _by_name(value: Any) -> Any:
    """Return a value as it is stored: code by its name."""
    if callable(value):
        return callable_name(value)
    if isinstance(value, (list, tuple)):
        return [_by_name(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _by_name(item) for name, item in value.items()}
    return value
