"""Which class an env runner is of: the setting `env_runner_cls`, or the one that fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from trainables.core.callables import callable_name, refuse_uncalled, resolve_callable
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv
from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv
from trainables.runtime.sampling.agents.runner import AgentsEnvRunner
from trainables.runtime.sampling.env_runner import EnvRunner
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.remote_env_runner import RemoteEnvRunner
from trainables.runtime.sampling.sampling_worker import SamplingWorker


def make_env_runner(
    config: AlgorithmConfig,
    policies: Mapping[str, Policy],
    env: VectorEnv | AgentsVectorEnv,
    seed: np.random.SeedSequence,
    worker_index: int = 0,
    module_slots: ModuleSlots | None = None,
    output: Any = None,
) -> SamplingWorker:
    """Return the env runner of an environment: the class of `env_runner_cls` if there is one.

    It records what it samples if `output` says where to.
    """
    fitting: Any = RemoteEnvRunner if isinstance(env, RemoteVectorEnv) else EnvRunner
    if isinstance(env, AgentsVectorEnv):
        fitting = AgentsEnvRunner
    runner_class = _runner_class(config.env_runner_cls, fitting)
    runner: SamplingWorker = runner_class(config, policies, env, seed, worker_index, module_slots)
    if output is not None:
        runner.write_output(output)
    return runner


def check_runner_class(config: AlgorithmConfig) -> None:
    """See that `env_runner_cls` can sample, before there is an environment.

    Raises:
        ConfigError: if it is no class that fits.
    """
    fitting: type[SamplingWorker] = RemoteEnvRunner if config.remote_worker_envs else EnvRunner
    if config.is_multi_agent():
        fitting = AgentsEnvRunner
    _runner_class(config.env_runner_cls, fitting)


def _runner_class(given: str | type | None, fitting: type[Any]) -> type[Any]:
    if given is None:
        return fitting
    found = resolve_callable(given) if isinstance(given, str) else given
    if isinstance(found, type) and issubclass(found, fitting):
        refuse_uncalled(found, "ENV_RUNNER")
        return found
    name = given if isinstance(given, str) else callable_name(given)
    raise ConfigError(
        f"env_runner_cls = {name!r} is not allowed; allowed: a subclass of "
        f"{fitting.__module__}:{fitting.__name__}"
        + (", as remote_worker_envs is set" if fitting is RemoteEnvRunner else "")
    )
