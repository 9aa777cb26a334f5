"""Whether a spec's other keys suit the kind of its trainable: ours, a class or a function."""

from __future__ import annotations

from typing import Any

from experiments.schedulers.kind import scheduler_kind
from experiments.spec.function_trainable import is_function_class
from experiments.spec.schema import SweepSpec
from experiments.spec.trainable import is_own, with_trial_resources
from experiments.sweep.actor_reuse import has_own, has_own_reset
from search_spaces.documents import Document


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
            f"seeds: {spec.trainable} is a function, of which a process runs one at a time; run a "
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
                f"scheduler: {spec.scheduler.algorithm} pauses trials and goes on from their "
                f"checkpoints, and {spec.trainable} {why}; give the class save_checkpoint and "
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
            "resources.reuse_actors = true: the scheduler resource_changing gives a trial that "
            "grows a process of its own; leave it out, or use another scheduler",
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
