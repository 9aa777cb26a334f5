"""Whether what a row of `trainables/promises.yaml` names is there, and what it says raises does so.

Names have these forms: `Algorithm.save(checkpoint_dir)`, a method or attribute of a class;
`PPOConfig.training(lr, clip_param)`, settings; `model(use_lstm)`, keys of a dict of settings;
`result(episode_reward_mean)`, metrics; `callbacks(on_episode_end)`, hooks;
`tunescape train --algo`, an option; `trainables.dqn.DQNConfig`, what can be imported.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import typer

import trainables
from experiments import cli
from trainables import PPOConfig
from trainables.core.all_metrics import COMMON, SAMPLED, TUNES
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.reference.compatibility import (
    ALIASES,
    COMPOSITES,
    CONSTANTS,
    METHOD_ALIASES,
)
from trainables.core.config.reference.worker_calls import CallsWorkers
from trainables.core.config.sections import Section
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner
from trainables.core.reported_metrics import OLDER
from trainables.registry import get_algorithm
from trainables.runtime.callbacks.callbacks import Callbacks
from trainables.runtime.callbacks.episode import Episode
from trainables.runtime.envs.slots import EnvContext
from trainables.runtime.evaluation.group import EvaluationGroup
from trainables.runtime.learners.group import LearnerGroup
from trainables.runtime.sampling.env_runner import EnvRunner
from trainables.runtime.sampling.group import EnvRunnerGroup
from trainables.runtime.sampling.workers import WorkerGroup

CLASSES: dict[str, type] = {
    "EnvContext": EnvContext,
    "EnvRunner": EnvRunner,
    "EnvRunnerGroup": EnvRunnerGroup,
    "Episode": Episode,
    "EvaluationGroup": EvaluationGroup,
    "Learner": Learner,
    "LearnerGroup": LearnerGroup,
    **{
        name: value
        for name in trainables.__all__
        if isinstance(value := getattr(trainables, name), type)
    },
}
NESTED = ("model", "optimizer", "exploration_config", "replay_buffer_config")
METRICS = {*OLDER, *(metric.name for metric in (*SAMPLED, *COMMON, *TUNES))}
_FORM = re.compile(r"^(?:(?P<owner>\w+)\.)?(?P<name>\w+)(?:\((?P<arguments>[\w, ]*)\))?$")


def missing(name: str) -> list[str]:
    """What of a name is not there; empty if all of it is."""
    if name.startswith("tunescape "):
        return _missing_option(name)
    if name.startswith("trainables."):
        return _missing_import(name)
    form = _FORM.match(name)
    if form is None:
        return [f"{name} has no known form"]
    arguments = re.findall(r"\w+", form["arguments"] or "")
    if form["owner"] is None:
        return _missing_keys(form["name"], arguments)
    owner = CLASSES.get(form["owner"])
    if owner is None:
        return [f"{form['owner']} is no class of ours"]
    if issubclass(owner, AlgorithmConfig) and _is_section(owner, form["name"]):
        return _missing_settings(owner, form["name"], arguments)
    return _missing_member(owner, form["name"], arguments)


def named_settings(name: str) -> set[str]:
    """The settings and methods that a name stands for."""
    form = _FORM.match(name)
    return set(re.findall(r"\w+", name)) if form is not None else set()


def message_of(entry: Mapping[str, Any]) -> str:
    """What the error says that an entry of `raises` leads to.

    An entry has `section`, `setting` and `value` (of `config`, PPO's by default), or `attribute`,
    `imports`, `algorithm`, `command` or `call`; and perhaps `says`, which the message must hold.

    Raises:
        AssertionError: if nothing is raised.
    """
    kind = next((kind for kind in _ATTEMPTS if kind in entry), None)
    assert kind is not None, f"{entry} has no known form"
    try:
        told = _ATTEMPTS[kind](entry)
    except (ConfigError, AttributeError, ImportError, TypeError) as error:
        return str(error)
    if kind == "command":
        return str(told)
    raise AssertionError(f"nothing is raised by {dict(entry)}")


def _missing_option(name: str) -> list[str]:
    words = name.split()[1:]
    command: Any = typer.main.get_command(cli.app)
    while words and words[0] in getattr(command, "commands", {}):
        _, command, words = command.resolve_command(typer.Context(command), words)
    options = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    return [f"{name}: no {word}" for word in words if word not in options]


def _missing_import(name: str) -> list[str]:
    module, _, attribute = name.rpartition(".")
    try:
        found = hasattr(importlib.import_module(module), attribute)
    except ImportError:
        found = False
    return [] if found else [f"{name} cannot be imported"]


def _missing_keys(owner: str, keys: list[str]) -> list[str]:
    if owner == "result":
        return [f"{key} is no declared metric" for key in keys if key not in METRICS]
    if owner == "callbacks":
        return [f"{key} is no hook" for key in keys if not hasattr(Callbacks, key)]
    if owner not in NESTED:
        return [f"{owner} is no dict of settings"]
    known = PPOConfig.nested_settings() | get_algorithm("DQN").config_class.nested_settings()
    return [f"{owner} has no {key}" for key in keys if key not in known[owner].settings()]


def _missing_settings(owner: type[AlgorithmConfig], section: str, settings: list[str]) -> list[str]:
    found = []
    for setting in settings:
        if setting in owner.composites or setting in COMPOSITES:
            continue
        target = ALIASES.get(setting, setting)
        constant = CONSTANTS.get(setting)
        try:
            value = getattr(owner(), target) if constant is None else constant.value
            getattr(owner(), section)(**{setting: value})
        except (ConfigError, AttributeError) as error:
            found.append(f"{owner.__name__}.{section}({setting}): {error}")
    return found


def _missing_member(owner: type, name: str, arguments: list[str]) -> list[str]:
    if issubclass(owner, WorkerGroup) and hasattr(CallsWorkers, name):
        owner = CallsWorkers  # a group finds them there
    annotated = any(name in vars(base).get("__annotations__", {}) for base in owner.__mro__)
    if not hasattr(owner, name) and not annotated and not _is_set(owner, name):
        return [f"{owner.__name__} has no {name}"]
    if not arguments:
        return []
    known = inspect.signature(getattr(owner, name)).parameters
    return [f"{owner.__name__}.{name} takes no {word}" for word in arguments if word not in known]


def _is_set(owner: type, name: str) -> bool:
    """Whether a constructor sets an attribute."""
    return any(
        re.search(rf"\bself\.{name}\b[^=\n]*=", inspect.getsource(base))
        for base in owner.__mro__
        if base.__module__.startswith("trainables")
    )


def _is_section(owner: type, name: str) -> bool:
    name = METHOD_ALIASES.get(name, name)
    return isinstance(inspect.getattr_static(owner, name, None), Section)


def _set(entry: Mapping[str, Any]) -> Any:
    config = CLASSES[entry.get("config", "PPOConfig")]().environment("CartPole-v1")
    getattr(config, entry["section"])(**{entry["setting"]: entry["value"]}).validate()


def _get(entry: Mapping[str, Any]) -> Any:
    owner, _, name = entry["attribute"].partition(".")
    return getattr(object.__new__(CLASSES[owner]), name)


def _import(entry: Mapping[str, Any]) -> Any:
    module, _, name = entry["imports"].rpartition(".")
    scope: dict[str, Any] = {}
    exec(f"from {module} import {name}", scope)


def _run(entry: Mapping[str, Any]) -> str:
    from typer.testing import CliRunner

    result = CliRunner().invoke(cli.app, entry["command"])
    assert result.exit_code != 0, f"{entry['command']} ends well"
    return result.output or str(result.exception)


_ATTEMPTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "setting": _set,
    "attribute": _get,
    "imports": _import,
    "algorithm": lambda entry: get_algorithm(entry["algorithm"]),
    "command": _run,
    "call": lambda entry: eval(entry["call"], dict(CLASSES)),
}
