"""A scheduler's state, which Tune does not save: to bytes, back, and fit for a longer budget."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ray import cloudpickle
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule, TrialScheduler

from analysis.results.rows import flatten
from experiments.internals.tune import Rungs, base_of, forget_stopped, metric_of, sign_of
from experiments.schedulers.asha import score

_NOT_STATE = ("_keeper",)


def dump_state(scheduler: TrialScheduler) -> bytes:
    """Return the scheduler's attributes, trials by their id; raise whatever pickling raises."""
    stream = io.BytesIO()
    state = {k: v for k, v in scheduler.__dict__.items() if k not in _NOT_STATE}
    _TrialPickler(stream).dump(state)
    return stream.getvalue()


def load_state(scheduler: TrialScheduler, saved: bytes, trials: Mapping[str, Trial]) -> None:
    """Set the attributes that `dump_state` took; raise whatever unpickling raises.

    Args:
        scheduler: A scheduler of the class that the state is of.
        saved: A part of Tune's own (trusted) state.
        trials: The trials that the state may refer to, by id.
    """
    scheduler.__dict__.update(_TrialUnpickler(io.BytesIO(saved), trials).load())


def takes_note(scheduler: TrialScheduler) -> bool:
    """Tell whether a scheduler merely takes note of results, and may be told of some again."""
    return isinstance(scheduler, AsyncHyperBandScheduler | MedianStoppingRule)


def extend_rungs(scheduler: TrialScheduler, stop: Mapping[str, float]) -> None:
    """Give ASHA the rungs of a longer budget, above those that it has; others need nothing."""
    rungs = _rungs_of(scheduler)
    if rungs is None:
        return
    budget = stop.get(rungs.time_attr, 0)
    if budget <= rungs.max_t:
        return
    brackets = rungs.brackets()
    first = brackets[0][-1][0]
    for number, bracket in enumerate(brackets):
        milestone = bracket[0][0] * rungs.factor if bracket else first * rungs.factor**number
        while milestone <= budget:
            bracket.insert(0, (milestone, {}))  # the highest comes first
            milestone *= rungs.factor
    rungs.max_t = int(budget)


def take_back(scheduler: TrialScheduler, trial: Trial) -> bool:
    """Let a trial that ended go on under ASHA; return whether its last rung lets it.

    A trial that ran to the end of the old budget was not compared with the others there, as there
    was nothing to go on to.
    """
    rungs = _rungs_of(scheduler)
    if rungs is None:
        return True
    name, brackets = trial.trial_id, rungs.brackets()
    passed = (n for n, bracket in enumerate(brackets) if any(name in seen for _, seen in bracket))
    number = next(passed, 0)
    rungs.assign(name, number)
    last = next((seen for _, seen in brackets[number] if name in seen), None)
    value = flatten(trial.last_result).get(str(metric_of(scheduler)))
    if last is None or last[name] != score(value, sign_of(scheduler)):
        return True  # it was compared when it passed
    cutoff = rungs.cutoff(number, {other: seen for other, seen in last.items() if other != name})
    if cutoff is None or last[name] >= cutoff:
        return True
    rungs.dismiss(name)
    return False


def forget_results(
    scheduler: TrialScheduler, trial: Trial, last: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Take back what ASHA noted of a trial that starts anew, or goes on from an earlier result.

    Args:
        scheduler: The sweep's scheduler.
        trial: The trial.
        last: The result that it goes on from; what was noted up to it stays.
    """
    rungs = _rungs_of(scheduler)
    if rungs is None:
        return
    reached = flatten(last).get(rungs.time_attr, 0)
    for bracket in rungs.brackets():
        for milestone, seen in bracket:
            if milestone > reached:
                seen.pop(trial.trial_id, None)


def forget_stop(scheduler: TrialScheduler, trial: Trial) -> None:
    """Let a trial go on that the median rule was about to stop when the driver was killed.

    The rule ends the sweep at the next result of a trial that it has stopped. This one it judges
    again.
    """
    rule = base_of(scheduler)
    if isinstance(rule, MedianStoppingRule):
        forget_stopped(rule, trial)


def _rungs_of(scheduler: TrialScheduler) -> Rungs | None:
    return Rungs(scheduler) if isinstance(scheduler, AsyncHyperBandScheduler) else None


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
