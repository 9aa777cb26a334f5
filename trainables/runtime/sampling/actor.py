"""`EnvRunnerActor`: an env runner in a process of its own, and what it sends of a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import ray
import torch
from gymnasium.vector import VectorEnv

from trainables.core.callables import callable_name, resolve_callable
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.config.reference.uncalled_hooks import ENV_RUNNER, refuse_uncalled
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.logs import logger, set_log_level
from trainables.core.policy.connectors.filter import RunningMoments
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.process_environment import num_threads
from trainables.runtime.devices import runner_device
from trainables.runtime.envs.make import env_name, make_vector_env, training_options
from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv
from trainables.runtime.envs.slot_tasks import set_tasks
from trainables.runtime.sampling.env_runner import EnvRunner, Episodes
from trainables.runtime.sampling.remote_env_runner import RemoteEnvRunner

T = TypeVar("T")


@dataclass(frozen=True)
class RunnerPlan:
    """What an env runner is built from.

    Attributes:
        config: The algorithm's config.
        policy_options: The arguments of its policy.
        seed: Root of its random streams.
        index: From 1.
        video_folder: Where videos go; None if there are none.
        tasks: Of its slots, where an earlier env runner had some.
    """

    config: AlgorithmConfig
    policy_options: dict[str, Any]
    seed: np.random.SeedSequence
    index: int
    video_folder: str | None = None
    tasks: list[Any] | None = None


class SampleReport(NamedTuple):
    """What the driver wants to know of a sample at once; the rollouts are apart.

    Attributes:
        num_env_steps: Rows that do not only reset.
        episodes: Those that ended.
        weights_version: Of the weights that acted.
        moments: What the observation filter has to learn of it; None without one.
    """

    num_env_steps: int
    episodes: Episodes
    weights_version: int
    moments: RunningMoments | None


@dataclass(frozen=True)
class Sample:
    """A fragment of one env runner.

    Attributes:
        index: The env runner, from 1; 0 in process.
        num_env_steps: Rows that do not only reset.
        episodes: Those that ended.
        weights_version: Of the weights that acted.
        rollouts: By module id, or a Ray reference to that.
    """

    index: int
    num_env_steps: int
    episodes: Episodes
    weights_version: int
    rollouts: Any

    def fetch(self) -> dict[str, Rollout]:
        """The rollouts by module id. Their arrays are read-only if they are another process's."""
        fetched: dict[str, Rollout] = (
            ray.get(self.rollouts) if isinstance(self.rollouts, ray.ObjectRef) else self.rollouts
        )
        return fetched


class EnvRunnerActor:
    """An `EnvRunner` in a process of its own. Made empty, so that it can be built again.

    Requests bring the policy's state where the env runner has not seen that version.
    """

    runner: EnvRunner

    def build(self, plan: RunnerPlan) -> None:
        """(Re)build the env runner."""
        config, index = plan.config, plan.index
        set_log_level(config.log_level)
        variables = config.extra_python_environs_for_worker
        torch.set_num_threads(num_threads(variables, config.num_cpus_per_env_runner))
        if hasattr(self, "runner"):
            self.runner.stop()
        env = make_vector_env(
            config.env,
            config.env_config_for(training=True),
            config.num_envs_per_env_runner,
            worker_index=index,
            num_workers=config.num_env_runners,
            options=training_options(config, index, plan.video_folder),
        )
        if plan.tasks is not None:
            set_tasks(env, plan.tasks)  # its first episodes are of these tasks already
        policy = Policy(**plan.policy_options, device=runner_device(config))
        self.runner = make_env_runner(config, policy, env, plan.seed, index)
        logger.info("env runner %d: %d slots of %r", index, env.num_envs, env_name(config.env))

    def ping(self) -> int:
        """This env runner's index."""
        return self.runner.ping()

    def call(
        self, function: Callable[[EnvRunner], T], version: int, state: dict[str, Any] | None
    ) -> T:
        """Apply a function to the env runner."""
        self._take_over(version, state)
        return function(self.runner)

    def sample(
        self,
        num_steps: int,
        exploration: dict[str, Any],
        version: int,
        state: dict[str, Any] | None,
    ) -> tuple[SampleReport, dict[str, Rollout]]:
        """Take over weights, and step every slot `num_steps` times."""
        self._take_over(version, state)
        # Apart from the weights, which are the same for a while: it changes with every round.
        self.runner.policy.set_exploration(**exploration)
        rollouts, episodes = self.runner.sample(num_steps)
        return report_of(self.runner, rollouts, episodes), rollouts

    def _take_over(self, version: int, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.runner.set_policy_state(state, version)


def report_of(runner: EnvRunner, rollouts: dict[str, Rollout], episodes: Episodes) -> SampleReport:
    """Return what is said of a sample that an env runner has just made."""
    has_filter = runner.policy.observations.filter is not None
    return SampleReport(
        rollouts[DEFAULT_MODULE_ID].num_env_steps,
        episodes,
        runner.weights_version,
        runner.take_filter_moments() if has_filter else None,
    )


def make_env_runner(
    config: AlgorithmConfig,
    policy: Policy,
    env: VectorEnv,
    seed: np.random.SeedSequence,
    worker_index: int = 0,
) -> EnvRunner:
    """Return the env runner of an environment: the class of `env_runner_cls` if there is one."""
    fitting = RemoteEnvRunner if isinstance(env, RemoteVectorEnv) else EnvRunner
    return _runner_class(config.env_runner_cls, fitting)(config, policy, env, seed, worker_index)


def check_runner_class(config: AlgorithmConfig) -> None:
    """See that `env_runner_cls` can sample, before there is an environment.

    Raises:
        ConfigError: if it is no class that fits.
    """
    _runner_class(
        config.env_runner_cls, RemoteEnvRunner if config.remote_worker_envs else EnvRunner
    )


def _runner_class(given: str | type | None, fitting: type[EnvRunner]) -> type[EnvRunner]:
    if given is None:
        return fitting
    found = resolve_callable(given) if isinstance(given, str) else given
    if isinstance(found, type) and issubclass(found, fitting):
        refuse_uncalled(found, ENV_RUNNER)
        return found
    name = given if isinstance(given, str) else callable_name(given)
    module = "remote_env_runner" if fitting is RemoteEnvRunner else "env_runner"
    raise ConfigError(
        f"env_runner_cls = {name!r} is not allowed; allowed: a subclass of "
        f"trainables.runtime.sampling.{module}:{fitting.__name__}"
        + (", as remote_worker_envs is set" if fitting is RemoteEnvRunner else "")
    )
