"""One slot of a vector environment: what it is made with, and how.

Also imported by the processes of remote slots, so neither torch nor Ray may be imported here.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

from trainables.core.errors import ConfigError
from trainables.core.features import feature
from trainables.core.suggestions import nearest_name
from trainables.runtime.envs.kinds import has_several_agents, one_is_wanted
from trainables.runtime.envs.sub_environment import SubEnvironment

LIMIT = "max_episode_steps"

# A class whose constructor's first parameter has such a name takes the EnvContext as the reference
# does; any other class takes `env_config` as keyword arguments, as gymnasium does.
CONTEXT_PARAMETERS = {"config", "env_config", "env_context", "context", "env_ctx", "ctx"}
_LIKE_CONTEXT = ("conf", "cfg", "ctx", "context")  # in the name of a parameter that has a default
_CONTEXT_TYPES = ("dict", "mapping", "context", "config", "any")  # in its annotation
_INSTANCE_PARAMETERS = (
    *("worker_index", "vector_index", "remote"),
    *("num_workers", "num_rollout_workers", "num_env_runners"),
)
_NO_CONTEXT = {*_INSTANCE_PARAMETERS, LIMIT, "render_mode"}  # which are given one by one
_TYPO = 0.75  # likeness from which a key is meant to be the parameter


class EnvContext(dict[str, Any]):
    """The `env_config` given to an environment's creator, and which instance it is to be.

    A constructor with keyword arguments gets those of the attributes that it has a parameter for.

    Attributes:
        worker_index: Index of the env runner; 0 samples in the trial's own process.
        vector_index: Index of the slot within the env runner.
        num_workers: Number of env-runner actors.
        remote: Whether the slot has a process of its own.
    """

    def __init__(
        self,
        env_config: dict[str, Any],
        worker_index: int = 0,
        vector_index: int = 0,
        num_workers: int = 0,
        remote: bool = False,
    ):
        super().__init__(env_config)
        self.worker_index, self.vector_index = worker_index, vector_index
        self.num_workers, self.remote = num_workers, remote

    @property
    def num_rollout_workers(self) -> int:
        """Another name of `num_workers`."""
        return self.num_workers

    num_env_runners = num_rollout_workers


@dataclass(frozen=True)
class EnvOptions:
    """How slots are made and stepped, whatever environment is in them.

    Attributes:
        check: Whether to check the first slot of an environment that is not gymnasium's own.
        mask_key: The key of a Dict observation that says which actions are allowed.
        restart: Whether to replace a slot's environment that raises, or whose rewards are no finite
            numbers, instead of ending.
        finite: Whether observations must be finite numbers, too; connectors may make such of them.
        remote: Whether every slot is stepped in a process of its own.
        window: Whether the first slot is shown in a window.
        video: The `Video` that says which episodes of the first slots are recorded; None: none.
    """

    check: bool = False
    mask_key: str = "action_mask"
    restart: bool = False
    finite: bool = True
    remote: bool = False
    window: bool = False
    video: Any = None

    @property
    def renders(self) -> bool:
        """Whether the first slot renders."""
        return self.window or self.video is not None

    @property
    def needs_single_slots(self) -> bool:
        """Whether slots must be environments apart, not one native vector environment."""
        return self.renders or self.restart or self.remote


def is_gymnasiums(spec: EnvSpec | None) -> bool:
    """Tell whether an environment is one of gymnasium's own."""
    entry = None if spec is None else spec.entry_point
    return isinstance(entry, str) and re.split("[.:]", entry)[0] == "gymnasium"


def is_of_known_package(spec: EnvSpec) -> bool:
    """Tell whether an environment is one of gymnasium's own or of a known package.

    These are trusted without being named, and not checked before they are stepped.
    """
    return is_gymnasiums(spec) or feature("games").is_of_known_package(spec)


class MakesAllSlots(ABC):
    """Base of a creator that makes one slot when it is called, and may make all together."""

    @abstractmethod
    def __call__(self, context: dict[str, Any]) -> gym.Env:
        """Make one slot: what an `EnvContext` describes."""

    @abstractmethod
    def vector(self, num_envs: int, env_config: dict[str, Any]) -> VectorEnv | None:
        """Make all slots; None where single slots do more."""


@dataclass
class SlotMaker:
    """Makes the environment of one slot, also in another process.

    Attributes:
        name: The environment's, for messages.
        creator: A spec of gymnasium's registry, a class or a callable.
        env_config: See the setting `env_config`.
        options: How it is made.
    """

    name: str
    creator: EnvSpec | Callable[..., Any]
    env_config: dict[str, Any]
    worker_index: int = 0
    vector_index: int = 0
    num_workers: int = 0
    options: EnvOptions = field(default_factory=EnvOptions)

    def __call__(self) -> gym.Env:
        """Make the environment with all that belongs around it.

        Raises:
            ConfigError: naming the environment and what is wrong with it.
        """
        options, first = self.options, self.vector_index == 0
        if self.is_stock and not options.needs_single_slots:
            return self.make_inner(self.context())
        env: gym.Env = SubEnvironment(self)
        try:
            if options.check and first and not self.is_stock:
                feature("env_checks").check_slot(env, self.name, options.mask_key)
            if options.video is not None and self._renders:
                video = options.video.of_slot(self.vector_index)
                env = feature("video").recorded(env, video, self.name)
        except BaseException:
            env.close()
            raise
        return env

    def __str__(self) -> str:
        return f"env {self.name!r}, slot {self.vector_index} of env runner {self.worker_index}"

    @property
    def is_stock(self) -> bool:
        """Whether it is one of gymnasium's own or of a known package: these need no check."""
        return isinstance(self.creator, EnvSpec) and is_of_known_package(self.creator)

    def context(self) -> EnvContext:
        """Return a new context: an environment may change its own."""
        context = EnvContext(
            self.env_config,
            self.worker_index,
            self.vector_index,
            self.num_workers,
            self.options.remote,
        )
        render_mode = self._render_mode()
        if render_mode is not None:
            context.setdefault("render_mode", render_mode)
        return context

    @property
    def _renders(self) -> bool:
        options = self.options
        num_slots = 1 if options.video is None else options.video.num_slots
        return options.renders and self.vector_index < num_slots

    def _render_mode(self) -> str | None:
        if not self._renders:
            return None
        return "human" if self.options.window else "rgb_array"

    def make_inner(self, context: EnvContext) -> gym.Env:
        """Return the user's environment itself."""
        made, steps = self._made(context)
        if has_several_agents(made):
            raise one_is_wanted(self.name)
        if not isinstance(made, gym.Env):
            raise ConfigError(
                f"env {self.name!r} made a {type(made).__name__}, not a gymnasium.Env"
            )
        made = limited(made, steps)
        if self.options.window and self.vector_index == 0:
            shown: gym.Env = feature("video").with_window(made, self.name)
            return shown
        return made

    def make_any(self) -> Any:
        """Return the user's environment itself, which may have several agents.

        Raises:
            ConfigError: if it has, and was given a time limit that it does not take itself.
        """
        made, steps = self._made(self.context())
        if not has_several_agents(made):
            return limited(made, steps) if isinstance(made, gym.Env) else made
        if steps is not None:
            raise ConfigError(
                f"env_config: {LIMIT} = {steps!r}: env {self.name!r} has several agents and takes "
                f"no {LIMIT}; allowed: an environment that truncates its episodes itself"
            )
        return made

    def _made(self, context: EnvContext) -> tuple[Any, int | None]:
        """Return what the creator makes, and the time limit that is to be put around it."""
        creator = self.creator
        steps = take_limit(creator, context, by_keyword=takes_keywords(creator, context))
        made: Any
        if isinstance(creator, EnvSpec):
            made = gym.make(creator, **self._arguments(creator, context))
        else:
            made = (
                make_of_class(creator, context)
                if isinstance(creator, type)
                else made_by(creator, context)
            )
        return made, steps

    def _arguments(self, spec: EnvSpec, context: EnvContext) -> dict[str, Any]:
        """Return what `gymnasium.make` takes besides the spec."""
        if self.is_stock:
            return dict(context)
        entry: Any = spec.entry_point
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
        arguments = {**context, **instance_arguments(creator, context)}
        parameters = list(inspect.signature(creator).parameters)
        if len(parameters) == 1 and parameters[0] in CONTEXT_PARAMETERS - context.keys():
            arguments = {parameters[0]: context}
            if "max_episode_steps" in context:
                arguments["max_episode_steps"] = context["max_episode_steps"]
        # Gymnasium's checker warns; `check_env` raises one error.
        return {"disable_env_checker": True, **arguments}


def make_of_class(creator: type, context: EnvContext) -> Any:
    """Return an environment of a class.

    Its constructor gets `env_config` as keywords where these fit, as gymnasium's do. Where they do
    not, and one argument is all that it needs, or takes, that is the context: the reference gives
    it to every class, whatever the parameter is called.

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
    if not isinstance(first.default, (dict, type(None))) or first.name in _NO_CONTEXT:
        return None
    is_like = any(part in first.name.lower() for part in _LIKE_CONTEXT)
    is_only = all(other.kind in (other.VAR_POSITIONAL, other.VAR_KEYWORD) for other in others)
    return first.name if is_like or is_only else None


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
    whole = "a first parameter called env_config"
    if first is not None:
        whole = f"its first parameter, {first!r}, if it is called env_config,"
    return (
        f"the constructor takes ({takes}), and gets the entries of env_config as keywords; "
        f"{whole} gets all of it as an EnvContext"
    )


# `env_config={"max_episode_steps": N}` limits environments of every kind. Gymnasium limits what is
# made by an id. Everything else the slot limits here, by the same wrapper: the last step is
# truncated, so values bootstrap from it.


def take_limit(
    creator: EnvSpec | Callable[..., Any], env_config: dict[str, Any], *, by_keyword: bool
) -> int | None:
    """Return the limit that a slot's environment needs around it; None if it needs none.

    A class that takes keyword arguments, and has no parameter for the limit, does not get it: it
    is taken out of `env_config`. One that has limits itself, in steps of its own.

    Args:
        creator: What makes the environment.
        env_config: What it is made with.
        by_keyword: Whether that are its keyword arguments; else it gets the dict, limit and all.

    Raises:
        ConfigError: if the limit is no number of steps.
    """
    if isinstance(creator, EnvSpec) or LIMIT not in env_config:
        return None
    if by_keyword and LIMIT in inspect.signature(creator).parameters:
        return None
    steps = env_config[LIMIT]
    if by_keyword and not _takes_any(creator):
        del env_config[LIMIT]
    check_limit(steps)
    return steps


def check_limit(steps: Any) -> None:
    """Refuse what is no number of steps. A native vector environment would take it as it is.

    Raises:
        ConfigError: saying what is allowed.
    """
    if steps is not None and not (type(steps) is int and steps >= 1):
        raise ConfigError(
            f"env_config: {LIMIT} = {steps!r} is not allowed; allowed: int, >= 1, or None"
        )


def made_by(function: Callable[[Any], Any], env_config: dict[str, Any]) -> Any:
    """Return what a function makes of `env_config`.

    One that hands all of it on as keywords may do so to a class that takes no limit: it is called
    again without.
    """
    try:
        return function(env_config)
    except TypeError as error:
        if f"unexpected keyword argument {LIMIT!r}" not in str(error):
            raise
    env_config.pop(LIMIT, None)
    return function(env_config)


def limited(env: gym.Env, steps: int | None) -> gym.Env:
    """Return an environment with a time limit, unless it has one of its own that is no longer."""
    if steps is None or _has_limit(env, steps):
        return env
    return TimeLimit(env, steps)


def check_vector_class(vector_class: type, env_config: dict[str, Any], name: str) -> None:
    """Refuse a limit for a class of vector environments that does not take one.

    Its slots cannot be limited from outside: they could not be reset alone.

    Raises:
        ConfigError: naming the environment.
    """
    takes = LIMIT in inspect.signature(vector_class).parameters or _takes_any(vector_class)
    if env_config.get(LIMIT) is not None and not takes:
        raise ConfigError(
            f"env_config: {LIMIT} is not possible with env {name!r}: it is one vector environment, "
            f"which must limit its episodes itself; give it a parameter {LIMIT}"
        )


def _takes_any(creator: Callable[..., Any]) -> bool:
    parameters = inspect.signature(creator).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _has_limit(env: gym.Env, steps: int) -> bool:
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, TimeLimit) and layer._max_episode_steps <= steps:
            return True
        layer = layer.env
    return False
