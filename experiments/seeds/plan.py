"""From a spec's `seeds` to the class that its trials are of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.cluster.session import available_nodes
from experiments.schedulers.registry import scheduler_kind
from experiments.spec.schema import SweepSpec
from experiments.spec.trial_resources import needed_resources
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from experiments.seeds.multi_seed import MultiSeed


def over_seeds(
    trainable: Any, spec: SweepSpec, space: SearchSpace, num_trials: int
) -> type[MultiSeed]:
    """Return the trainable over the spec's seeds.

    Asks the Ray that runs, or else this machine, how many seeds fit side by side.

    Args:
        trainable: The class that trains one seed.
        spec: The sweep, which has `seeds`.
        space: Its search space.
        num_trials: The number of its trials.
    """
    from experiments.seeds.multi_seed import with_seeds

    assert spec.seeds is not None
    objectives = [objective.metric for objective in spec.objectives or [spec.objective]]
    parallel = spec.seeds.parallel
    if parallel == "auto":
        # That scheduler hands out free CPUs itself, to trials of one bundle.
        if scheduler_kind(spec.scheduler).shares_cpus:
            parallel = 1
        else:
            needed = needed_resources(spec, space, trainable)
            slots = [_fits(needed, node) for node in available_nodes(spec.resources)]
            trials = min(num_trials, spec.max_concurrent or num_trials)
            parallel = processes_for(len(spec.seeds.values), trials, slots)
    return with_seeds(trainable, spec.seeds.values, parallel=parallel, metric=objectives)


def processes_for(seeds: int, trials: int, slots: Sequence[int]) -> int:
    """Return how many processes train the seeds of a trial: as few as are as fast as many.

    Args:
        seeds: Of each trial.
        trials: That there are to run at a time.
        slots: How many processes each node holds. Those of a trial share one node.
    """
    share = min(seeds, max(slots, default=1), sum(slots) // max(1, trials))
    rounds = math.ceil(seeds / max(1, share))
    return math.ceil(seeds / rounds)


def _fits(needed: dict[str, float], node: dict[str, float]) -> int:
    fits = [node.get(name, 0.0) // amount for name, amount in needed.items() if amount > 0]
    return int(min(fits, default=1))
