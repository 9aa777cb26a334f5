"""Actors as a feature: processes of Ray that sample, evaluate or learn, and where they fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ray

from trainables.core.config.config import AlgorithmConfig
from trainables.core.features import Feature
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.bundles import Bundles
from trainables.runtime.actors.feasibility import check_cluster


class Actors(Feature):
    """The placement of a trial's processes, and groups whose workers are actors."""

    def prepare(self, config: AlgorithmConfig) -> None:
        """See that all actors of a trial fit on the cluster together."""
        Bundles(config).check_room()

    def resource_request(self, config: AlgorithmConfig, asked: Callable[[], str]) -> Any:
        """Return a trial's bundles, which Tune asks Ray for.

        Args:
            config: The trial's config.
            asked: Returns a sentence on what the trial asks for, for errors.

        Raises:
            ConfigError: If a Ray is joined that can never place them, which Tune would wait for.
        """
        request = Bundles(config).request()
        if ray.is_initialized():
            check_cluster(request.bundles, request.strategy, asked())
        return request

    def resource_help(self, config: AlgorithmConfig) -> str:
        """Say of each kind of process what it needs and which settings decide it."""
        return Bundles(config).help()

    def env_runner_group(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        seed: np.random.SeedSequence,
        video_folder: str | None,
        existing: Any,
        module_slots: Any,
        output: Any,
    ) -> Any:
        """Return the env runners of `num_env_runners`; see `RemoteEnvRunnerGroup`."""
        from trainables.runtime.sampling.remote_group import RemoteEnvRunnerGroup

        return RemoteEnvRunnerGroup(
            config, policies, seed, video_folder, existing, module_slots, output
        )

    def local_worker(self, *args: Any) -> Any:
        """Return the trial's own copy of what env runners in actors have; see `LocalWorker`."""
        from trainables.runtime.actors.remote_workers import LocalWorker

        return LocalWorker(*args)

    def slots(self, makers: Sequence[Any]) -> Any:
        """Return slots in processes of their own (`remote_worker_envs`); see `RemoteVectorEnv`.

        Args:
            makers: What makes the environment of each slot.
        """
        from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv

        return RemoteVectorEnv(makers)

    def slots_runner_class(self) -> type[Any]:
        """Return the class of env runners that step such slots."""
        from trainables.runtime.sampling.remote_env_runner import RemoteEnvRunner

        return RemoteEnvRunner

    def evaluation_group(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        module_slots: Any,
        video_folder: str | None,
        existing: Any,
    ) -> Any:
        """Return the actors of `evaluation_num_env_runners`; see `RemoteEvaluationGroup`."""
        from trainables.runtime.evaluation.remote_group import RemoteEvaluationGroup

        return RemoteEvaluationGroup(config, policies, module_slots, video_folder, existing)

    def learner_group(
        self,
        config: AlgorithmConfig,
        policies: dict[str, Policy],
        make_learner: Callable[..., Any],
        seed: int,
        existing: Any,
        make_parts: Callable[..., Any],
    ) -> Any:
        """Return the learners of `num_learners`; see `RemoteLearnerGroup`."""
        from trainables.runtime.learners.remote_group import RemoteLearnerGroup

        return RemoteLearnerGroup(config, policies, make_learner, seed, existing, make_parts)


FEATURE = Actors()
