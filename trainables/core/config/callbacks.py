"""Settings of callbacks: a class whose methods are called, or a function for one hook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainables.core.config.settings import CODE, Settings, setting
from trainables.core.errors import ConfigError


def entries(given: Any) -> list[Any]:
    """Return what a setting gives, in order: nothing, one thing or several."""
    if given is None:
        return []
    return given if isinstance(given, list) else [given]


ALLOWED = (
    "a function, a class or 'module:name' of one; {'type': one of these, **its arguments}; or a "
    "list of them"
)


def check_connectors(given: Any, setting: str) -> None:
    """Check the form of a setting that gives connectors. Nothing is imported.

    Raises:
        ConfigError: naming the entry that is none.
    """
    for entry in entries(given):
        kind = entry.get("type") if isinstance(entry, dict) else entry
        if not (callable(kind) or (isinstance(kind, str) and ":" in kind)):
            raise ConfigError(f"{setting} = {entry!r} is not allowed; allowed: {ALLOWED}")


@dataclass(kw_only=True)
class CallbackSettings(Settings):
    """Settings of callbacks: a class whose methods are called, or a function for one hook."""

    callbacks_class: str | type | list[Any] | None = setting(
        None,
        "callbacks",
        "a subclass of Callbacks, 'module:name' of one, or a list of these, called in order",
        risk=CODE,
    )
    on_algorithm_init: str | Callable[..., Any] | list[Any] | None = setting(
        None, "callbacks", "function(s) called when the algorithm is set up", risk=CODE
    )
    on_checkpoint_loaded: str | Callable[..., Any] | list[Any] | None = setting(
        None, "callbacks", "function(s) called when a checkpoint has been loaded", risk=CODE
    )
    on_train_result: str | Callable[..., Any] | list[Any] | None = setting(
        None, "callbacks", "function(s) called with each result, which it may change", risk=CODE
    )
    on_evaluate_start: str | Callable[..., Any] | list[Any] | None = setting(
        None, "callbacks", "function(s) called before an evaluation", risk=CODE
    )
    on_evaluate_end: str | Callable[..., Any] | list[Any] | None = setting(
        None,
        "callbacks",
        "function(s) called with an evaluation's metrics, which it may change",
        risk=CODE,
    )
    on_env_runners_recreated: str | Callable[..., Any] | list[Any] | None = setting(
        None,
        "callbacks",
        "function(s) called when dead env runners have been restarted",
        risk=CODE,
    )
    on_episode_created: str | Callable[..., Any] | list[Any] | None = setting(
        None, "callbacks", "function(s) called in the env runner with a new episode", risk=CODE
    )
    on_episode_start: str | Callable[..., Any] | list[Any] | None = setting(
        None,
        "callbacks",
        "function(s) called in the env runner with an episode's first observation",
        risk=CODE,
    )
    on_episode_step: str | Callable[..., Any] | list[Any] | None = setting(
        None, "callbacks", "function(s) called in the env runner after each step", risk=CODE
    )
    on_episode_end: str | Callable[..., Any] | list[Any] | None = setting(
        None,
        "callbacks",
        "function(s) called in the env runner after an episode's last step",
        risk=CODE,
    )
    on_sample_end: str | Callable[..., Any] | list[Any] | None = setting(
        None, "callbacks", "function(s) called in the env runner with each rollout", risk=CODE
    )


HOOKS = tuple(name for name in CallbackSettings.settings() if name.startswith("on_"))
CALLBACK_SETTINGS = ("callbacks_class", *HOOKS)


def check_callbacks(name: str, given: Any) -> None:
    """Check the form of a setting. Nothing is imported.

    Raises:
        ConfigError: naming the entry that is not allowed.
    """
    kind = "a class" if name == "callbacks_class" else "a function"
    for entry in entries(given):
        fits = isinstance(entry, type) if name == "callbacks_class" else callable(entry)
        if not (fits or (isinstance(entry, str) and ":" in entry)):
            raise ConfigError(
                f"{name} = {entry!r} is not allowed; allowed: {kind}, 'module:name' of one, or a "
                "list of these"
            )
