"""Each environment of a sweep is made, reset and stepped once before any trial is started.

A mistake in an environment would fail every trial, after seconds of starting each. It is looked for
in a forked child (`experiments.sweep.forked_child`): an environment that hangs or crashes takes the
child with it, not the sweep's driver.

On a cluster that is joined nothing is checked: what is installed where a trial will land is not
known here. There `experiments.monitor.failure_guard` ends a sweep whose first trials all fail
alike.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from experiments.activity import doing
from experiments.errors import SpecWarning
from experiments.spec.no_env import trains_in_env
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import resolve_trainable
from experiments.sweep.forked_child import ChildEnded, told_apart
from search_spaces.conditions import look_up
from search_spaces.documents import Document, KeyPath
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace

LIMIT_S = 120.0  # for making, resetting and stepping one environment
MOST = 12  # environments that are tried; a space may hold any number
_DRAWS = 20  # until a setting that depends on others is active
_SEARCHED = ("env", "env_config")
_EVALUATION = ("config", "evaluation_config")


def check_env(document: Document, spec: SweepSpec, space: SearchSpace) -> None:
    """Try every environment that trials may get, unless they run on another machine.

    One that works with some of the searched settings only is a warning. Where training steps none,
    none need be given.

    Raises:
        SpecError: An environment does not work; the message names it and what is wrong.
    """
    is_given = spec.config.get("env") is not None
    is_searched = any(p.path == ("env",) for p in space.parameters)
    if not (is_given or is_searched) and trains_in_env(
        spec.config, resolve_trainable(spec.trainable)
    ):
        raise document.error(
            ("config",), f"config.env is missing: {spec.trainable} needs an environment"
        )
    if spec.resources.address is not None:
        return
    tried: dict[tuple[bool, str], list[tuple[KeyPath, str | None]]] = {}
    for place, config in environments(spec, space):
        doing(f"trying {_named(config)}")
        env = (place == _EVALUATION, repr(config.get("env")))
        tried.setdefault(env, []).append((place, problem_of(config)))
    for found in tried.values():
        wrong = [
            (place, f"{'.'.join(map(str, place))}: {problem}")
            for place, problem in found
            if problem
        ]
        if len(wrong) == len(found):
            raise document.error(*wrong[0])
        for _, problem in wrong:
            warnings.warn(f"{problem}; such trials would fail", SpecWarning, stacklevel=2)


def environments(spec: SweepSpec, space: SearchSpace) -> list[tuple[KeyPath, dict[str, Any]]]:
    """Return the configs whose environments differ, at most `MOST`, each with the key behind it.

    Every value of a searched `env`, and of settings searched within `env_config`, comes in one of
    them (of a range, its ends); not every combination does.
    """
    found: dict[str, tuple[KeyPath, dict[str, Any]]] = {}
    for place, config in _candidates(spec, space):
        key = json.dumps([config.get("env"), config.get("env_config")], default=repr)
        found.setdefault(key, (place, config))
        if len(found) == MOST:
            break
    return list(found.values())


def _candidates(spec: SweepSpec, space: SearchSpace) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    from experiments.spec.merging import deep_merge

    searched = [p for p in space.parameters if p.path[0] in _SEARCHED]
    if not searched and spec.config.get("env") is not None:
        yield ("config", "env"), dict(spec.config)
    of_evaluation = spec.config.get("evaluation_config") or {}
    if spec.config.get("evaluation_interval") and any(key in of_evaluation for key in _SEARCHED):
        config = {**spec.config, **of_evaluation}
        if config.get("env") is not None:
            yield _EVALUATION, config
    generator = np.random.default_rng(0)
    for parameter in searched:
        for value in parameter.domain.probes():
            drawn = drawn_with(space, searched, parameter, value, generator)
            if drawn is not None:
                yield ("search_space", parameter.key), deep_merge(spec.config, drawn)


def drawn_with(
    space: SearchSpace,
    probed: list[Parameter],
    parameter: Parameter | None,
    value: Any,
    generator: np.random.Generator,
) -> dict[str, Any] | None:
    """Return what is searched of a configuration in which a setting has a value.

    Args:
        space: The whole space.
        probed: The parameters that have one of their probes; all others are drawn.
        parameter: The setting's; None: any configuration is returned.
        value: Its searched value.
        generator: The random stream.

    Returns:
        None if the setting's condition is never met.
    """
    grid = next(space.grid_points())
    own = {} if parameter is None else {parameter.name: value}
    for _ in range(_DRAWS):
        others = {p.name: _one_of(p.domain.probes(), generator) for p in probed}
        config = space.config(space.sample(generator, {**grid, **others, **own}))
        if parameter is None or look_up(config, parameter.path)[0]:
            return config
    return None


def _one_of(values: list[Any], generator: np.random.Generator) -> Any:
    return values[int(generator.integers(len(values)))]


def problem_of(config: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a config's environment, in words; None if nothing is.

    With `disable_env_checking` it is only made, for as long as that may take.
    """
    try:
        return told_apart(_tried, config, limit_s=LIMIT_S) or None
    except TimeoutError:
        return _too_slow(config)
    except ChildEnded as error:
        return f"{_named(config)} ended the process that it was tried in: {error}"


def _too_slow(config: Mapping[str, Any]) -> str | None:
    if config.get("disable_env_checking"):
        return None
    return (
        f"{_named(config)} was not made, reset and stepped within {LIMIT_S:g} s: trials would wait "
        "for it, too (disable_env_checking=True gives one that is only slow all the time)"
    )


def _named(config: Mapping[str, Any]) -> str:
    from trainables.runtime.envs.make import env_name

    return f"env {env_name(config.get('env'))!r}"


def _tried(config: Mapping[str, Any]) -> str:
    """Make the environment as a trial does, with its checks, and close it."""
    from trainables.core.config.config import AlgorithmConfig
    from trainables.runtime.envs.make import make_slots
    from trainables.runtime.envs.slots import EnvOptions
    from trainables.runtime.envs.sub_environment import SubEnvironmentError

    options = EnvOptions(
        check=not config.get("disable_env_checking"),
        mask_key=config.get("action_mask_key") or EnvOptions.mask_key,
    )
    runners = config.get("num_env_runners") or 0
    try:
        # Whether there are several policies, and a critic of all of them, is all that making asks
        # of the settings.
        policies = config.get("policies")
        several = AlgorithmConfig.from_dict(
            {
                "policies": [*policies] if policies else None,
                "centralized_critic": config.get("centralized_critic") or False,
            }
        )
        env = make_slots(
            several,
            config.get("env"),
            config.get("env_config"),
            num_workers=runners,
            options=options,
        )
        env.close()
    except (ValueError, SubEnvironmentError) as error:
        return str(error)
    return ""
