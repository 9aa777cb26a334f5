"""`LatestMetrics`: what the last update of each module reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


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
