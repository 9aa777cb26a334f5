"""A sweep that can be planned, run and resumed: a checked spec with what follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cluster.session import available_nodes
from experiments.schedulers.kind import scheduler_kind
from experiments.search.kind import search_kind
from experiments.spec.paths import storage_dir, sweep_dir, tracking_uri
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import resolve_trainable, with_trial_resources
from experiments.spec.trial_resources import TrialResources, needed_resources, trial_configs
from experiments.sweep.hosting import HostPlan, host_plan
from experiments.sweep.load import spec_space
from experiments.sweep.trainable_checks import ends_by_itself
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from experiments.seeds.multi_seed import MultiSeed


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
        hosting: How trials share processes, or why not; None: nobody asked for it.
    """

    spec: SweepSpec
    space: SearchSpace
    trainable: type[Any]
    storage: Path
    folder: Path
    tracking_uri: str
    num_trials: int
    hosting: HostPlan | str | None

    @classmethod
    def of(cls, spec: SweepSpec) -> Sweep:
        """Work out what follows from a checked spec.

        Asks the Ray that runs, or else this machine, what fits side by side.
        """
        space = spec_space(spec)
        count = search_kind(spec.search).total(spec, space)
        single = with_trial_resources(resolve_trainable(spec.trainable), spec.resources.per_trial)
        hosting = _hosting(single, spec, space, count)
        trainable = single
        if spec.seeds is not None:
            trainable = over_seeds(single, spec, space, count, hosting)
        places = storage_dir(spec), sweep_dir(spec), tracking_uri(spec)
        return cls(spec, space, trainable, *places, count, hosting)

    def on_this_ray(self) -> Sweep:
        """Return the sweep for the Ray that was started or joined since it was built.

        Its nodes may hold another number of seeds or hosts side by side than this machine.
        """
        depends = self.spec.seeds is not None or self.spec.trial_batching
        return Sweep.of(self.spec) if depends else self

    @cached_property
    def resources(self) -> TrialResources:
        """What a trial needs; asked when the checks of the machine have passed."""
        needed = needed_resources(self.spec, self.space, self.trainable)
        return TrialResources(needed, self.spec.max_concurrent)

    @property
    def at_once(self) -> int:
        """How many trials run at a time on the Ray that runs, or else on this machine."""
        if isinstance(self.hosting, HostPlan):
            return self.hosting.places
        return self.resources.at_once(available_nodes(self.spec.resources))

    @property
    def notes(self) -> list[str]:
        """What a user should know of the search and of when trials end, a sentence each."""
        found = list(search_kind(self.spec.search).notes(self.spec, self.space))
        if not ends_by_itself(self.spec):
            found.append(
                "stop is empty, and there is no time_budget_s: trials run until Ctrl-C ends the "
                "sweep; stop: {num_env_steps_sampled_lifetime: 100000}, say, ends each"
            )
        return found

    @property
    def artifact_location(self) -> str | None:
        """Where MLflow keeps artifacts: beside its database; a server decides for itself."""
        is_local = self.tracking_uri.startswith("sqlite:")
        return (self.storage / "mlartifacts").as_uri() if is_local else None


def over_seeds(
    trainable: Any,
    spec: SweepSpec,
    space: SearchSpace,
    num_trials: int,
    hosting: HostPlan | str | None = None,
) -> type[MultiSeed]:
    """Return the trainable over the spec's seeds.

    Asks the Ray that runs, or else this machine, how many seeds fit side by side.

    Args:
        trainable: The class that trains one seed.
        spec: The sweep, which has `seeds`.
        space: Its search space.
        num_trials: The number of its trials.
        hosting: How its trials share processes, if they do.
    """
    from experiments.seeds.multi_seed import with_seeds

    assert spec.seeds is not None
    objectives = [objective.metric for objective in spec.objectives or [spec.objective]]
    parallel = spec.seeds.parallel
    if isinstance(hosting, HostPlan):
        parallel = hosting.parallel
    elif parallel == "auto":
        # That scheduler hands out free CPUs itself, to trials of one bundle.
        if scheduler_kind(spec.scheduler).shares_cpus:
            parallel = 1
        else:
            needed = needed_resources(spec, space, trainable)
            slots = [_fits(needed, node) for node in available_nodes(spec.resources)]
            trials = min(num_trials, spec.max_concurrent or num_trials)
            parallel = processes_for(len(spec.seeds.values), trials, slots)
    return with_seeds(
        trainable,
        spec.seeds.values,
        parallel=parallel,
        batched=spec.trial_batching == "auto",
        metric=objectives,
    )


def _hosting(
    trainable: Any, spec: SweepSpec, space: SearchSpace, num_trials: int
) -> HostPlan | str | None:
    """Return how trials share processes, or why not; None: nobody asked for it."""
    if not spec.trial_batching:
        return None
    if scheduler_kind(spec.scheduler).shares_cpus:
        return f"the scheduler {spec.scheduler.algorithm} hands out CPUs to each trial"
    seeds = 1
    if spec.seeds is not None:
        if spec.seeds.parallel != "auto":
            return f"seeds.parallel = {spec.seeds.parallel} gives each trial that many"
        seeds = len(spec.seeds.values)
    most = spec.max_concurrent or search_kind(spec.search).at_a_time(num_trials)
    at_a_time = min(num_trials, most)
    nodes = available_nodes(spec.resources)
    return host_plan(trainable, trial_configs(spec, space, trainable), at_a_time, nodes, seeds)


def processes_for(seeds: int, trials: int, slots: Sequence[int]) -> int:
    """Return how many processes train the seeds of a trial: as few as are as fast as many.

    Args:
        seeds: The number of seeds of each trial.
        trials: The number of trials that are to run at a time.
        slots: How many processes each node holds. Those of a trial share one node.
    """
    share = min(seeds, max(slots, default=1), sum(slots) // max(1, trials))
    rounds = math.ceil(seeds / max(1, share))
    return math.ceil(seeds / rounds)


def _fits(needed: dict[str, float], node: dict[str, float]) -> int:
    fits = [node.get(name, 0.0) // amount for name, amount in needed.items() if amount > 0]
    return int(min(fits, default=1))
