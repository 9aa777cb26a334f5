"""`NoEnvRunners`: the group of an algorithm whose training steps no environment."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

import numpy as np

from trainables.runtime.sampling.group import EnvRunnerGroup, Sample

T = TypeVar("T")

_NOTHING_TO_SAMPLE = (
    "training steps no environment (needs_env of its config is False), so there is nothing to "
    "sample: training_step learns from what the algorithm has, and evaluate() plays"
)


class NoEnvRunners(EnvRunnerGroup):
    """A group without any env runner: whoever is asked gives nothing, and sampling raises.

    It counts versions of the weights, which evaluations report.
    """

    def _sample_each(self) -> NoReturn:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def sample_ahead(self) -> NoReturn:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def request_samples(self) -> NoReturn:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def ready_samples(self, timeout_s: float | None = None) -> list[Sample]:
        raise RuntimeError(_NOTHING_TO_SAMPLE)

    def _set_states(self, states: list[dict[str, Any] | None], restarts: list[int]) -> bool:
        return True  # no episode is under way

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw nothing."""
