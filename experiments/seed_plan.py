"""From a spec's `seeds` to the class that its trials are of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from experiments.cluster import local_node
from experiments.preflight import trial_resources
from experiments.schedulers.registry import kind_of
from experiments.schema import SweepSpec
from experiments.spec import spec_space
from experiments.trainable import resolve_trainable, with_trial_resources
from trainables.runtime.feasibility import live_nodes


def sweep_trainable(spec: SweepSpec) -> Any:
    """The class of a sweep's trials: the spec's trainable, over several seeds if it has `seeds`.

    Asks the Ray that runs, or else this machine, how many seeds fit side by side.
    """
    trainable: Any = resolve_trainable(spec.trainable)
    trainable = with_trial_resources(trainable, spec.resources.per_trial)
    if spec.seeds is None:
        return trainable
    from experiments.multi_seed import with_seeds

    objectives = [objective.metric for objective in spec.objectives or [spec.objective]]
    parallel = spec.seeds.parallel
    if parallel == "auto":
        # That scheduler hands out free CPUs itself, to trials of one bundle.
        shared = kind_of(spec.scheduler).shares_cpus
        parallel = 1 if shared else _parallel(spec, trainable)
    return with_seeds(trainable, spec.seeds.values, parallel=parallel, metric=objectives)


def processes_for(seeds: int, trials: int, slots: Sequence[int]) -> int:
    """How many processes train the seeds of a trial: as few as are as fast as many.

    Args:
        seeds: Of each trial.
        trials: That there are to run at a time.
        slots: How many processes each node holds. Those of a trial share one node.
    """
    share = min(seeds, max(slots, default=1), sum(slots) // max(1, trials))
    rounds = math.ceil(seeds / max(1, share))
    return math.ceil(seeds / rounds)


def _parallel(spec: SweepSpec, trainable: Any) -> int:
    import ray

    from experiments.search import total_trials

    assert spec.seeds is not None
    space = spec_space(spec)
    needed = trial_resources(trainable, spec, space)
    available = live_nodes() if ray.is_initialized() else [local_node(spec.resources)]
    slots = [_fits(needed, node) for node in available]
    trials = min(total_trials(spec, space), spec.max_concurrent or math.inf)
    return processes_for(len(spec.seeds.values), int(trials), slots)


def _fits(needed: dict[str, float], node: dict[str, float]) -> int:
    fits = [node.get(name, 0.0) // amount for name, amount in needed.items() if amount > 0]
    return int(min(fits, default=1))
