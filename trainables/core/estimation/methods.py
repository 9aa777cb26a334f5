"""The estimators that entries of `off_policy_estimation_methods` name."""

from __future__ import annotations

import inspect
from typing import Any

from trainables.core.callables import resolve_callable
from trainables.core.config.recorded.estimators import (
    check_keywords,
    known_type,
    parted,
    wrong_type,
)
from trainables.core.estimation.direct_method import DirectMethod
from trainables.core.estimation.doubly_robust import DoublyRobust
from trainables.core.estimation.evaluator import OfflineEvaluator
from trainables.core.estimation.feature_importance import FeatureImportance
from trainables.core.estimation.importance_sampling import (
    ImportanceSampling,
    WeightedImportanceSampling,
)

EVALUATORS: dict[str, type[OfflineEvaluator]] = {
    kind.__name__: kind
    for kind in (
        ImportanceSampling,
        WeightedImportanceSampling,
        DirectMethod,
        DoublyRobust,
        FeatureImportance,
    )
}


def make_evaluator(name: str, given: Any) -> OfflineEvaluator:
    """Return what an entry of `off_policy_estimation_methods` names; code is imported.

    Args:
        name: The entry's.
        given: `{"type": a name, a class or 'module:name' of one, **keywords}`.

    Raises:
        ConfigError: naming the entry and what is allowed.
    """
    kind, keywords = parted(name, given)
    found: Any = kind
    if (known := known_type(kind)) is not None:
        found = EVALUATORS[known]
    elif isinstance(kind, str) and ":" in kind:
        found = resolve_callable(kind)
    if not (inspect.isclass(found) and issubclass(found, OfflineEvaluator)):
        raise wrong_type(name, kind)
    return found.of(check_keywords(name, found, keywords))
