"""A forest that learned a sweep: from a trial's settings to its value of a metric.

What a sweep says about its settings (importance, interactions, partial dependence) is read off a
random forest, as fANOVA does (Hutter et al., 2014, "An efficient approach for assessing
hyperparameter importance"). It says nothing where the forest learned nothing: its R² on the trials
that each tree did not see (out of bag) is on every frame. The trials of a configuration that was
trained with several seeds are one, else each tree would have seen a sister of every trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.importance.fanova import Axis, TreeMarginals
from analysis.importance.surrogate_data import Budget, SurrogateData, surrogate_data
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor

    from analysis.results.records import Source

FORESTS = 3
TREES = 64
"""As optuna's fANOVA."""
_LITTLE = 0.3
_NOTHING = 0.05
"""The R² below which a forest explains little or nothing; that of noise is below 0."""
_PER_SETTING = 5
"""Configurations per setting below which a ranking is a guess."""


Trees = tuple[tuple[TreeMarginals, ...], ...]


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Forests of several seeds on the same trials.

    Attributes:
        data: What they learned from.
        forests: Each of `TREES` trees, differing in the seed only.
        trees: The trees of each forest as boxes over the settings, those that learned something.
    """

    data: SurrogateData
    forests: tuple[RandomForestRegressor, ...]
    trees: Trees

    @cached_property
    def r2(self) -> float:
        """The share of the variance that the forests explain on trials that they did not see."""
        return float(np.mean([forest.oob_score_ for forest in self.forests]))

    @property
    def explains_nothing(self) -> bool:
        """Whether what is read off the forests is noise; an R² that is not known shows nothing."""
        return not self.r2 >= _NOTHING

    @property
    def caution(self) -> str:
        """What a report says beside anything read off the forests; empty if all is well."""
        return " ".join(filter(None, (self._weak, self.reservations)))

    @property
    def reservations(self) -> str:
        """The part of `caution` that is about the trials, not about what the forests learned."""
        return " ".join(filter(None, (self._few, self.data.caution)))

    @property
    def attrs(self) -> dict[str, Any]:
        """What every frame that is read off the forests carries."""
        data = self.data
        found = {"metric": data.metric, "mode": data.mode, "sweep": data.sweep}
        return {
            **found,
            "num_trials": data.trials,
            "num_configurations": len(data.values),
            "left_out": data.left_out,
            "at_budget": data.budget,
            "r2": self.r2,
            "caution": self.caution,
        }

    @property
    def _weak(self) -> str:
        if self.explains_nothing:
            return (
                f"The settings explain nothing of {self.data.metric} "
                f"(out-of-bag R² {self.r2:.2f}): this ranking is noise."
            )
        if self.r2 < _LITTLE:
            return (
                f"The settings explain little of {self.data.metric} (out-of-bag R² {self.r2:.2f}): "
                "only the first ranks mean anything."
            )
        return ""

    @property
    def _few(self) -> str:
        configurations, settings = self.data.positions.shape
        if configurations >= _PER_SETTING * settings:
            return ""
        what = "trials" if configurations == self.data.trials else "configurations"
        return (
            f"{configurations} {what} are few for {settings} settings; "
            f"{_PER_SETTING * settings} or more would be enough to rank them."
        )


def fit_surrogate(
    results: Source | Surrogate,
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    at_budget: Budget = None,
    forests: int = FORESTS,
) -> Surrogate:
    """Fit the forests; pass it on in place of `results` to read several things off it.

    Args:
        results: A `ResultGrid`, a `Sweep` or the path of a sweep folder; a `Surrogate` is given
            back as it is.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        at_budget: See `importance_frame`.
        forests: How many, differing in their seed.

    Raises:
        ResultsError: See `importance_frame`.
    """
    if isinstance(results, Surrogate):
        return results
    if forests < 1:
        raise ResultsError(f"forests must be at least 1, not {forests}")
    data = surrogate_data(results, metric, mode, at_budget)
    content = (data.positions.tobytes(), data.values.tobytes(), data.axes)
    learned = Surrogate(data, *_learned(*content, forests))
    if not all(learned.trees):
        raise ResultsError(f"{data.sweep}: the settings explain nothing at all")
    return learned


def chosen(data: SurrogateData, settings: Sequence[str]) -> list[int]:
    """Return the places of settings, given by their names (`model/x`, `model.x` or `config/...`).

    Raises:
        ResultsError: One does not vary; the message names those that do.
    """
    places = []
    for setting in settings:
        name = setting.removeprefix("config/").replace(".", "/")
        if name not in data.settings:
            known = ", ".join(data.settings)
            raise ResultsError(f"{setting!r} is no setting that varies in {data.sweep}: {known}")
        places.append(data.settings.index(name))
    return places


@lru_cache(maxsize=4)
def _learned(
    positions: bytes, values: bytes, axes: tuple[Axis, ...], forests: int
) -> tuple[tuple[RandomForestRegressor, ...], Trees]:
    # A report reads many things off the same trials: equal trials, equal forests.
    from sklearn.ensemble import RandomForestRegressor

    x, y = np.frombuffer(positions).reshape(-1, len(axes)), np.frombuffer(values)
    fitted = tuple(
        RandomForestRegressor(
            n_estimators=TREES, max_depth=64, random_state=seed, oob_score=True
        ).fit(x, y)
        for seed in range(forests)
    )
    boxes = (tuple(TreeMarginals(e.tree_, axes) for e in forest.estimators_) for forest in fitted)
    return fitted, tuple(tuple(tree for tree in trees if tree.variance > 0) for trees in boxes)
