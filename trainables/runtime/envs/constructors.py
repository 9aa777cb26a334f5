"""How the constructor of an environment's class is called: with the context, or with keywords.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from inspect import Parameter
from typing import Any

from trainables.core.suggestions import nearest_name
from trainables.runtime.envs.context import EnvContext
from trainables.runtime.envs.time_limits import LIMIT

# A class whose constructor's first parameter has such a name takes the EnvContext as the reference
# does; any other class takes `env_config` as keyword arguments, as gymnasium does.
CONTEXT_PARAMETERS = {"config", "env_config", "env_context", "context", "env_ctx", "ctx"}
_LIKE_CONTEXT = ("conf", "cfg", "ctx", "context")  # in the name of a parameter that has a default
_CONTEXT_TYPES = ("dict", "mapping", "context", "config", "any")  # in its annotation
_INSTANCE_PARAMETERS = (
    *("worker_index", "vector_index", "remote"),
    *("num_workers", "num_rollout_workers", "num_env_runners"),
)
_TYPO = 0.75  # likeness from which a key is meant to be the parameter


def make_of_class(creator: type, context: EnvContext) -> Any:
    """Return an environment of a class.

    Its constructor gets `env_config` as keywords where these fit, as gymnasium's do. Where they do
    not, and one argument is all that it needs, that is the context: the reference gives it to every
    class, whatever the parameter is called.

    Raises:
        TypeError: saying what it takes and what it was given.
    """
    parameters = inspect.signature(creator).parameters
    if next(iter(parameters), None) in CONTEXT_PARAMETERS:
        return creator(context)
    arguments = {**context, **instance_arguments(creator, context)}
    if _fit(creator, arguments):
        return creator(**arguments)
    taker = _taker([*parameters.values()], context)
    if taker is None:
        try:
            return creator(**arguments)
        except TypeError as error:  # which names what it lacks, or does not know
            raise TypeError(f"{error}; {_rule(parameters)}") from None
    try:
        return creator(context)
    except (TypeError, AttributeError) as error:  # perhaps it was no context that it wanted
        raise type(error)(
            f"{error}; {taker!r} was given all of env_config, an EnvContext, since its entries do "
            f"not fit as keywords: {_rule(parameters)}"
        ) from error


def takes_keywords(creator: Any, context: EnvContext) -> bool:
    """Tell whether a creator gets the entries of its context; any other gets the context.

    A time limit is none of them, unless a constructor has a parameter for it.
    """
    if not isinstance(creator, type):
        return False
    parameters = inspect.signature(creator).parameters
    if next(iter(parameters), None) in CONTEXT_PARAMETERS:
        return False
    arguments = {**context, **instance_arguments(creator, context)}
    if LIMIT not in parameters:
        arguments.pop(LIMIT, None)
    return _fit(creator, arguments) or _taker([*parameters.values()], context) is None


def instance_arguments(creator: Any, context: EnvContext) -> dict[str, Any]:
    """Return which instance it is to be, as far as the constructor has parameters for it."""
    parameters = inspect.signature(creator).parameters
    names = [n for n in _INSTANCE_PARAMETERS if n in parameters and n not in context]
    return {name: getattr(context, name) for name in names}


def _fit(creator: type, arguments: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(creator).bind(**arguments)
    except TypeError:
        return False
    return True


def _taker(parameters: list[Parameter], context: Collection[str]) -> str | None:
    """Return the one parameter that may take the context, None if there is none."""
    if not parameters:
        return None
    first, *others = parameters
    if first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD) or any(map(_is_needed, others)):
        return None
    is_typo = nearest_name(first.name, context, cutoff=_TYPO) is not None
    if is_typo or not _may_be_context(first.annotation):
        return None
    if _is_needed(first) or first.kind is first.VAR_POSITIONAL:
        return first.name
    is_like = any(part in first.name.lower() for part in _LIKE_CONTEXT)
    return first.name if is_like and isinstance(first.default, (dict, type(None))) else None


def _is_needed(parameter: Parameter) -> bool:
    varies = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in varies


def _may_be_context(annotation: Any) -> bool:
    if annotation is Parameter.empty:
        return True
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return any(part in f"{text or annotation}".lower() for part in _CONTEXT_TYPES)


def _rule(parameters: Mapping[str, Parameter]) -> str:
    """Return what a constructor is given, in words."""
    takes = ", ".join(str(parameter) for parameter in parameters.values())
    first = next(iter(parameters), None)
    rename = "a first parameter" if first is None else f"its first parameter, {first!r}, if it is"
    return (
        f"the constructor takes ({takes}), and gets the entries of env_config as keywords; "
        f"{rename} called env_config, gets all of it as an EnvContext"
    )
