"""The environments of all slots: their resets, what is called with each, and their tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from trainables.runtime.envs.slots import EnvContext
from trainables.runtime.envs.sub_environment import SubEnvironment, layers, users_env
from trainables.runtime.random_streams import draw_seed, draw_seeds

T = TypeVar("T")


class OwnVectorEnv(VectorEnv):
    """Base of vector environments of this project that replace environments which fail."""

    @property
    def num_restarts(self) -> int:
        """How many environments were replaced."""
        raise NotImplementedError


class SlotsApart(OwnVectorEnv):
    """Base of a vector environment whose slots are in other processes; see `RemoteVectorEnv`."""

    @abstractmethod
    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every slot.

        Args:
            seed: A pair of seeds for each slot, its environment's and its action space's; or None.
            options: What gymnasium's API has; it is not passed on.
        """

    @abstractmethod
    def each_env(self, function: Callable[..., T]) -> list[T]:
        """Apply a function to each environment and its context."""

    @abstractmethod
    def can_set_tasks(self) -> bool:
        """Tell whether the environments have tasks."""

    @abstractmethod
    def choose_tasks(self, task_fn: Callable[..., Any], result: dict[str, Any]) -> list[Any]:
        """Ask `env_task_fn` for each slot's task, and set it."""

    @abstractmethod
    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Set each slot's task."""


def reset_with_infos(env: VectorEnv, seed: np.random.SeedSequence) -> tuple[Any, dict[str, Any]]:
    """Reset all slots, each with a random stream of its own; return observations and infos.

    An integer seed would give slot i of a `SyncVectorEnv` the stream of seed + i: slot 1 of seed 0
    would then repeat slot 0 of seed 1.
    """
    # Also of the action spaces, which an environment may sample from. A user's vector environment
    # gets one seed for all its slots, drawn from all 2**31, so that no two runs are neighbours.
    pairs = [draw_seeds(child) for child in seed.spawn(env.num_envs)]
    if isinstance(env, SlotsApart):
        return env.reset(seed=pairs)
    if not isinstance(env, SyncVectorEnv):
        env.single_action_space.seed(pairs[0][1])
        env.action_space.seed(pairs[-1][1])
        return env.reset(seed=draw_seed(seed))
    for slot, (_, action_seed) in zip(env.envs, pairs, strict=True):
        slot.action_space.seed(action_seed)
    return env.reset(seed=[env_seed for env_seed, _ in pairs])


def reset_seeds(env: VectorEnv, seed: np.random.SeedSequence) -> tuple[list[int], bool]:
    """Return the seeds that `reset_with_infos` gives the slots, and whether they share one."""
    if not isinstance(env, (SlotsApart, SyncVectorEnv)):
        return [draw_seed(seed)] * env.num_envs, True
    fresh = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    return [draw_seed(child) for child in fresh.spawn(env.num_envs)], False


def each_env(
    env: VectorEnv, function: Callable[[Any, EnvContext], T], context: EnvContext
) -> list[T]:
    """Apply a function to the environment of each slot, as its creator made it.

    Args:
        env: A class of vector environments of the user, and a native one of gymnasium, is one
            environment for all its slots: the function is called once.
        function: Called with an environment and its context. With remote slots it is sent to
            their processes, and what it returns comes back.
        context: What a vector environment that is one piece was made with.

    Returns:
        What the function returned, in order of the slots.

    Raises:
        ConfigError: if what it returns cannot leave the process of a remote slot.
    """
    if isinstance(env, SlotsApart):
        return env.each_env(function)
    if not isinstance(env, SyncVectorEnv):
        return [function(env, context)]
    return [
        function(users_env(slot), _context(slot, index, context))
        for index, slot in enumerate(env.envs)
    ]


def count_restarts(env: VectorEnv) -> int:
    """Return how many environments were ever replaced."""
    if isinstance(env, OwnVectorEnv):
        return env.num_restarts
    if not isinstance(env, SyncVectorEnv):
        return 0
    return sum(sub.num_restarts for slot in env.envs for sub in layers(slot, SubEnvironment))


def _context(slot: Any, index: int, runner: EnvContext) -> EnvContext:
    """Return what a slot's environment was made with."""
    for sub in layers(slot, SubEnvironment):
        context: EnvContext = sub.context
        return context
    return EnvContext(runner, runner.worker_index, index, runner.num_workers)  # gymnasium's own
