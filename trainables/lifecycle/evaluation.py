"""`Evaluation`: when an algorithm evaluates, and what came of it last."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.features import feature
from trainables.runtime.callbacks.hooks import has_callbacks


class Evaluation:
    """The evaluations of an algorithm, between its training iterations or beside them.

    Neither training's random streams nor filter statistics are touched, and every evaluation plays
    on the same seeds, so that two of them differ by the policy alone.

    Args:
        algorithm: Whose policies are evaluated.
        seed: What every evaluation is seeded by.
        video_folder: Where videos go; None if there are none.
        existing: The evaluations of the trial before in this process: actors that fit are used
            again, others end.

    Attributes:
        seed: As given; a resumed run has that of the run that it goes on with.
        latest: The metrics of the last evaluation; {} before the first.
    """

    def __init__(
        self,
        algorithm: Any,
        seed: np.random.SeedSequence,
        video_folder: str | None,
        existing: Evaluation | None = None,
    ):
        # Weak, or memory would be free only when the garbage collector comes by.
        self._owner = weakref.ref(algorithm)
        self._video_folder = video_folder
        self.seed = seed
        self.latest: dict[str, float] = {}
        self._player: Any = None
        before = None if existing is None else existing.take_group()
        if before is not None or _is_on(algorithm.config):
            self._player = self._made(before)

    def _made(self, existing: Any) -> Any:
        return feature("evaluation").player(self._owner(), self._video_folder, existing)

    @property
    def player(self) -> Any:
        """What evaluates, a `Player`: made at set-up if evaluation is on, else when asked for."""
        if self._player is None:
            self._player = self._made(None)
        return self._player

    def evaluate(self, duration_fn: Callable[[int], int] | None = None) -> dict[str, float]:
        """Play with the present policy, and estimate from data; see `Algorithm.evaluate`."""
        metrics: dict[str, float] = self.player.evaluate(duration_fn)
        return metrics

    def begin_if_due(self) -> None:
        """Beside training: ask the actors to play with the weights that the iteration has first."""
        if self._player is not None:
            self._player.begin_if_due()

    def evaluate_if_due(self) -> dict[str, float]:
        """Return the metrics of the evaluation that belongs to this iteration's result."""
        metrics: dict[str, float] = {}
        if self._player is not None:
            metrics = self._player.evaluate_if_due()
        return metrics

    def change_policies(self, config: AlgorithmConfig, module_slots: Any) -> None:
        """Let evaluations go on with the policies that there are now.

        Args:
            config: The algorithm's config, which names them.
            module_slots: Which module acts where.
        """
        if self._player is not None:
            self._player.group.change_policies(config, module_slots)

    def take_group(self) -> Any:
        """Return what plays, if it was made, and forget it."""
        player, self._player = self._player, None
        return None if player is None else player.group

    def stop(self) -> None:
        """Close environments and end actors."""
        group = self.take_group()
        if group is not None:
            group.stop()


def _is_on(config: AlgorithmConfig) -> bool:
    """Tell whether what evaluates is made at set-up.

    It is where a trial evaluates by itself, and where setting it up starts actors, runs code of a
    user or reads settings that may be wrong.
    """
    return bool(
        config.evaluation_interval
        or config.evaluation_num_env_runners
        or config.evaluation_config
        or config.custom_evaluation_function
        or config.off_policy_estimation_methods
        or has_callbacks(config)
    )
