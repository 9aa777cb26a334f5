"""What our Tune searchers share."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from ray.tune.search import Searcher

from search_spaces.space import SearchSpace


class SpaceSearcher(Searcher):
    """A searcher that draws *searched* values from a `SearchSpace`, and hands Tune the config.

    Transforms are already applied and inactive settings left out, so a trial's config holds
    settings only. Its state is saved and restored with Tune's snapshots.
    """

    unsaved: ClassVar[tuple[str, ...]] = ()
    """Attributes that belong to this process and are no part of the state."""

    def __init__(self, space: SearchSpace, metric: str, mode: str) -> None:
        super().__init__(metric=metric, mode=mode)
        self.space = space

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Refuse what Tune offers, its `param_space`: the space was given at construction."""
        return False

    def __getstate__(self) -> dict[str, Any]:
        """Also what Tune pickles of a Tuner."""
        return {k: v for k, v in self.__dict__.items() if k not in self.unsaved}

    def extend(self, num_samples: int, stop: Mapping[str, float]) -> None:
        """Take over the spec's numbers when a sweep is resumed; they may have grown."""

    def reopen(self, trial_ids: Collection[str], *, anew: Collection[str] = ()) -> None:
        """Expect results again of trials that had ended, of those in `anew` from the first on."""

    def save(self, checkpoint_path: str) -> None:
        """Write the state. Tune renames the file into place."""
        with open(checkpoint_path, "wb") as file:
            pickle.dump(self.__getstate__(), file)

    def restore(self, checkpoint_path: str) -> None:
        """Read the state that `save` wrote. The file is trusted, like all of Tune's state."""
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Learn nothing from it."""
