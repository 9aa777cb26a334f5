"""Policies from folders: of their options only what is harmless or trusted is made."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch

from trainables.core.checkpoint import (
    CHECKPOINT_FILE,
    AnyCheckpoint,
    CheckpointError,
    check_whole,
    load_state,
    local_folder,
    only_policy_folder,
)
from trainables.core.config.environment import EnvironmentSettings
from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ModelConfig
from trainables.core.config.sampling import SamplingSettings
from trainables.core.config.settings import Settings, is_numbers
from trainables.core.errors import ConfigError
from trainables.core.own_folders import trust_in
from trainables.core.policy.policy import POLICY_FILE, Policy
from trainables.core.trust import Doubt, NotTrusted, doubts_of, refuse, resolved

# Settings of an algorithm that are handed to its policy as they are, by the class that has them.
_SHARED: dict[type[Settings], tuple[str, ...]] = {
    EnvironmentSettings: (
        "normalize_actions",
        "clip_actions",
        "frame_stack",
        "action_mask_key",
        "critic_obs_key",
    ),
    SamplingSettings: (
        "observation_filter",
        "env_to_module_connector",
        "module_to_env_connector",
        "explore",
    ),
}


def load(
    policy_class: type[Policy],
    folder: AnyCheckpoint,
    device: torch.device | str,
    trust: Collection[str],
) -> Policy:
    """Return the policy of a folder; see `Policy.load`."""
    try:
        with local_folder(folder) as path:
            return _load(policy_class, path, device, trust)
    except NotTrusted as error:
        raise error.with_traceback(None) from None


def _load(
    policy_class: type[Policy], path: Path, device: torch.device | str, trust: Collection[str]
) -> Policy:
    is_policy, is_checkpoint = (
        os.path.lexists(path / name) for name in (f"{POLICY_FILE}.json", CHECKPOINT_FILE)
    )
    if is_checkpoint and not is_policy:
        path = only_policy_folder(path)
    check_whole(path)
    trust = trust_in(path, POLICY_FILE, trust)
    state = load_state(path, POLICY_FILE)
    what = f"policy {path}"
    try:
        policy = policy_class(
            state["observation_space"],
            state["action_space"],
            **trusted_options(state["options"], trust, what),
            metadata=state["metadata"],
            device=device,
            weights=state["weights"],
        )
        policy.set_state(state)
    except CheckpointError:
        raise
    except Exception as error:  # of whatever the values in a file can be
        told = str(error) if isinstance(error, ConfigError) else repr(error)
        raise CheckpointError(f"{what} is damaged: {told}") from error
    return policy


def trusted_options(options: dict[str, Any], trust: Collection[str], what: str) -> dict[str, Any]:
    """Return the options that a policy is made with, with the callables that they name.

    Args:
        options: The options as they were stored.
        trust: Code that may be imported, as `module:name`.
        what: The name of their owner, for messages.

    Raises:
        CheckpointError: naming what is not harmless and not trusted.
        ConfigError: for an option of a wrong type.
    """
    checked, doubts = checked_options(options)
    refuse(doubts, trust, what)
    found: dict[str, Any] = resolved(checked, trust, what)
    return found


def checked_options(options: dict[str, Any]) -> tuple[dict[str, Any], list[Doubt]]:
    """Return the options of a stored policy by name and type, and what of them is not harmless.

    Raises:
        ConfigError: for an option of a wrong type.
    """
    shared = {name for names in _SHARED.values() for name in names}
    checked = {**options, "model": ModelConfig.check(options["model"])}
    doubts = list(doubts_of(ModelConfig, checked["model"], "model."))
    for settings_class, names in _SHARED.items():
        given = settings_class.check({name: options[name] for name in names if name in options})
        checked |= given
        doubts += doubts_of(settings_class, given)
    checked["exploration"] = ExplorationConfig.check(options["exploration"])
    doubts += doubts_of(ExplorationConfig, checked["exploration"], "exploration.")
    doubts += _module_doubts(options["module"])
    unknown = checked.keys() - shared - {"model", "exploration", "module"}
    doubts += [Doubt(name, options[name], "no option of a policy", name) for name in unknown]
    return checked, doubts


def _module_doubts(module: dict[str, Any]) -> Iterator[Doubt]:
    """Yield what is not harmless in a module's options: numbers, and dicts like `model`."""
    for name, value in module.items():
        if name == "type":  # one that `catalog` knows, or an error
            continue
        if isinstance(value, dict):
            yield from doubts_of(ModelConfig, ModelConfig.check(value), f"module.{name}.")
        elif not is_numbers(value):
            yield Doubt(f"module.{name}", value, "no number", f"module.{name}")
