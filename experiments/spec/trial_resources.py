"""What a trial asks of Ray, and which configs may ask for something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.spec.merging import deep_merge
from experiments.spec.schema import SweepSpec
from search_spaces.space import SearchSpace
from trainables.runtime.actors.feasibility import total


@dataclass(frozen=True)
class TrialResources:
    """The resources of a trial, and how many trials run at a time.

    Attributes:
        needed: The amount of each resource that a trial of the first config takes in all.
        max_concurrent: The number of trials at a time that the spec sets; None: as many as fit.
    """

    needed: Mapping[str, float]
    max_concurrent: int | None = None

    def at_once(self, nodes: Sequence[Mapping[str, float]]) -> int:
        """Return how many trials run at a time: the spec's number, or as many as the nodes hold."""
        if self.max_concurrent is not None:
            return self.max_concurrent
        fits = [total(nodes, name) // amount for name, amount in self.needed.items() if amount > 0]
        return max(1, int(min(fits, default=1)))


def needed_resources(spec: SweepSpec, space: SearchSpace, trainable: type[Any]) -> dict[str, float]:
    """Return the resources that the first config's trial takes in all."""
    config = next(iter(trial_configs(spec, space, trainable)))
    request = trainable.default_resource_request(config)
    return dict(request.required_resources) if request is not None else {"CPU": 1.0}


def trial_configs(
    spec: SweepSpec, space: SearchSpace, trainable: type[Any]
) -> Iterable[dict[str, Any]]:
    """Yield the fixed config, with each searched setting at each of its extremes in turn.

    A trainable of one's own that declares no settings has no defaults either: there what is
    searched is drawn.
    """
    fixed = dict(spec.config)
    if space and getattr(trainable, "config_class", None) is None:
        drawn = space.sample(np.random.default_rng(spec.seed or 0), next(space.grid_points()))
        fixed = deep_merge(fixed, space.config(drawn))
    yield fixed
    for _, probe in space.probes():
        yield {**fixed, **probe}
