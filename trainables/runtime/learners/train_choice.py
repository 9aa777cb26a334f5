"""Which modules an update trains: what a function `policies_to_train` says of their rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from trainables.core.config.config import AlgorithmConfig
from trainables.core.config.policies import named_to_train
from trainables.core.features import feature_settings

T = TypeVar("T")


class TrainChoice:
    """Asks the function `policies_to_train`, if it is one, before each update.

    Ids need no asking: modules that they leave out have no learner. No ids at all leave out every
    module, as a function would that always says so.

    Args:
        config: The algorithm's config.

    Raises:
        ConfigError: if there is no such function.
    """

    def __init__(self, config: AlgorithmConfig):
        given = config.policies_to_train
        asks = given is not None and not named_to_train(given)
        self._is_trained = feature_settings("agents").policies_to_train(given) if asks else None

    @property
    def asks(self) -> bool:
        """Whether it depends on more than the modules' ids."""
        return self._is_trained is not None

    def __call__(self, batches: Mapping[str, T]) -> dict[str, T]:
        """Return what modules are trained on, of those that are.

        Args:
            batches: By module id, what each would learn from: a rollout `[T, N]`, or columns
                `[B, …]` that were drawn from data.
        """
        is_trained = self._is_trained
        if is_trained is None:
            return dict(batches)
        return {m: batch for m, batch in batches.items() if is_trained(m, batch)}
