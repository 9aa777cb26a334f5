"""What `trial_batching` will do, told before a sweep runs."""

from __future__ import annotations

from experiments.spec.trial_resources import trial_configs
from experiments.sweep.hosting import HostPlan, why_alone
from experiments.sweep.sweep import Sweep


def batching_notes(sweep: Sweep) -> list[str]:
    """Return a line on what learns together in a sweep; none without the setting.

    Args:
        sweep: The sweep.
    """
    plan = sweep.hosting
    if isinstance(plan, HostPlan):
        of = f" of {len(sweep.trainable.seeds)} seeds" if sweep.spec.seeds is not None else ""
        where = f"{plan.num_hosts} process" + ("es" if plan.num_hosts > 1 else "")
        return [f"trial_batching: up to {plan.places} trials{of} learn together in {where}"]
    if plan is None:
        return []
    if sweep.spec.seeds is None:
        return [f"trial_batching: each trial has its own process: {plan}"]
    return [_seeds_note(sweep, plan)]


def _seeds_note(sweep: Sweep, reason: str) -> str:
    """Return what learns together in the processes that a trial of several seeds has of its own."""
    own = f"trial_batching: each trial has {sweep.trainable.parallel} of its own ({reason})"
    together = -(-len(sweep.trainable.seeds) // sweep.trainable.parallel)
    if together < 2:
        return f"{own}, each a seed: none learn together"
    config = next(iter(trial_configs(sweep.spec, sweep.space, sweep.trainable.trainable_class)))
    alone = why_alone(sweep.trainable.trainable_class, config)
    if alone is None:
        return f"{own}: up to {together} seeds of a process learn together"
    return f"{own}: its seeds learn one after the other: {alone}"
