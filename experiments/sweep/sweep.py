"""A sweep that can be planned, run and resumed: a checked spec with what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.cluster.session import available_nodes
from experiments.search.registry import search_kind
from experiments.seeds.plan import over_seeds
from experiments.spec.paths import storage_dir, sweep_dir, tracking_uri
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import resolve_trainable, with_trial_resources
from experiments.spec.trial_resources import TrialResources, needed_resources
from experiments.sweep.load import spec_space
from search_spaces.space import SearchSpace


@dataclass(frozen=True)
class Sweep:
    """A checked spec and the answers that everyone who works on its sweep needs.

    Attributes:
        spec: The checked spec.
        space: What is searched.
        trainable: The class of the trials: the spec's, over several seeds if the spec has `seeds`.
        storage: The folder that holds the sweeps' folders and MLflow's database.
        folder: The folder that holds all that the sweep writes.
        tracking_uri: Where MLflow keeps its runs.
        num_trials: The number of trials in all.
    """

    spec: SweepSpec
    space: SearchSpace
    trainable: type[Any]
    storage: Path
    folder: Path
    tracking_uri: str
    num_trials: int

    @classmethod
    def of(cls, spec: SweepSpec) -> Sweep:
        """Work out what follows from a checked spec.

        Asks the Ray that runs, or else this machine, how many seeds of a trial fit side by side.
        """
        space = spec_space(spec)
        count = search_kind(spec.search).total(spec, space)
        single = with_trial_resources(resolve_trainable(spec.trainable), spec.resources.per_trial)
        trainable = single if spec.seeds is None else over_seeds(single, spec, space, count)
        return cls(
            spec, space, trainable, storage_dir(spec), sweep_dir(spec), tracking_uri(spec), count
        )

    def on_this_ray(self) -> Sweep:
        """Return the sweep for the Ray that was started or joined since it was built.

        Its nodes may hold another number of seeds side by side than this machine.
        """
        return self if self.spec.seeds is None else Sweep.of(self.spec)

    @cached_property
    def resources(self) -> TrialResources:
        """What a trial needs; asked when the checks of the machine have passed."""
        needed = needed_resources(self.spec, self.space, self.trainable)
        return TrialResources(needed, self.spec.max_concurrent)

    @property
    def at_once(self) -> int:
        """How many trials run at a time on the Ray that runs, or else on this machine."""
        return self.resources.at_once(available_nodes(self.spec.resources))

    @property
    def artifact_location(self) -> str | None:
        """Where MLflow keeps artifacts: beside its database; a server decides for itself."""
        is_local = self.tracking_uri.startswith("sqlite:")
        return (self.storage / "mlartifacts").as_uri() if is_local else None
