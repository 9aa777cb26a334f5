"""`Callbacks`: the base of users' classes, whose methods are called as an algorithm runs.

A hook gets keyword arguments; a method takes those that it has parameters for, or all with
`**kwargs`. What one raises ends the trial, with its class and hook.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.config.callbacks import HOOKS, entries
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.callbacks.hooks import Hooks

if TYPE_CHECKING:
    from trainables.core.data.agents_episode import AgentsEpisode
    from trainables.core.data.batch import Rollout
    from trainables.core.networks.modules import PolicyModule
    from trainables.core.policy.policy import Policy
    from trainables.runtime.callbacks.custom_metrics import MetricsLogger
    from trainables.runtime.callbacks.episode import Episode
    from trainables.runtime.envs.kinds import AnyVectorEnv
    from trainables.runtime.evaluation.runner import EvaluationRunner
    from trainables.runtime.sampling.group import EnvRunnerGroup
    from trainables.runtime.sampling.sampling_worker import SamplingWorker

# Older names of hooks and of their arguments.
_OLDER_HOOKS = {"on_workers_recreated": "on_env_runners_recreated"}
_OLDER_ARGUMENTS = {
    "worker": "env_runner",
    "base_env": "env",
    "trainer": "algorithm",
    "worker_set": "env_runner_group",
    "worker_ids": "env_runner_indices",
}
# Hooks of the reference that are none here.
_CONNECTOR = "what happens to rollouts before learning is a learner_connector"
_ENVIRONMENT = "give an environment what it needs in env_config"
_OFFLINE = "offline evaluation is not supported yet"
_REFUSED = {
    "on_postprocess_trajectory": _CONNECTOR,
    "on_learn_on_batch": _CONNECTOR,
    "on_create_policy": "on_algorithm_init finds the policies in algorithm.policies",
    "on_sub_environment_created": _ENVIRONMENT,
    "on_environment_created": _ENVIRONMENT,
    "on_evaluate_offline_start": _OFFLINE,
    "on_evaluate_offline_end": _OFFLINE,
    "on_offline_eval_runners_recreated": _OFFLINE,
}


class CallbackError(ConfigError):
    """A user's callback raised, or did what it must not."""


class Callbacks:
    """Override the hooks that you need, and give the class as `callbacks_class`.

    The algorithm has one object of the class, every env runner one (made anew with it), and
    evaluation one: they share nothing, whether env runners are actors or not. Attributes of the
    objects are in no checkpoint. Every hook also gets what a later version may add: end the
    parameters with `**kwargs`, or name only those that you need.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, value in vars(cls).items():
            if name.startswith("on_") and callable(value):
                _check_hook(cls.__qualname__, name)

    def on_algorithm_init(
        self, *, algorithm: Any, metrics_logger: MetricsLogger, **kwargs: Any
    ) -> None:
        """The algorithm is set up; a checkpoint is loaded later."""

    def on_checkpoint_loaded(
        self, *, algorithm: Any, metrics_logger: MetricsLogger, **kwargs: Any
    ) -> None:
        """The algorithm has taken over a checkpoint's state, its own or (as a clone) another's."""

    def on_train_result(
        self,
        *,
        algorithm: Any,
        result: dict[str, Any],
        metrics_logger: MetricsLogger,
        **kwargs: Any,
    ) -> None:
        """A result is there; what this changes in it, or adds to it, Tune gets.

        Args:
            algorithm: The algorithm.
            result: Flat. New values must be finite numbers; none may be removed.
            metrics_logger: What is logged is in this result.
            kwargs: What a later version may add.
        """

    def on_evaluate_start(
        self, *, algorithm: Any, metrics_logger: MetricsLogger, **kwargs: Any
    ) -> None:
        """An evaluation begins."""

    def on_evaluate_end(
        self,
        *,
        algorithm: Any,
        evaluation_metrics: dict[str, Any],
        metrics_logger: MetricsLogger,
        **kwargs: Any,
    ) -> None:
        """An evaluation has ended; `evaluation_metrics` may be changed as a result may.

        Not called if no evaluation env runner has answered in time.
        """

    def on_env_runners_recreated(
        self,
        *,
        algorithm: Any,
        env_runner_group: EnvRunnerGroup,
        env_runner_indices: list[int],
        is_evaluation: bool,
        metrics_logger: MetricsLogger,
        **kwargs: Any,
    ) -> None:
        """Env runners that had died are there again, with these (1-based) indices."""

    def on_episode_created(
        self,
        *,
        episode: Episode | AgentsEpisode,
        env_runner: SamplingWorker | EvaluationRunner | None,
        metrics_logger: MetricsLogger,
        env: AnyVectorEnv,
        env_index: int,
        rl_module: PolicyModule | dict[str, PolicyModule],
        policies: dict[str, Policy],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """An episode is there, before its start; its environment has been reset.

        Args:
            episode: The episode, as it now is. With several agents it has none yet: which policies
                act for its first ones is asked after this.
            env_runner: What samples it, in an evaluation what plays it; None where a policy is
                evaluated without an algorithm.
            metrics_logger: The logger of custom metrics.
            env: All slots.
            env_index: The episode's slot.
            rl_module: The networks that act in the episode; with several agents, all by module id.
            policies: The policies that act in the slots, by module id; see `episode.module_id`, or
                with several agents `episode.policy_for`.
            is_evaluation: Whether this is an evaluation.
            kwargs: What a later version may add.
        """

    def on_episode_start(
        self,
        *,
        episode: Episode | AgentsEpisode,
        env_runner: SamplingWorker | EvaluationRunner | None,
        metrics_logger: MetricsLogger,
        env: AnyVectorEnv,
        env_index: int,
        rl_module: PolicyModule | dict[str, PolicyModule],
        policies: dict[str, Policy],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """An episode starts: it has its first observation. Arguments: see `on_episode_created`."""

    def on_episode_step(
        self,
        *,
        episode: Episode | AgentsEpisode,
        env_runner: SamplingWorker | EvaluationRunner | None,
        metrics_logger: MetricsLogger,
        env: AnyVectorEnv,
        env_index: int,
        rl_module: PolicyModule | dict[str, PolicyModule],
        policies: dict[str, Policy],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """A step was made, also the last one. Arguments: see `on_episode_created`."""

    def on_episode_end(
        self,
        *,
        episode: Episode | AgentsEpisode,
        env_runner: SamplingWorker | EvaluationRunner | None,
        metrics_logger: MetricsLogger,
        env: AnyVectorEnv,
        env_index: int,
        rl_module: PolicyModule | dict[str, PolicyModule],
        policies: dict[str, Policy],
        is_evaluation: bool,
        **kwargs: Any,
    ) -> None:
        """The last step was made. Arguments: see `on_episode_created`.

        `episode.custom_metrics` is taken after this. An episode whose environment or env runner
        fails never comes here.
        """

    def on_sample_end(
        self,
        *,
        env_runner: SamplingWorker,
        samples: dict[str, Rollout],
        metrics_logger: MetricsLogger,
        **kwargs: Any,
    ) -> None:
        """A fragment was sampled for training: rollouts `[T, N]` by module id.

        With several agents N is the number of a module's lanes.
        """


DefaultCallbacks = Callbacks


def _check_hook(owner: str, name: str) -> None:
    """Raise unless there is a hook of that name."""
    if name in HOOKS or name in _OLDER_HOOKS:
        return
    if name in _REFUSED:
        raise ConfigError(f"{owner}.{name} is no hook here: {_REFUSED[name]}")
    hint = suggestion(name, HOOKS) or f"; hooks: {', '.join(HOOKS)}"
    raise ConfigError(f"{owner}.{name}: there is no such hook{hint}")


class Call(NamedTuple):
    """A method or function that overrides a hook.

    Attributes:
        name: What errors call it.
        function: The method or function itself.
        arguments: Its parameters, each with the name of the argument that it gets.
        takes_all: Whether it also gets all others.
    """

    name: str
    function: Callable[..., Any]
    arguments: dict[str, str]
    takes_all: bool

    def __call__(self, given: dict[str, Any]) -> None:
        mine = {parameter: given[name] for parameter, name in self.arguments.items()}
        try:
            self.function(**(given | mine if self.takes_all else mine))
        except Exception as error:  # whatever a user's code raises is theirs to read
            said = f"{type(error).__name__}: {error}"
            raise CallbackError(f"callback {self.name} raised {said}") from error


class CallbackSet(Hooks):
    """The callbacks of a config: an object of each class, and the functions of single hooks.

    Args:
        config: The config, whose settings of section `callbacks` name them.

    Raises:
        ConfigError: naming what is no callback.
        CallbackError: if a class cannot be made.
    """

    def __init__(self, config: AlgorithmConfig):
        self.objects = [_made(entry) for entry in entries(config.callbacks_class)]
        self._calls: dict[str, list[Call]] = {}
        for made in self.objects:
            for method, hook in ({name: name for name in HOOKS} | _OLDER_HOOKS).items():
                overridden = getattr(type(made), method, None)
                if overridden is not getattr(Callbacks, method, None):
                    name = f"{type(made).__qualname__}.{method}"
                    self._add(hook, name, getattr(made, method))
        for hook in HOOKS:
            for entry in entries(config[hook]):
                self._calls.setdefault(hook, []).append(hook_call(hook, entry))

    def _add(self, hook: str, name: str, function: Callable[..., Any]) -> None:
        self._calls.setdefault(hook, []).append(_call(hook, name, function))

    def has(self, *hooks: str) -> bool:
        """Tell whether any of these hooks is overridden."""
        return any(hook in self._calls for hook in hooks)

    def __call__(self, hook: str, **arguments: Any) -> None:
        """Call a hook of all callbacks, in order.

        Raises:
            CallbackError: naming the class and the hook that raised.
        """
        for call in self.calls(hook):
            call(arguments)

    def calls(self, hook: str) -> Sequence[Call]:
        """Return what overrides a hook, in order."""
        return self._calls.get(hook, ())


def callbacks_type(entry: Any) -> type[Callbacks]:
    """Return the class that an entry of `callbacks_class` is, or names.

    Raises:
        ConfigError: if there is no such class, or it is of another kind.
    """
    found = resolve_callable(entry) if isinstance(entry, str) else entry
    if not (isinstance(found, type) and issubclass(found, Callbacks)):
        raise ConfigError(f"callbacks_class = {entry!r} is no subclass of trainables.Callbacks")
    return found


def hook_call(hook: str, entry: Any) -> Call:
    """Return the function that an entry of a single hook is, or names, and how it is called.

    Raises:
        ConfigError: if there is no such function, or the hook does not give what it needs.
    """
    found = resolve_callable(entry) if isinstance(entry, str) else entry
    if not callable(found):
        raise ConfigError(f"{hook} = {entry!r} is no function")
    return _call(hook, f"{hook} = {callable_name(found)}", found)


def _made(entry: Any) -> Callbacks:
    found = callbacks_type(entry)
    try:
        return found()
    except ConfigError:
        raise
    except Exception as error:  # whatever a user's code raises is theirs to read
        said = f"{type(error).__name__}: {error}"
        raise CallbackError(f"callback {found.__qualname__} cannot be made: {said}") from error


def _call(hook: str, name: str, function: Callable[..., Any]) -> Call:
    """Return what a function's signature says of how to call it.

    Raises:
        ConfigError: if it needs an argument that the hook does not have.
    """
    offered = list(inspect.signature(getattr(Callbacks, hook)).parameters)[1:-1]
    arguments, takes_all = {}, False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of some functions that are written in C
        raise ConfigError(f"callback {name} does not say what arguments it takes") from None
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
            continue
        argument = _OLDER_ARGUMENTS.get(parameter.name, parameter.name)
        by_name = parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if by_name and argument in offered:
            arguments[parameter.name] = argument
        elif (
            parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        ):
            raise ConfigError(
                f"callback {name} needs {parameter.name!r}, which {hook} does not give; it gives "
                f"{', '.join(offered)} by keyword"
            )
    return Call(name, function, arguments, takes_all)
