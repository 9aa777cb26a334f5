"""`EnvRunnerGroup`: samples in process, or over Ray actors inside the trial's placement group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import ray
import torch
from gymnasium.vector import VectorEnv
from ray.util import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainables.core.batch import Rollout
from trainables.core.config import AlgorithmConfig
from trainables.core.connectors import RunningMoments
from trainables.core.policy import Policy
from trainables.core.settings import ConfigError
from trainables.runtime.env_runner import EnvRunner, Episodes
from trainables.runtime.envs import make_vector_env

T = TypeVar("T")


class EnvRunnerActor:
    """An `EnvRunner` in a process of its own. Made empty, so that it can be built again."""

    runner: EnvRunner

    def build(
        self,
        config: AlgorithmConfig,
        policy_options: dict[str, Any],
        seed: np.random.SeedSequence,
        worker_index: int,
    ) -> int:
        """(Re)build the env runner; returns its index when the environments are made."""
        torch.set_num_threads(max(1, int(config.num_cpus_per_env_runner)))
        if hasattr(self, "runner"):
            self.runner.stop()
        env = make_vector_env(
            config.env,
            config.env_config,
            config.num_envs_per_env_runner,
            worker_index=worker_index,
            num_workers=config.num_env_runners,
        )
        self.runner = EnvRunner(config, Policy(**policy_options), env, seed, worker_index)
        return self.runner.ping()

    def call(self, function: Callable[[EnvRunner], T]) -> T:
        """Apply a function to the env runner."""
        return function(self.runner)

    def sample(
        self, num_steps: int, exploration: dict[str, Any]
    ) -> tuple[dict[str, Rollout], Episodes, RunningMoments | None]:
        """A rollout, its episodes, and what the observation filter has to learn of it."""
        # Comes with the call: with the weights it would be a round late.
        self.runner.policy.set_exploration(**exploration)
        rollouts, episodes = self.runner.sample(num_steps)
        has_filter = self.runner.policy.filter is not None
        return rollouts, episodes, self.runner.take_filter_moments() if has_filter else None

    def set_policy_state(self, state: dict[str, Any], version: int) -> None:
        """Take over weights and filter statistics."""
        self.runner.set_policy_state(state, version)


class EnvRunnerGroup:
    """All env runners of an algorithm behind one `sample`.

    Args:
        config: The algorithm's config.
        policy: The learner's policy; the in-process runner shares it, actors copy it.
        env: The in-process runner's environment; None with actors.
        seed: Root of the runners' random streams.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
    ):
        self._actors: list[Any] = []
        self.local_env_runner: EnvRunner | None = None
        try:
            self._start(config, policy, env, seed)
        except BaseException:
            self.stop()  # else the actors would keep their resources for ever
            raise

    def _start(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
    ) -> None:
        self._config, self._policy = config, policy
        self._fragment_lengths = [
            config.get_rollout_fragment_length(index) for index in range(config.num_env_runners + 1)
        ]
        self._pending_moments: list[RunningMoments] = []
        self.weights_version = 0
        if config.num_env_runners == 0:
            assert env is not None
            self.local_env_runner = EnvRunner(config, policy, env, _child(seed, 0))
            return
        if not self._actors:
            self._actors = _start_actors(config)
        options = {
            "observation_space": policy.observation_space,
            "action_space": policy.action_space,
            **policy.options,
        }
        self._get(
            [
                actor.build.remote(config, options, _child(seed, index), index)
                for index, actor in enumerate(self._actors, start=1)
            ]
        )
        self._push_policy()

    def rebuild(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv | None,
        seed: np.random.SeedSequence,
    ) -> None:
        """Start over with another config, in the same actor processes where they fit."""
        if _processes(config) != _processes(self._config):
            self.stop()
        elif self.local_env_runner is not None:
            self.local_env_runner.stop()
            self.local_env_runner = None
        self._start(config, policy, env, seed)

    # ------------------------------------------------------------------ sampling

    def sample(self) -> tuple[dict[str, Rollout], Episodes]:
        """One fragment from every env runner, side by side and ordered by index.

        Filter statistics are gathered but stay as they are until `sync_weights`.
        """
        if self.local_env_runner is not None:
            result = self.local_env_runner.sample(self._fragment_lengths[0])
            if self._policy.filter is not None:
                self._pending_moments.append(self.local_env_runner.take_filter_moments())
            return result
        results = self._get(
            [
                actor.sample.remote(self._fragment_lengths[index], self._policy.exploration)
                for index, actor in enumerate(self._actors, start=1)
            ]
        )
        episodes = Episodes()
        for _, part, moments in results:
            episodes.extend(part)
            if moments is not None:
                self._pending_moments.append(moments)
        modules = results[0][0]
        rollouts = {
            m: Rollout.concatenate([rollout[m] for rollout, _, _ in results]) for m in modules
        }
        return rollouts, episodes

    def sync_weights(self) -> None:
        """Give every env runner the learner's weights and the merged filter statistics."""
        self.weights_version += 1
        if self._policy.filter is not None:
            for moments in self._pending_moments:
                self._policy.filter.merge(moments)
        self._pending_moments = []
        if self.local_env_runner is not None:
            self.local_env_runner.weights_version = self.weights_version  # it shares the policy
        else:
            self._push_policy()

    def _push_policy(self) -> None:
        state = ray.put(self._policy.get_state())  # one object for all actors
        version = self.weights_version
        self._get([actor.set_policy_state.remote(state, version) for actor in self._actors])

    # ------------------------------------------------------------------ access

    def foreach_env_runner(
        self, function: Callable[[EnvRunner], T], local_env_runner: bool = True
    ) -> list[T]:
        """Apply a function to every env runner; results in order of their index.

        Args:
            function: Sent to the actors, so it must be serialisable by Ray.
            local_env_runner: Whether the in-process one takes part.
        """
        local = [self.local_env_runner] if self.local_env_runner and local_env_runner else []
        remote = self._get([actor.call.remote(function) for actor in self._actors])
        return [function(runner) for runner in local] + remote

    foreach_worker = foreach_env_runner

    def foreach_worker_with_index(self, function: Callable[[int, EnvRunner], T]) -> list[T]:
        """Like `foreach_env_runner`; the function also gets the runner's index."""
        return self.foreach_env_runner(lambda runner: function(runner.worker_index, runner))

    def local_worker(self) -> EnvRunner | None:
        """The in-process env runner, if there is one."""
        return self.local_env_runner

    @property
    def num_env_runners(self) -> int:
        """Number of actors."""
        return len(self._actors)

    def get_state(self) -> dict[str, Any]:
        """States of all env runners, in order."""
        return {
            "weights_version": self.weights_version,
            "runners": self.foreach_env_runner(lambda runner: runner.get_state()),
            "pending_moments": [moments.get_state() for moments in self._pending_moments],
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s; returns whether every episode goes on where it was."""
        self.weights_version = int(state["weights_version"])
        self._pending_moments = []
        for moments_state in state["pending_moments"]:
            moments = RunningMoments(0)
            moments.set_state(moments_state)
            self._pending_moments.append(moments)
        runners = state["runners"]
        if self._actors:
            self._push_policy()
        if len(runners) != max(1, self.num_env_runners):
            return False
        if self.local_env_runner is not None:
            self.local_env_runner.weights_version = self.weights_version
            return self.local_env_runner.set_state(runners[0])
        pairs = zip(self._actors, runners, strict=True)
        return all(self._get([actor.call.remote(_SetState(part)) for actor, part in pairs]))

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes on new random streams."""
        if self.local_env_runner is not None:
            self.local_env_runner.reseed(_child(seed, 0))
        self._get(
            [
                actor.call.remote(_Reseed(_child(seed, index)))
                for index, actor in enumerate(self._actors, start=1)
            ]
        )

    def stop(self) -> None:
        """Close environments and end the actors."""
        if self.local_env_runner is not None:
            self.local_env_runner.stop()
            self.local_env_runner = None
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def _get(self, references: list[Any]) -> list[Any]:
        if not references:
            return []  # ray.get would start a cluster
        try:
            return ray.get(references)
        except ray.exceptions.RayActorError as error:
            raise RuntimeError(f"an env runner died: {error}") from error


class _SetState:
    """A function object: what is sent to an actor must not close over the group."""

    def __init__(self, state: dict[str, Any]):
        self._state = state

    def __call__(self, runner: EnvRunner) -> bool:
        return runner.set_state(self._state)


class _Reseed:
    def __init__(self, seed: np.random.SeedSequence):
        self._seed = seed

    def __call__(self, runner: EnvRunner) -> None:
        runner.reseed(self._seed)


def _child(seed: np.random.SeedSequence, index: int) -> np.random.SeedSequence:
    """The stream of one runner: the same however many others there are."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, index))


def _processes(config: AlgorithmConfig) -> tuple[Any, ...]:
    """What an actor's process was started for; actors are kept only if it stays the same."""
    return (
        config.num_env_runners,
        config.num_cpus_per_env_runner,
        sorted(config.custom_resources_per_env_runner.items()),
    )


def _start_actors(config: AlgorithmConfig) -> list[Any]:
    """Start the actors, each pinned to its bundle if this process runs in a placement group.

    Raises:
        ConfigError: if they do not fit; they would wait for ever, without a word.
    """
    if not ray.is_initialized():
        ray.init(include_dashboard=False)
    group = get_current_placement_group()
    need = {"CPU": config.num_cpus_per_env_runner, **config.custom_resources_per_env_runner}
    if group is None:
        _check_cluster(need, config.num_env_runners)
    else:
        _check_bundles(need, config.num_env_runners, group.bundle_specs)
    actor_class = ray.remote(EnvRunnerActor)
    actors = []
    for index in range(config.num_env_runners):
        strategy: Any = "DEFAULT"
        if group is not None:
            strategy = PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=1 + index
            )
        actors.append(
            actor_class.options(
                num_cpus=config.num_cpus_per_env_runner,
                resources=config.custom_resources_per_env_runner or None,
                scheduling_strategy=strategy,
            ).remote()
        )
    return actors


def _check_bundles(need: dict[str, Any], count: int, bundles: list[dict[str, float]]) -> None:
    """Whether bundle 1 + i of the trial holds env runner i."""
    small = [b for b in bundles[1 : 1 + count] if any(b.get(k, 0) < v for k, v in need.items())]
    if len(bundles) < 1 + count or small:
        raise ConfigError(
            f"{count} env runners need a bundle of {need} each after the driver's, the trial has "
            f"{bundles}: leave its resources to default_resource_request"
        )


def _check_cluster(need: dict[str, Any], count: int) -> None:
    """Whether the cluster could ever hold all env runners."""
    have = ray.cluster_resources()
    for name, amount in need.items():
        if amount * count > have.get(name, 0):
            raise ConfigError(
                f"num_env_runners = {count} needs {amount * count:g} {name}, the cluster has "
                f"{have.get(name, 0):g}: lower num_env_runners or what each of them needs"
            )
