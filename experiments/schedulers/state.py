"""A scheduler's state, which Tune does not save: to bytes, back, and fit for a longer budget."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

from ray import cloudpickle
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    MedianStoppingRule,
    TrialScheduler,
)

from analysis.results.rows import flatten
from experiments.schedulers.asha import score

_NOT_STATE = ("_keeper",)


def dump_state(scheduler: TrialScheduler) -> bytes:
    """The scheduler's attributes, with trials by their id; raises whatever pickling raises."""
    stream = io.BytesIO()
    state = {k: v for k, v in scheduler.__dict__.items() if k not in _NOT_STATE}
    _TrialPickler(stream).dump(state)
    return stream.getvalue()


def load_state(scheduler: TrialScheduler, saved: bytes, trials: Mapping[str, Trial]) -> None:
    """Set the attributes that `dump_state` took; raises whatever unpickling raises.

    Args:
        scheduler: of the class that the state is of.
        saved: part of Tune's own (trusted) state.
        trials: the trials that the state may refer to, by id.
    """
    scheduler.__dict__.update(_TrialUnpickler(io.BytesIO(saved), trials).load())


def extend_rungs(scheduler: TrialScheduler, stop: Mapping[str, float]) -> None:
    """Give ASHA the rungs of a longer budget, above those that it has; others need nothing."""
    if not isinstance(scheduler, AsyncHyperBandScheduler):
        return
    budget = stop.get(scheduler._time_attr, 0)
    if budget <= scheduler._max_t:
        return
    factor = scheduler._reduction_factor
    first = scheduler._brackets[0]._rungs[-1][0]
    for number, bracket in enumerate(scheduler._brackets):
        milestone = bracket._rungs[0][0] * factor if bracket._rungs else first * factor**number
        while milestone <= budget:
            bracket._rungs.insert(0, (milestone, {}))  # the highest comes first
            milestone *= factor
    scheduler._max_t = int(budget)


def take_back(scheduler: TrialScheduler, trial: Trial) -> bool:
    """Let a trial that ended go on under ASHA; returns whether its last rung lets it.

    A trial that ran to the end of the old budget was not compared with the others there, as there
    was nothing to go on to.
    """
    if not isinstance(scheduler, AsyncHyperBandScheduler):
        return True
    name = trial.trial_id
    brackets = [b for b in scheduler._brackets if any(name in seen for _, seen in b._rungs)]
    bracket = (brackets or scheduler._brackets)[0]
    scheduler._trial_info[name] = bracket
    last = next((seen for _, seen in bracket._rungs if name in seen), None)
    value = flatten(trial.last_result).get(str(scheduler._metric))
    if last is None or last[name] != score(value, scheduler._metric_op or 1.0):
        return True  # it was compared when it passed
    cutoff = bracket.cutoff({other: score for other, score in last.items() if other != name})
    if cutoff is None or last[name] >= cutoff:
        return True
    del scheduler._trial_info[name]
    return False


def forget_results(scheduler: TrialScheduler, trial: Trial) -> None:
    """Take back what ASHA noted of a trial that starts anew."""
    if isinstance(scheduler, AsyncHyperBandScheduler):
        for bracket in scheduler._brackets:
            for _, seen in bracket._rungs:
                seen.pop(trial.trial_id, None)


def forget_stop(scheduler: TrialScheduler, trial: Trial) -> None:
    """Let a trial go on that the median rule was about to stop when the driver was killed.

    The rule ends the sweep at the next result of a trial that it has stopped. This one it judges
    again.
    """
    rule = getattr(scheduler, "_base_scheduler", scheduler)
    if isinstance(rule, MedianStoppingRule):
        rule._stopped_trials.discard(trial)


class _TrialPickler(cloudpickle.CloudPickler):
    """Pickles trials by their id: a resumed sweep has new objects for the same trials."""

    def persistent_id(self, obj: Any) -> Any:
        return ("trial", obj.trial_id) if isinstance(obj, Trial) else None


class _TrialUnpickler(pickle.Unpickler):
    """Reads what `_TrialPickler` wrote."""

    def __init__(self, stream: io.BytesIO, trials: Mapping[str, Trial]) -> None:
        super().__init__(stream)
        self._trials = trials

    def persistent_load(self, reference: Any) -> Any:
        kind, trial_id = reference
        if kind != "trial" or trial_id not in self._trials:
            raise pickle.UnpicklingError(f"the saved scheduler refers to an unknown {reference}")
        return self._trials[trial_id]
