"""Whether a spec's `seeds` and `final` can be had with the rest of it."""

from __future__ import annotations

from typing import Any

from analysis.results.schedulers import CHANGING
from experiments.schedulers.kind import scheduler_kind
from experiments.spec.schema import SweepSpec
from experiments.spec.trial_resources import trial_configs
from search_spaces.documents import Document, KeyPath
from search_spaces.space import SearchSpace

_SEEDS: KeyPath = ("seeds",)


def check_seeds(document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any) -> None:
    """Raise a `SpecError` where several seeds per trial cannot be had."""
    if spec.seeds is None:
        return
    values, parallel = spec.seeds.values, spec.seeds.parallel
    if len(values) < 2 or len(set(values)) < len(values):
        raise document.error(
            _SEEDS, f"seeds = {values} is not allowed; allowed: two or more different seeds "
            "(a single one is the key seed)"
        )  # fmt: skip
    if parallel != "auto" and parallel > len(values):
        raise document.error(
            (*_SEEDS, "parallel"),
            f"seeds.parallel = {parallel} is above the number of seeds, {len(values)}",
        )
    if scheduler_kind(spec.scheduler).shares_cpus and parallel not in ("auto", 1):
        raise document.error(
            (*_SEEDS, "parallel"),
            f"seeds.parallel = {parallel}: the scheduler {spec.scheduler.algorithm} hands out free "
            "CPUs to trials of one process; set it to 1",
        )
    _require_setting(document, _SEEDS, spec, space, trainable)
    if spec.config.get("seed") is not None:
        raise document.error(
            ("config", "seed"),
            f"config.seed = {spec.config['seed']!r} is one seed, and seeds gives {values}; "
            "write only one of the two",
        )
    for config in trial_configs(spec, space, trainable):
        request = trainable.default_resource_request(config)
        if request is not None and len(request.bundles) > 1:
            raise document.error(
                _SEEDS,
                "seeds: several seeds per trial need trials of one process, and this config asks "
                f"for {len(request.bundles)} (num_env_runners = {config.get('num_env_runners')}); "
                "set config.num_env_runners to 0 (seeds.parallel trains seeds side by side), or "
                "run a trial for each seed with search_space.seed: {grid: […]}",
            )


def check_final(document: Document, spec: SweepSpec, space: SearchSpace, trainable: Any) -> None:
    """Raise a `SpecError` where a final on held-out seeds cannot be had."""
    if spec.final is None:
        return
    place: KeyPath = ("final",)
    if not space:
        raise document.error(place, "final: there is nothing to choose from without search_space")
    if len(spec.objectives) > 1:
        raise document.error(
            place, f"final: chooses by one objective, and there are {len(spec.objectives)}; write "
            "one, or run the front's configurations with points_to_evaluate"
        )  # fmt: skip
    if spec.scheduler.algorithm in CHANGING:
        raise document.error(
            place,
            f"final: the winner of {spec.scheduler.algorithm} is a schedule of settings, not a "
            "configuration; replay it over several seeds with the scheduler pbt_replay and seeds",
        )
    _require_setting(document, place, spec, space, trainable)


def _require_setting(
    document: Document, place: KeyPath, spec: SweepSpec, space: SearchSpace, trainable: Any
) -> None:
    """The trainable has the setting `seed`, and the search leaves it alone."""
    key = place[0]
    config_class = getattr(trainable, "config_class", None)
    if config_class is not None and "seed" not in config_class.settings():
        raise document.error(place, f"{key}: {spec.trainable} has no setting 'seed'")
    if "seed" in space.keys:
        raise document.error(
            ("search_space", "seed"), f"search_space.seed and {key} both choose the seeds; write "
            "only one of the two"
        )  # fmt: skip
