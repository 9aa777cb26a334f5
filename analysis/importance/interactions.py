"""Which pairs of settings have to be chosen together."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.importance.surrogate import FORESTS, Surrogate, fit_surrogate
from analysis.importance.surrogate_data import Budget
from analysis.results.rows import ResultsError

if TYPE_CHECKING:
    from analysis.results.records import Source


def interactions_frame(
    results: Source | Surrogate,
    metric: str = "episode_return_mean",
    mode: str = "max",
    top: int | None = 10,
    *,
    at_budget: Budget = None,
    forests: int = FORESTS,
) -> pd.DataFrame:
    """Return the pairs of settings, from the strongest interaction to the weakest.

    The interaction of a pair is the share of the forest's variance over the search space that the
    two explain together beyond what each explains by itself (fANOVA, Hutter et al., 2014). A
    product `x * y` centred on 0 is all interaction; a sum has none.

    Args:
        results: See `importance_frame`.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`; it does not change the order.
        top: How many pairs to keep; None keeps all.
        at_budget: See `importance_frame`.
        forests: How many forests of other seeds.

    Returns:
        `rank` (from 1), `setting`, `other`, `interaction`, `low` and `high` (the least
        and greatest over forests), `together` (the interaction and both settings' own shares).
        Empty with a single setting. `attrs` as of `importance_frame`.

    Raises:
        ResultsError: See `importance_frame`; or `top` is below 1.
    """
    if top is not None and top < 1:
        raise ResultsError(f"top must be at least 1, not {top}")
    learned = fit_surrogate(results, metric, mode, at_budget=at_budget, forests=forests)
    names = learned.data.settings
    rows = []
    for a, b in combinations(range(len(names)), 2):
        shares = [np.mean([tree.pair(a, b) for tree in forest]) for forest in learned.trees]
        mains = [
            np.mean([tree.main(a) + tree.main(b) for tree in forest]) for forest in learned.trees
        ]
        share = float(np.mean(shares))
        together = share + float(np.mean(mains))
        ends = (float(min(shares)), float(max(shares)))
        rows.append((names[a], names[b], share, *ends, together))
    columns = ["setting", "other", "interaction", "low", "high", "together"]
    frame = pd.DataFrame(rows, columns=columns)
    frame = frame.sort_values("interaction", ascending=False, kind="stable", ignore_index=True)
    frame.insert(0, "rank", np.arange(1, len(frame) + 1))
    frame = frame if top is None else frame.head(top)
    frame.attrs.update(learned.attrs)
    return frame
