"""Environments by name, class or callable, as vector environments that reset on the next step."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Collection
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from trainables.core.checkpoint import CheckpointError, callable_name, resolve_callable
from trainables.core.settings import ConfigError

EnvSpec = str | type | Callable[..., Any] | None

# A class whose constructor's first parameter has such a name takes the EnvContext as the reference
# does; any other class takes `env_config` as keyword arguments, as gymnasium does.
_CONTEXT_PARAMETERS = {"config", "env_config", "env_context", "context", "env_ctx", "ctx"}


class EnvContext(dict[str, Any]):
    """The `env_config` given to an environment's creator, and which instance it is to be.

    Attributes:
        worker_index: Index of the env runner; 0 samples in the trial's own process.
        vector_index: Index of the slot within the env runner.
        num_workers: Number of env-runner actors.
        remote: Whether the slot has a process of its own. Never so far.
    """

    def __init__(
        self,
        env_config: dict[str, Any],
        worker_index: int = 0,
        vector_index: int = 0,
        num_workers: int = 0,
    ):
        super().__init__(env_config)
        self.worker_index, self.vector_index = worker_index, vector_index
        self.num_workers, self.remote = num_workers, False


def env_name(env: EnvSpec) -> str:
    """How an environment is called in messages and metadata."""
    return env if isinstance(env, str) else callable_name(env) if env is not None else "None"


def make_vector_env(
    env: EnvSpec,
    env_config: dict[str, Any] | None = None,
    num_envs: int = 1,
    *,
    worker_index: int = 0,
    num_workers: int = 0,
) -> VectorEnv:
    """Make `num_envs` slots of an environment, stepped together in this process.

    Args:
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_envs: Number of slots.
        worker_index: Index of the env runner.
        num_workers: Number of env-runner actors.

    Returns:
        A vector environment whose slots reset on the step after an episode's end.

    Raises:
        ConfigError: naming the environment and what is wrong with it.
    """
    env_config = dict(env_config or {})
    if isinstance(env, str) and env.startswith("envpool:"):
        from trainables.runtime.envpool import make_envpool

        return make_envpool(env.removeprefix("envpool:"), env_config, num_envs)
    try:
        vector_env = _make(env, env_config, num_envs, worker_index, num_workers)
    except ConfigError:
        raise
    except Exception as error:  # whatever a user's constructor raises is theirs to read
        raise ConfigError(
            f"env {env_name(env)!r} cannot be made with env_config={env_config!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    mode = vector_env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    if mode != AutoresetMode.NEXT_STEP:
        vector_env.close()
        raise ConfigError(
            f"env {env_name(env)!r} resets in mode {mode}; only AutoresetMode.NEXT_STEP is "
            "supported"
        )
    return vector_env


def _make(
    env: EnvSpec, env_config: dict[str, Any], num_envs: int, worker_index: int, num_workers: int
) -> VectorEnv:
    creator = _resolve(env)
    if isinstance(creator, str):
        return _make_registered(creator, env_config, num_envs)
    if isinstance(creator, type) and issubclass(creator, VectorEnv):
        vector_class: Any = creator
        return vector_class(num_envs=num_envs, **env_config)

    def maker(slot: int) -> Callable[[], gym.Env]:
        context = EnvContext(env_config, worker_index, slot, num_workers)
        return lambda: _checked_env(_call(creator, context), env)

    makers = [maker(slot) for slot in range(num_envs)]
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP)


def _make_registered(env_id: str, env_config: dict[str, Any], num_envs: int) -> VectorEnv:
    """A gymnasium id: the native vector environment where there is one, else slots in a loop."""
    spec = gym.spec(env_id)
    native = spec.vector_entry_point is not None and _is_stock(env_config)
    if native:
        return gym.make_vec(
            env_id, num_envs=num_envs, vectorization_mode="vector_entry_point", **env_config
        )
    makers = [lambda: gym.make(env_id, **env_config)] * num_envs
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.NEXT_STEP)


def _is_stock(env_config: dict[str, Any]) -> bool:
    """Whether the native vector environment takes these arguments: it does not render."""
    return "render_mode" not in env_config


def _resolve(env: EnvSpec) -> str | Callable[..., Any]:
    """A gymnasium id, or what makes one environment (or a VectorEnv class)."""
    if env is None:
        raise ConfigError("env is not set: give an environment, e.g. env='CartPole-v1'")
    if not isinstance(env, str):
        return env
    registered = _tune_creator(env)
    if registered is not None:
        return registered
    if ":" in env and env not in gym.registry:
        return _resolve_in_module(env)
    if env not in gym.registry:
        raise _unknown(env)
    return env


def _resolve_in_module(env: str) -> str | Callable[..., Any]:
    """`module:name`: a class or callable, or a gymnasium id that importing the module registers."""
    module, _, name = env.partition(":")
    try:
        return resolve_callable(env)
    except ConfigError:
        if module in sys.modules and name in gym.registry:
            return name
        raise


def _unknown(env: str) -> ConfigError:
    near = difflib.get_close_matches(env, gym.registry.keys(), n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ConfigError(
        f"env {env!r} is unknown: it is no gymnasium id, no name given to tune.register_env and no "
        f"'module:name'{hint}"
    )


def _tune_creator(name: str) -> Callable[..., Any] | None:
    """What `tune.register_env` registered under a name, looked up only if Ray is in use."""
    if "ray.tune" not in sys.modules:
        return None
    from ray.tune.registry import ENV_CREATOR, _global_registry

    if not _global_registry.contains(ENV_CREATOR, name):
        return None
    return _global_registry.get(ENV_CREATOR, name)


def _call(creator: Callable[..., Any], context: EnvContext) -> Any:
    if isinstance(creator, type):
        first = next(iter(inspect.signature(creator).parameters), None)
        if first not in _CONTEXT_PARAMETERS:
            return creator(**context)
    return creator(context)


def _checked_env(made: Any, env: EnvSpec) -> gym.Env:
    if isinstance(made, gym.Env):
        return made
    raise ConfigError(f"env {env_name(env)!r} made a {type(made).__name__}, not a gymnasium.Env")


def is_name_safe(env: str) -> bool:
    """Whether resolving an environment's name imports nothing that the name itself chooses."""
    return ":" not in env or env.startswith("envpool:") or _tune_creator(env) is not None


def trusted_env(env: EnvSpec, trust: Collection[str], what: str) -> None:
    """Check that an environment that a checkpoint names may be made.

    Raises:
        CheckpointError: if making it would import a module that the name chooses and that is not
            in `trust`.
    """
    if isinstance(env, str) and not is_name_safe(env) and env not in trust:
        raise CheckpointError(
            f"{what} names the environment {env!r}, whose module would be imported; if you trust "
            f"it, pass trust=[{env!r}]"
        )
