"""`LocalRunners`: the one env runner of a trial without actors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import VectorEnv

from trainables.core.config.config import AlgorithmConfig
from trainables.core.policy.policy import Policy
from trainables.runtime.sampling.actor import Sample, make_env_runner, report_of
from trainables.runtime.sampling.env_runner import EnvRunner
from trainables.runtime.sampling.runners import Shared, child_seed

T = TypeVar("T")


class LocalRunners:
    """An env runner in this process, which acts with the learner's own policy.

    Args:
        config: The algorithm's config.
        policy: The learner's policy.
        env: The environment, which is closed by `stop`.
        seed: The root of the random streams.
        shared: What the group keeps.

    Attributes:
        local: The env runner; None once it is stopped.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv,
        seed: np.random.SeedSequence,
        shared: Shared,
    ):
        self._shared = shared
        self._fragment_length = config.get_rollout_fragment_length(0)
        self.local: EnvRunner | None = make_env_runner(config, policy, env, child_seed(seed, 0))

    @property
    def healthy(self) -> list[int]:
        return [] if self.local is None else [0]

    @property
    def restarts(self) -> list[int]:
        return []

    def probe(self) -> list[int]:
        return []

    def restore(self, *, wait: bool) -> list[int]:
        return []

    def sample(self) -> list[Sample]:
        rollouts, episodes = self._runner.sample(self._fragment_length)
        return [self._shared.received(0, report_of(self._runner, rollouts, episodes), rollouts)]

    def request_samples(self) -> None:
        """Nothing is asked for: `ready_samples` samples."""

    def ready_samples(self, timeout_s: float | None) -> list[Sample]:
        return self.sample()

    def publish(self) -> None:
        self._runner.weights_version = self._shared.weights_version  # it shares the policy

    def ask_all(self, function: Callable[[EnvRunner], T]) -> list[T | None]:
        return [function(self._runner)]

    def foreach(
        self, function: Callable[[EnvRunner], T], indices: Iterable[int], timeout_s: float | None
    ) -> list[T]:
        return [function(self._runner) for _ in indices]

    def get_states(self) -> list[dict[str, Any] | None]:
        return [self._runner.get_state()]

    def set_states(self, states: list[dict[str, Any] | None], restarts: list[int]) -> bool:
        if len(states) != 1 or states[0] is None:
            return False
        self.publish()
        return self._runner.set_state(states[0])

    def reseed(self, seed: np.random.SeedSequence) -> None:
        self._runner.reseed(child_seed(seed, 0))

    def stop(self) -> None:
        if self.local is not None:
            self.local.stop()
            self.local = None

    def handed_over(self, config: AlgorithmConfig) -> None:
        self.stop()

    @property
    def _runner(self) -> EnvRunner:
        assert self.local is not None
        return self.local
