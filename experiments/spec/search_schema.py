"""The `search` section of a spec: one class for each algorithm, with the options that it has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from experiments.spec.section import (
    MAX_TRIALS,
    NUMBER,
    Count,
    FilePath,
    Probability,
    Section,
    sections_of,
)


class WarmStart(Section):
    """Trials of an earlier sweep that the search learns from before its first trial."""

    folder: FilePath | None = None
    """The earlier sweep's folder, `runs/<name>`."""
    mlflow_experiment: str | None = None
    """Or an MLflow experiment: every finished trial in it."""
    tracking_uri: FilePath | None = None
    """Where that experiment is; by default where this sweep is tracked."""


class _Search(Section):
    points_to_evaluate: list[dict[str, Any]] = []
    """Configurations to try first, by setting; a setting that is left out is drawn."""


class GridSearch(Section):
    """Try every combination of the listed values, once."""

    algorithm: Literal["grid"] = "grid"


class RandomSearch(_Search):
    """Draw `num_samples` configurations; settings with `grid` are crossed with each of them."""

    algorithm: Literal["random"] = "random"


class OptunaSection(_Search):
    """What all of Optuna's samplers share."""

    study_storage: FilePath | None = None
    """Place of a copy of the study for optuna-dashboard: a database
    (`sqlite:///runs/optuna.db`), or the path of a journal file."""
    study_name: str | None = None
    """The study's name in that storage; by default the sweep's."""


class LearningSection(OptunaSection):
    """What the samplers share that learn from results."""

    warm_start: list[WarmStart] = []


class TpeSearch(LearningSection):
    """Tree-structured Parzen estimator (Bergstra et al., 2011)."""

    algorithm: Literal["tpe"] = "tpe"
    n_startup_trials: Annotated[int, Field(ge=0, le=MAX_TRIALS), NUMBER] = 10
    """Random trials before the estimator takes over."""
    n_ei_candidates: Count = 24
    multivariate: bool | None = None
    """Whether settings are modelled jointly (Falkner et al., 2018); by default for one metric."""
    group: bool | None = None
    """Whether conditional settings are modelled jointly with others of the same trials; needs
    `multivariate`. By default if the space has any."""
    constant_liar: bool = True
    """Whether running trials count as bad ones, so that parallel trials spread."""


class CmaesSearch(LearningSection):
    """Covariance matrix adaptation evolution strategy (Hansen, 2016), over numbers.

    Choices and conditional settings are drawn at random.
    """

    algorithm: Literal["cmaes"] = "cmaes"
    n_startup_trials: Count = 1
    """Random trials before the first distribution, which covers the space."""
    population_size: Annotated[int, Field(ge=4, le=MAX_TRIALS), NUMBER] | None = None
    """Trials of a generation, half of which make the next; by default 4 + 3 ln(settings)."""


class GpSearch(LearningSection):
    """Gaussian process with expected improvement; with several objectives, of the hypervolume.

    Conditional settings are drawn at random.
    """

    algorithm: Literal["gp"] = "gp"
    n_startup_trials: Count = 10
    """Random trials before the first model."""
    deterministic_objective: bool = False
    """Whether the same configuration always has the same value, so that no noise is modelled."""


class SobolSearch(OptunaSection):
    """Quasi-random points that fill the space evenly (Bergstra & Bengio, 2012)."""

    algorithm: Literal["sobol"] = "sobol"
    sequence: Literal["sobol", "halton"] = "sobol"
    """`sobol` is more even if `num_samples` is a power of two."""
    scramble: bool = True
    """Whether the sequence is randomised by `seed`; without, it begins at the lower bounds."""


class _Evolution(LearningSection):
    population_size: Annotated[int, Field(ge=2, le=MAX_TRIALS), NUMBER] | None = None
    """Trials of a generation, the first of which is random; by default a fifth of `num_samples`,
    from 4 to 50."""
    mutation_prob: Probability | None = None
    """Probability that a setting is drawn again; by default once in a trial."""
    crossover_prob: Probability = 0.9
    """Probability that a trial has two parents."""
    swapping_prob: Probability = 0.5
    """Probability that a setting comes from the second parent."""


class Nsga2Search(_Evolution):
    """Non-dominated sorting genetic algorithm II (Deb et al., 2002): several objectives."""

    algorithm: Literal["nsga2"] = "nsga2"


class Nsga3Search(_Evolution):
    """NSGA-III (Deb & Jain, 2014): more than three objectives."""

    algorithm: Literal["nsga3"] = "nsga3"


Search = Annotated[
    GridSearch
    | RandomSearch
    | TpeSearch
    | CmaesSearch
    | GpSearch
    | SobolSearch
    | Nsga2Search
    | Nsga3Search,
    Field(discriminator="algorithm"),
]

SEARCHES = sections_of(Search)
