"""The class that a checkpoint was saved by, where it is not one of ours: named, and asked for.

It is used where nobody need vouch for the checkpoint: if it is the class that `from_checkpoint` is
called on, or one that was registered. Otherwise its name has to be in `trust`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from trainables import registry
from trainables.core.callables import UntrustedName, resolve_callable
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.settings import CODE
from trainables.core.trust import Doubt
from trainables.lifecycle.checkpoints import ALGORITHM_CLASS, CONFIG_CLASS


class Classes(NamedTuple):
    """What a checkpoint is rebuilt as.

    Attributes:
        algorithm: The class; None as long as it is not trusted.
        config: Its config class; that of the nearest class of ours as long as it is not trusted.
        vouched: The config class that judges settings: one that needed no trust.
        doubts: What needs trust of the two.
    """

    algorithm: type | None
    config: type[AlgorithmConfig]
    vouched: type[AlgorithmConfig]
    doubts: list[Doubt]


def classes_of(state: Mapping[str, Any], asked: Any, trust: Collection[str], what: str) -> Classes:
    """Return the classes that a state is of.

    Args:
        state: Of `get_state`, or of a checkpoint. Older ones name no class: they are of the
            registered algorithm that was nearest.
        asked: The class that it is to be restored by.
        trust: See `from_checkpoint`.
        what: The state, in words.

    Raises:
        CheckpointError: if it is of another algorithm than the one asked for.
    """
    doubts: list[Doubt] = []
    given: Any = state.get(ALGORITHM_CLASS)
    nearest = str(state["algorithm"])
    known: Any = (
        registry.get_algorithm(nearest) if given is None else _known_algorithm(given, asked)
    )
    algorithm: Any = known or _trusted(ALGORITHM_CLASS, given, trust, doubts)
    if not (algorithm is None or _is_subclass(algorithm, asked)):
        raise CheckpointError(_other(what, given or nearest, asked))
    if algorithm is None:
        _check_findable(given, what)
    if known is None and nearest in registry.algorithm_names():
        known = registry.get_algorithm(nearest)
    vouched = AlgorithmConfig if known is None else known.config_class
    config = vouched if algorithm is None else algorithm.config_class
    named = state.get(CONFIG_CLASS)
    if named is not None and not _is_known_config(named, config):
        found = _trusted(CONFIG_CLASS, named, trust, doubts)
        if not (found is None or _is_subclass(found, config)):
            raise CheckpointError(f"{what}: {named} is no subclass of {config.__name__}")
        config = found or config
    return Classes(algorithm, config, vouched, doubts)


def _is_subclass(found: Any, of: type) -> bool:
    return isinstance(found, type) and issubclass(found, of)


def _known_algorithm(given: Any, asked: type) -> Any:
    """Return a class that needs no trust; None if it is none of these."""
    if not isinstance(given, UntrustedName):  # of `get_state`: the class itself
        return given
    _, _, qualname = given.partition(":")
    if asked.__qualname__ == qualname and not registry.is_ours(asked):
        return asked
    return registry.registered_class(given)


def _is_known_config(named: Any, config: type) -> bool:
    """Tell whether it is the algorithm's own config class, which the state need not name."""
    return isinstance(named, UntrustedName) and named.partition(":")[2] == config.__qualname__


def _trusted(setting: str, named: Any, trust: Collection[str], doubts: list[Doubt]) -> Any:
    """Return the class, if it is a class or its name is trusted; adds the doubt if it is not."""
    if not isinstance(named, UntrustedName):
        return named
    if named in trust:
        return resolve_callable(named)
    doubts.append(Doubt(setting, named, CODE, named))
    return None


def _check_findable(given: str, what: str) -> None:
    module, _, qualname = given.partition(":")
    of_another_script = module == "__main__" and not hasattr(sys.modules[module], qualname)
    if "<" in given or of_another_script:
        raise CheckpointError(
            f"{what} is of {given}, which no import finds: call from_checkpoint on the class "
            "itself, or register_algorithm(…) it before"
        )


def _other(what: str, theirs: object, asked: type) -> str:
    told = f"{what} is of {theirs}, not of {asked.__name__}"
    if registry.is_ours(asked):
        return told
    return f"{told}: {asked.__name__}(config=…).restore(…) takes over what was learned"
