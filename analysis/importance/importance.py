"""Which settings decided the result: importance by fANOVA or by permutation, ranked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.importance.interactions import interactions_frame
from analysis.importance.partial_dependence import partial_dependence_frame
from analysis.importance.surrogate import FORESTS, Surrogate, fit_surrogate
from analysis.importance.surrogate_data import Budget
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from analysis.results.records import Source

__all__ = ["importance_frame", "interactions_frame", "partial_dependence_frame"]

_SHUFFLES = 3
"""Of each setting, for each forest."""


def importance_frame(
    results: Source | Surrogate,
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    method: str = "fanova",
    at_budget: Budget = None,
    forests: int = FORESTS,
) -> pd.DataFrame:
    """Return the settings that the sweep varied, from the most important to the least.

    A random forest learns the value from the settings, each on the scale that it was searched on.
    What it learned is judged in one of two ways:

    - `"fanova"`: the share of the forest's variance over the search space that a setting explains
      by itself (Hutter et al., 2014; the numbers of optuna's evaluator, there on a linear scale).
      Shares sum to less than 1: the rest are interactions, see `interactions_frame`.
    - `"permutation"`: by how much the R² on trials that a tree did not see falls when the setting
      is shuffled among the trials (Breiman, 2001). It includes interactions, may be negative for
      a setting that does nothing, and weighs the space as the trials lie in it.

    Trials that ended well and have a finite value count; those of one configuration (its seeds)
    count once, with their mean. A setting that changed within a trial
    (PBT) does not, nor does `seed`; settings that always changed together are one, `a + b`. A
    setting that some trials do not have (a conditional one) has "absent" as a value.

    What trials of different lengths are compared by, `at_budget`, decides what the answer means:

    - `"last"`: the last finite value. Right where all trained alike. Where a scheduler stopped
      some early, their values are of a smaller budget: settings that learn slowly look worse than
      they are, and the length of training is noise that no setting explains.
    - `"shared"`: the value at the least budget that all reached. Fair, but about early training.
    - A number: the value at so many env steps, of the trials that got there. Fair among them, but
      under a scheduler they are a choice of the best, in which settings that had to be good to
      get there seem not to matter.
    - `None` (the default): `"last"`, or `"shared"` where lengths differ by more than a tenth.

    A search that learns (Optuna's) tries good regions more often; there the forest is better
    informed. fANOVA still averages over the whole range evenly; permutation does not.

    Args:
        results: A `ResultGrid`, a `Sweep`, the path of a sweep folder, or what `fit_surrogate`
            made of one (then `metric`, `mode`, `at_budget` and `forests` are its own).
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`; it does not change what is important.
        method: `"fanova"` or `"permutation"`.
        at_budget: `None`, `"last"`, `"shared"` or a number of env steps: see above.
        forests: How many forests of other seeds.

    Returns:
        `rank` (from 1), `setting`, `importance` (the mean over forests), `low` and `high`
        (the least and greatest over forests and shuffles: how far the forest's luck moves it, not
        how far another sweep would), `method`. `attrs` holds `metric`, `mode`, `sweep`,
        `num_trials`, `num_configurations`, `left_out` (how many trials do not count, by
        reason), `at_budget`, `r2` (what the forests explain of configurations they did not
        see) and `caution`: what must be said beside it, empty if nothing.

    Raises:
        ResultsError: The folder holds no sweep, no trial reported `metric`, fewer than 8
            configurations count, their values are all equal, no setting varies, or an argument is
            not allowed.
    """
    if method not in _METHODS:
        raise ResultsError(f"method must be 'fanova' or 'permutation', not {method!r}")
    learned = fit_surrogate(results, metric, mode, at_budget=at_budget, forests=forests)
    shares = _METHODS[method](learned)  # [repeats, settings]
    frame = pd.DataFrame(
        {
            "setting": learned.data.settings,
            "importance": shares.mean(axis=0),
            "low": shares.min(axis=0),
            "high": shares.max(axis=0),
        }
    )
    frame = frame.sort_values("importance", ascending=False, kind="stable", ignore_index=True)
    frame.insert(0, "rank", np.arange(1, len(frame) + 1))
    frame["method"] = method
    frame.attrs.update(learned.attrs)
    return frame


def _fanova(learned: Surrogate) -> np.ndarray:
    """Return the mean over trees of each setting's share, `[forests, settings]`."""
    settings = range(len(learned.data.settings))
    return np.array(
        [
            [np.mean([tree.main(setting) for tree in forest]) for setting in settings]
            for forest in learned.trees
        ]
    )


def _permutation(learned: Surrogate) -> np.ndarray:
    """Return the fall of the out-of-bag R² at each shuffle, `[forests * shuffles, settings]`."""
    from sklearn.inspection import permutation_importance

    x, y = learned.data.positions, learned.data.values
    falls = [
        permutation_importance(
            forest, x, y, scoring=_OutOfBag(forest, len(y)), n_repeats=_SHUFFLES, random_state=seed
        ).importances.T
        for seed, forest in enumerate(learned.forests)
    ]
    return np.concatenate(falls)


class _OutOfBag:
    """The R² of a forest whose trees predict only trials that they did not learn from.

    On the trials that a forest learned from, its score is near 1 whatever it found.
    """

    def __init__(self, forest: Any, trials: int) -> None:
        self._unseen = np.ones((len(forest.estimators_), trials), dtype=bool)
        for tree, drawn in zip(self._unseen, forest.estimators_samples_, strict=True):
            tree[drawn] = False

    def __call__(self, forest: Any, x: np.ndarray, y: np.ndarray) -> float:
        votes = np.array([tree.predict(x) for tree in forest.estimators_])
        known = self._unseen.any(axis=0)
        predicted = (votes * self._unseen).sum(axis=0)[known] / self._unseen.sum(axis=0)[known]
        missed = ((y[known] - predicted) ** 2).sum()
        return float(1 - missed / ((y[known] - y[known].mean()) ** 2).sum())


_METHODS: dict[str, Callable[[Surrogate], np.ndarray]] = {
    "fanova": _fanova,
    "permutation": _permutation,
}
