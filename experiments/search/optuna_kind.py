"""What the kinds share that sample with Optuna, and those of them that learn from results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from analysis.credentials import scrubbed
from analysis.results.store_files import why_no_tracking_uri
from experiments.search.kind import PLACE, SearchKind
from experiments.spec.references import writes_secret
from experiments.spec.schema import SweepSpec
from experiments.spec.search_schema import LearningSection, OptunaSection
from search_spaces.documents import Document, KeyPath
from search_spaces.domains import Grid
from search_spaces.parameter import Parameter
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

    from experiments.search.optuna_search import OptunaSearch

_DATABASES = ("sqlite", "postgresql", "mysql", "mssql", "oracle")

Optunas = TypeVar("Optunas", bound=OptunaSection)
Learning = TypeVar("Learning", bound=LearningSection)


class OptunaKind(SearchKind[Optunas]):
    """A search by one of Optuna's samplers."""

    drawn_apart: ClassVar[str] = ""
    """The kinds of settings that the sampler draws at random, each for itself, if any."""

    def sampler(
        self, space: SearchSpace, seed: int | None, history: Sequence[FrozenTrial]
    ) -> BaseSampler:
        """Return the sampler that the options describe.

        Args:
            space: What is searched.
            seed: The seed of the sampler.
            history: The trials of earlier sweeps; they are in the study, too.
        """
        raise NotImplementedError

    def models(self, parameter: Parameter) -> bool:
        """Tell whether the sampler learns about a setting, instead of drawing it at random."""
        return True

    def check(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        algorithm = spec.search.algorithm
        if not space:
            raise document.error(PLACE, f"search: {algorithm} needs a search_space")
        for parameter in space.parameters:
            if isinstance(parameter.domain, Grid):
                raise document.error(
                    ("search_space", parameter.key),
                    f"{parameter.key}: {algorithm} cannot search a grid; write choice instead, "
                    "or use the search random or grid",
                )
        self._check_storage(document, spec)

    def notes(self, spec: SweepSpec, space: SearchSpace) -> list[str]:
        alone = [p.key for p in space.parameters if not self.models(p)]
        if not alone:
            return []
        return [
            f"{spec.search.algorithm} draws {self.drawn_apart} at random ({', '.join(alone)}); "
            "tpe learns about them too"
        ]

    def total(self, spec: SweepSpec, space: SearchSpace) -> int:
        return spec.num_samples

    def build(
        self,
        spec: SweepSpec,
        space: SearchSpace,
        points: Sequence[dict[str, Any]],
        history: Sequence[FrozenTrial] = (),
    ) -> OptunaSearch:
        from experiments.search.optuna_search import OptunaSearch
        from experiments.search.samplers import build_sampler

        sampler = build_sampler(self.options, space, seed=spec.seed, history=list(history))
        return OptunaSearch(
            space,
            metric=spec.objective.metric,
            mode=spec.objective.mode,
            sampler=sampler,
            objectives=[(o.metric, o.mode) for o in spec.objectives],
            stop=spec.stop,
            points=list(points),
            history=list(history),
        )

    def _check_storage(self, document: Document, spec: SweepSpec) -> None:
        place: KeyPath = (*PLACE, "study_storage")
        uri = self.options.study_storage
        if uri is None:
            if self.options.study_name is not None:
                raise document.error(
                    (*PLACE, "study_name"),
                    "search: study_name needs study_storage, the place of the study",
                )
            return
        known = uri.split("://")[0].split("+")[0] in _DATABASES if "://" in uri else bool(uri)
        if not known:
            raise document.error(
                place,
                f"search: study_storage = {scrubbed(uri)!r} is no storage of Optuna's; allowed: "
                f"{', '.join(f'{name}://…' for name in _DATABASES)}, or the path of a journal file",
            )
        if writes_secret(uri, spec._references.get("search.study_storage")):
            raise document.error(
                place,
                "search: study_storage holds a password, which would be kept in the sweep's "
                "folder; put the URI in an environment variable and write study_storage: "
                "${env:NAME}",
            )


class LearningKind(OptunaKind[Learning]):
    """A search that learns from results, those of earlier sweeps too."""

    def at_a_time(self, total: int) -> int:
        """Return a quarter of all, so that it has results to learn from, or those drawn blindly."""
        first = getattr(self.options, "n_startup_trials", None) or 0
        return max(first, math.ceil(total / 4))

    def check(self, document: Document, spec: SweepSpec, space: SearchSpace) -> None:
        super().check(document, spec, space)
        for number, source in enumerate(self.options.warm_start):
            place: KeyPath = (*PLACE, "warm_start", number)
            if (source.folder is None) == (source.mlflow_experiment is None):
                raise document.error(
                    place, f"search: warm_start[{number}] needs either folder or mlflow_experiment"
                )
            if source.tracking_uri is not None and source.mlflow_experiment is None:
                raise document.error(
                    (*place, "tracking_uri"),
                    f"search: warm_start[{number}]: tracking_uri belongs to mlflow_experiment",
                )
            problem = why_no_tracking_uri(source.tracking_uri or "")
            if problem is not None:
                raise document.error(
                    (*place, "tracking_uri"),
                    f"search: warm_start[{number}]: tracking_uri: {problem}",
                )
            reference = spec._references.get(f"search.warm_start.{number}.tracking_uri")
            if writes_secret(source.tracking_uri, reference):
                raise document.error(
                    (*place, "tracking_uri"),
                    f"search: warm_start[{number}]: tracking_uri holds credentials, which would be "
                    "kept in the sweep's folder; put the URI in an environment variable and write "
                    "tracking_uri: ${env:NAME}",
                )
