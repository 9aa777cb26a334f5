"""What algorithms keep by module: which are trained, and what each has reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

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


class LatestMetrics:
    """Keeps what modules report: a metric that Tune has seen must not go away.

    An update may leave out modules: nobody played them, or `policies_to_train` did not choose them.
    """

    def __init__(self) -> None:
        self._of_modules: dict[str, dict[str, float]] = {}

    def __bool__(self) -> bool:
        """Return whether any module has reported."""
        return bool(self._of_modules)

    @property
    def by_module(self) -> dict[str, dict[str, float]]:
        """The metrics of each module's last update, by module id."""
        return dict(self._of_modules)

    def add(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Take over what an update reports, by id of the modules that it trained."""
        self._of_modules |= {m: dict(result) for m, result in results.items()}

    def keep(self, module_ids: Collection[str]) -> None:
        """Forget all modules but these."""
        self._of_modules = {m: own for m, own in self._of_modules.items() if m in module_ids}

    def get_state(self, module_ids: Collection[str]) -> dict[str, Any]:
        """Return what a checkpoint holds; nothing of one module: it is in every update."""
        return {"metrics": self.by_module} if len(module_ids) > 1 else {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `get_state` gave, out of a state that may hold more."""
        self._of_modules = {}
        self.add(state.get("metrics", {}))
