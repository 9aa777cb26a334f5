"""What `trial_batching` will do, told before a sweep runs."""

from __future__ import annotations

import copy
from typing import Any

from experiments.spec.trial_resources import trial_configs
from experiments.sweep.sweep import Sweep
from trainables.algorithm import Algorithm


def batching_notes(sweep: Sweep) -> list[str]:
    """Return a line on what learns together in a sweep; none without the setting.

    It makes one trial for it, since what its networks and optimiser are decides.

    Args:
        sweep: The sweep.
    """
    if not sweep.spec.trial_batching:
        return []
    if sweep.spec.seeds is None:
        return [_hosting_note(sweep)]
    together = -(-len(sweep.trainable.seeds) // sweep.trainable.parallel)
    if together < 2:
        return ["trial_batching: each seed has a process of its own, so that none learn together"]
    config = next(iter(trial_configs(sweep.spec, sweep.space, sweep.trainable.trainable_class)))
    reason = _why_alone(sweep.trainable.trainable_class, config)
    if reason is None:
        return [f"trial_batching: up to {together} seeds of a process learn together"]
    return [f"trial_batching: the seeds of a process learn one after the other: {reason}"]


def _hosting_note(sweep: Sweep) -> str:
    plan = sweep.hosting
    if isinstance(plan, str):
        return f"trial_batching: each trial has a process of its own: {plan}"
    assert plan is not None
    config = next(iter(trial_configs(sweep.spec, sweep.space, sweep.trainable)))
    reason = _why_alone(sweep.trainable, config)
    hosts = f"{plan.places} trials in {plan.num_hosts} processes"
    if reason is None:
        return f"trial_batching: up to {hosts}, which learn together"
    return f"trial_batching: up to {hosts}, one after the other: {reason}"


def _why_alone(trainable: Any, config: Any) -> str | None:
    if not issubclass(trainable, Algorithm):
        return f"{trainable.__name__} is none of Tunescape's algorithms"
    trial = trainable(config=copy.deepcopy(config))
    try:
        return trial.why_alone()
    finally:
        trial.stop()
