"""Networks and learners of a sweep's trials are made once, for the spaces of its environments.

A mistake that only they show would fail trials half a minute after the sweep began: an algorithm
that does not take the actions, an agent without a policy, a model that does not fit the
observations. Making them takes some 10 ms a config; of a search space each listed value, and the
ends of each range below `model`, comes in one config.

On a cluster that is joined nothing is made: see `experiments.sweep.env_checks`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from experiments.activity import doing
from experiments.spec.merging import deep_merge
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import is_own
from experiments.sweep.config_checks import blame
from experiments.sweep.env_checks import MOST, drawn_with
from experiments.sweep.forked_child import ChildEnded, told_apart
from search_spaces.documents import Document, KeyPath
from search_spaces.domains import Choice, Grid
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace

BUDGET_S = 3.0
"""After so many seconds no further config is tried."""
LIMIT_S = 10.0
"""After so many the sweep is let go: what it makes is merely large."""
_DRAWS = 8  # configs with one value of a setting, until one can be made
_VALID = 40  # draws, until as many are valid
_OF_ENV = ("environment", "multi_agent")  # sections that decide what an environment is made like

_Tried = list[tuple[KeyPath, str, list[dict[str, Any]]]]


def check_build(document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any) -> None:
    """Make what trials are made of, unless they run on another machine.

    Args:
        document: The spec's document.
        spec: The spec; one drawn configuration at least is valid.
        space: Its search space.
        trainable: The class that it names.

    Raises:
        SpecError: A value goes with none of the others that were drawn; the message names the
            setting, the value and what is wrong.
    """
    if spec.resources.address is not None or is_own(trainable):
        return
    doing("trying to build the algorithm")
    tried = list(_tried_configs(spec, space, trainable.config_class))
    try:
        problems = json.loads(told_apart(_problems, trainable, tried, limit_s=LIMIT_S))
    except TimeoutError:
        return
    except ChildEnded as error:
        raise document.error(
            ("config",), f"config: building {spec.trainable} ended its process: {error}"
        ) from None
    for (place, told, configs), found in zip(tried, problems, strict=False):
        if found and len(found) == len(configs):
            if place == ("config",):
                place = blame(spec.config, place, found[0])
            raise document.error(place, f"{told}: {found[0]}")


def _tried_configs(
    spec: SweepSpec, space: SearchSpace, config_class: Any
) -> Iterator[tuple[KeyPath, str, list[dict[str, Any]]]]:
    """Yield the key behind some configs, what they have in common in words, and the configs."""
    generator = np.random.default_rng(0)
    grids = [parameter for parameter in space.parameters if isinstance(parameter.domain, Grid)]

    def drawn(parameter: Parameter | None = None, value: Any = None) -> Iterator[dict[str, Any]]:
        for _ in range(_VALID):
            searched = drawn_with(space, grids, parameter, value, generator)
            if searched is None:  # its condition is never met
                return
            yield deep_merge(spec.config, searched)

    def valid(configs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(
            islice((config for config in configs if _is_valid(config_class, config)), _DRAWS)
        )

    # Where the fixed settings alone can be built, it is a searched value that cannot.
    yield ("config",), "config", valid([spec.config, *(drawn() if space else ())])
    for parameter in space.parameters:
        if not (isinstance(parameter.domain, Choice) or parameter.path[0] == "model"):
            continue
        for probe in parameter.domain.probes():
            told = f"search_space.{parameter.key} = {parameter.domain.value(probe)!r}"
            yield ("search_space", parameter.key), told, valid(drawn(parameter, probe))


def _is_valid(config_class: Any, config: dict[str, Any]) -> bool:
    """Tell whether settings go together; `check_together` tells where none do."""
    try:
        config_class.from_dict(config).validate()
    except ValueError:
        return False
    return True


def _problems(trainable: Any, tried: _Tried) -> str:
    """Return as JSON, for each group of configs, what is wrong until one of them can be made."""
    envs = _Envs(trainable.config_class)
    until = time.monotonic() + BUDGET_S
    problems: list[list[str]] = []
    try:
        for _, _, configs in tried:
            found: list[str] = []
            for config in configs:
                problem = envs.problem_of(trainable, config)
                if problem is None:
                    break
                found.append(problem)
            problems.append(found)
            if time.monotonic() > until:
                break
    finally:
        envs.close()
    return json.dumps(problems)


class _Envs:
    """A slot of each environment that the configs have, made once; of the first `MOST`.

    Args:
        config_class: The class of the configs.
    """

    def __init__(self, config_class: Any) -> None:
        settings = config_class.settings().items()
        self._decide = [name for name, setting in settings if setting.section in _OF_ENV]
        self._made: dict[str, Any] = {}

    def problem_of(self, trainable: Any, given: dict[str, Any]) -> str | None:
        """Return why nothing can be made with a config; None if it can."""
        config = trainable.config_class.from_dict(given)
        if config.env is None:  # data say what the spaces are, and may still have to be recorded
            return None
        try:
            slot = self._slot(config)
        except Exception:  # told by `check_env`
            return None
        if slot is None:
            return None
        try:
            trainable.try_build(config, slot)
        except ValueError as error:
            return str(error)
        except Exception as error:  # of code of the user's
            return f"{type(error).__name__}: {error}"
        return None

    def _slot(self, config: Any) -> Any:
        from trainables.runtime.envs.make import make_slots
        from trainables.runtime.envs.slots import EnvOptions

        key = json.dumps([config[name] for name in self._decide], default=repr)
        if key not in self._made and len(self._made) == MOST:
            return None
        if key not in self._made:
            options = EnvOptions(check=False, mask_key=config.action_mask_key)
            env_config = config.env_config_for(training=True)
            self._made[key] = make_slots(config, config.env, env_config, options=options)
        return self._made[key]

    def close(self) -> None:
        """Close the environments."""
        for env in self._made.values():
            env.close()
