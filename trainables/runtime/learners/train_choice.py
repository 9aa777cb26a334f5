"""Which modules an update trains: what a function `policies_to_train` says of their rollouts."""

from __future__ import annotations

from collections.abc import Mapping

from trainables.core.config.agent_mapping import PoliciesToTrain
from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout


class TrainChoice:
    """Asks the function `policies_to_train`, if it is one, before each update.

    Ids need no asking: modules that they leave out have no learner.

    Args:
        config: The algorithm's config.

    Raises:
        ConfigError: if there is no such function.
    """

    def __init__(self, config: AlgorithmConfig):
        given = config.policies_to_train
        is_function = given is not None and not isinstance(given, list)
        self._is_trained = PoliciesToTrain(given, ()) if is_function else None

    @property
    def asks(self) -> bool:
        """Whether there is a function to ask."""
        return self._is_trained is not None

    def __call__(self, rollouts: Mapping[str, Rollout]) -> dict[str, Rollout]:
        """Return the rollouts `[T, N]`, by module id, of the modules that are trained on them."""
        is_trained = self._is_trained
        if is_trained is None:
            return dict(rollouts)
        return {m: rollout for m, rollout in rollouts.items() if is_trained(m, rollout)}
