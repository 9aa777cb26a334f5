"""Settings as a dict in which older names are other names of the same entries."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

from trainables.core.config.reference.compatibility import ALIASES


class DefaultConfig(dict[str, Any]):
    """A dict of settings in which older names are other names of the same entries.

    So `config["num_workers"] = 2` replaces the default of `num_env_runners`, instead of being a
    second, contradicting entry. A copy is a deep one: nested dicts are not shared.
    """

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(ALIASES.get(name, name))

    def __setitem__(self, name: str, value: Any) -> None:
        if name.endswith("_schedule") and value is None:  # the constant holds
            return
        super().__setitem__(ALIASES.get(name, name), value)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(ALIASES.get(str(name), name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting."""
        return self[name] if name in self else default  # noqa: SIM401 - that would call itself

    def update(self, *given: Any, **values: Any) -> None:
        """Set several."""
        for name, value in dict(*given, **values).items():
            self[name] = value

    def __or__(self, other: Mapping[str, Any]) -> Self:  # type: ignore[override]
        merged = self.copy()
        merged.update(other)
        return merged

    def copy(self) -> Self:
        """Return a deep copy."""
        return copy.deepcopy(self)
