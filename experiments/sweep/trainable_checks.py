"""Whether a spec's other keys, its seeds and its final suit its trainable."""

from __future__ import annotations

from typing import Any

from analysis.results.schedulers import CHANGING
from experiments.schedulers.kind import scheduler_kind
from experiments.spec.function_trainable import is_function_class
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import is_own, resolve_trainable, with_trial_resources
from experiments.spec.trial_resources import trial_configs
from experiments.sweep.actor_reuse import has_own, has_own_reset
from search_spaces.documents import Document, KeyPath
from search_spaces.space import SearchSpace

_SEEDS: KeyPath = ("seeds",)


def ends_by_itself(spec: SweepSpec) -> bool:
    """Tell whether something ends a spec's trials: a criterion, a budget, a function's return."""
    if spec.stop or spec.time_budget_s is not None or getattr(spec.scheduler, "max_t", None):
        return True
    return is_function_class(resolve_trainable(spec.trainable))


def settle_trainable(document: Document, spec: SweepSpec, trainable: Any) -> Any:
    """Check what depends on the trainable's kind, and fill in what follows from it.

    Returns:
        The trainable, with the resources that the spec gives it.

    Raises:
        SpecError: A key asks for what the trainable cannot do.
    """
    if spec.resources.per_trial and not is_own(trainable):
        raise document.error(
            ("resources", "per_trial"),
            f"resources.per_trial = {spec.resources.per_trial}: what a trial of {spec.trainable} "
            "needs follows from its config: num_env_runners, num_cpus_per_env_runner, num_learners,"
            " num_gpus_per_learner",
        )
    if spec.seeds is not None and is_function_class(trainable):
        raise document.error(
            ("seeds",),
            f"seeds: {spec.trainable} is a function, and a process runs only one at a time; run a "
            "trial for each seed with search_space.seed: {grid: […]}, or use final",
        )
    if is_own(trainable):
        _settle_checkpoints(document, spec, trainable)
    _settle_reuse(document, spec, trainable)
    return with_trial_resources(trainable, spec.resources.per_trial)


def _settle_checkpoints(document: Document, spec: SweepSpec, trainable: Any) -> None:
    """Who cannot save when asked is not asked: a function, or a class that does not save."""
    if is_function_class(trainable):
        why = "is a function, which saves when it reports a checkpoint: tune.report(metrics, "
        why += "checkpoint=…)"
    elif has_own(trainable, "save_checkpoint"):
        return
    else:
        why = "has no save_checkpoint"
        if scheduler_kind(spec.scheduler).pauses:
            raise document.error(
                ("scheduler",),
                f"scheduler: {spec.scheduler.algorithm} pauses trials and continues them from "
                f"checkpoints, but {spec.trainable} {why}; give the class save_checkpoint and "
                "load_checkpoint, or use scheduler: asha, median_stopping or fifo",
            )
    asked = document.data.get("checkpoint") or {}
    for key, none in (("frequency", 0), ("at_end", False)):
        if asked.get(key):
            raise document.error(
                ("checkpoint", key),
                f"checkpoint.{key} = {asked[key]!r}: {spec.trainable} {why}; leave it out",
            )
        setattr(spec.checkpoint, key, none)


def _settle_reuse(document: Document, spec: SweepSpec, trainable: Any) -> None:
    place = ("resources", "reuse_actors")
    asked = spec.resources.reuse_actors
    changing = scheduler_kind(spec.scheduler).shares_cpus
    rebuilds = spec.seeds is not None  # the trainable of several seeds replaces its instances
    if asked and changing:
        raise document.error(
            place,
            "resources.reuse_actors = true: the scheduler resource_changing starts a new process "
            "for a trial that grows; leave it out, or use another scheduler",
        )
    if asked and not (rebuilds or has_own(trainable, "reset_config")):
        raise document.error(
            place,
            f"resources.reuse_actors = true: {spec.trainable} has no reset_config, with which it "
            "would become another trial; leave it out, or give the class a method "
            "reset_config(self, new_config) that returns True",
        )
    if asked is None:
        spec.resources.reuse_actors = not changing and (rebuilds or has_own_reset(trainable))


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
        raise document.error(place, "final: it needs a search_space to choose from")
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
