"""What the two kinds of population training share: what is mutated, and the budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from experiments.schedulers.kind import PLACE, Draft, Parts, SchedulerKind, limit_of
from experiments.spec.scheduler_schema import Pb2Scheduler, PbtScheduler
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace
from trainables.core.config.reference.compatibility import ALIASES
from trainables.core.suggestions import suggestion

# All of a population share these: a trial goes on in a process that was built for its donor's.
_SHARED_SECTIONS = ("environment", "env_runners", "learners", "resources")

Options = TypeVar("Options", PbtScheduler, Pb2Scheduler)


class PopulationKind(SchedulerKind[Options]):
    """All trials of the sweep are the population."""

    pauses = True
    needs_all = True
    fixed_size = "num_samples is the size of the population, which competes from the start"

    def check(self, draft: Draft) -> None:
        size = draft.spec.num_samples * sum(1 for _ in draft.space.grid_points())
        if size < 2:
            raise draft.document.error(
                ("num_samples",),
                f"num_samples: {self.options.algorithm} needs a population of 2 trials at least, "
                "and does something from 4 on; num_samples is its size",
            )
        mutated = self._mutated(draft)
        self._refuse_fixed(draft, mutated)
        self._refuse_conditions(draft, mutated)

    def complete(self, draft: Draft) -> None:
        options = self.options
        if options.perturbation_interval is None:
            limit = limit_of(draft, options.time_attr, "perturbation_interval")
            options.perturbation_interval = max(1, math.ceil(limit / 20))
        first = max(options.perturbation_interval, self.burn_in)
        end = draft.spec.stop.get(options.time_attr, math.inf)
        if first >= end:
            option = "perturbation_interval"
            if first > options.perturbation_interval:
                option = "burn_in_period"
            raise draft.document.error(
                (*PLACE, option),
                f"scheduler: {option} = {first} is not below stop.{options.time_attr} = {end:g}: "
                "no trial would ever be replaced",
            )

    @property
    def burn_in(self) -> int:
        """The budget before the first exploit."""
        return 0

    def alive(self, num_trials: int, max_concurrent: int) -> int | None:
        return num_trials

    def shared(self, parts: Parts) -> dict[str, Any]:
        """Return the arguments of both kinds' schedulers."""
        return {
            "time_attr": self.options.time_attr,
            "interval": self.options.perturbation_interval,
            "quantile": self.options.quantile_fraction,
            "synch": self.options.synch,
            "seed": parts.spec.seed,
        }

    def _mutated(self, draft: Draft) -> list[Parameter]:
        """Return the searched settings that are mutated; the section gets their canonical names."""
        options, document, space = self.options, draft.document, draft.space
        if options.mutations is not None:
            options.mutations = [_canonical(name) for name in options.mutations]
        for key in options.mutations or []:
            if key not in space.keys:
                known = ", ".join(space.keys) or "nothing"
                raise document.error(
                    (*PLACE, "mutations"),
                    f"scheduler: mutations: {key!r} is not searched; the search space has {known}"
                    f"{suggestion(key, space.keys)}",
                )
        mutated = mutated_parameters(space, options.mutations)
        if not mutated:
            raise document.error(
                PLACE,
                f"scheduler: {options.algorithm} needs a search_space, whose settings it mutates",
            )
        return mutated

    def _refuse_fixed(self, draft: Draft, mutated: list[Parameter]) -> None:
        """Every mutated setting can be changed in mid-run; none is shared by the population."""
        config_class: Any = getattr(draft.trainable, "config_class", None)
        for parameter in draft.space.parameters if config_class is not None else ():
            section = config_class.settings()[parameter.path[0]].section
            reason = config_class.why_fixed(parameter.path)
            if reason is None or (parameter not in mutated and section not in _SHARED_SECTIONS):
                continue
            if section in _SHARED_SECTIONS:
                ways = "fix it under config"
            else:
                others = [p.key for p in mutated if config_class.why_fixed(p.path) is None]
                ways = f"fix it under config, or mutate only others: scheduler.mutations: {others}"
            raise draft.document.error(
                ("search_space", parameter.key),
                f"{parameter.key}: {self.options.algorithm} cannot change it in mid-run: {reason}; "
                f"{ways}",
            )

    def _refuse_conditions(self, draft: Draft, mutated: list[Parameter]) -> None:
        """No mutated setting decides whether another one is searched."""
        for parameter in draft.space.parameters:
            for condition in parameter.conditions:
                if any(condition.path == other.path for other in mutated):
                    raise draft.document.error(
                        ("search_space", condition.key),
                        f"{condition.key}: {self.options.algorithm} cannot change it in mid-run: "
                        f"{parameter.key} is only searched for some of its values; leave it out of "
                        "scheduler.mutations",
                    )


def mutated_parameters(space: SearchSpace, names: Sequence[str] | None) -> list[Parameter]:
    """Return the searched settings of these names; all of them without names."""
    return [p for p in space.parameters if names is None or p.key in names]


def _canonical(name: str) -> str:
    """Return a setting by the name that the search space has it by."""
    outer, *inner = name.split(".")
    return ".".join([ALIASES.get(outer, outer), *inner])
