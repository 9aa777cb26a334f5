"""Whether a spec's other keys suit the kind of its trainable: ours, a class or a function."""

from __future__ import annotations

from typing import Any

from experiments.actor_reuse import can_reset, has_own_reset
from experiments.function_trainable import is_function_class
from experiments.schema import SweepSpec
from experiments.trainable import is_own, with_trial_resources
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
    if is_function_class(trainable):
        _settle_function(document, spec)
    _settle_reuse(document, spec, trainable)
    return with_trial_resources(trainable, spec.resources.per_trial)


def _settle_function(document: Document, spec: SweepSpec) -> None:
    """A function saves when it wants to, and there is one in a process."""
    asked = document.data.get("checkpoint") or {}
    for key, none in (("frequency", 0), ("at_end", False)):
        if asked.get(key):
            raise document.error(
                ("checkpoint", key),
                f"checkpoint.{key} = {asked[key]!r}: {spec.trainable} is a function, which saves "
                "when it reports a checkpoint: tune.report(metrics, checkpoint=…); leave it out",
            )
        setattr(spec.checkpoint, key, none)
    if spec.seeds is not None:
        raise document.error(
            ("seeds",),
            f"seeds: {spec.trainable} is a function, of which a process runs one at a time; run a "
            "trial for each seed with search_space.seed: {grid: […]}, or use final",
        )


def _settle_reuse(document: Document, spec: SweepSpec, trainable: Any) -> None:
    place = ("resources", "reuse_actors")
    asked = spec.resources.reuse_actors
    changing = spec.scheduler.algorithm == "resource_changing"
    rebuilds = spec.seeds is not None  # the trainable of several seeds replaces its instances
    if asked and changing:
        raise document.error(
            place,
            "resources.reuse_actors = true: the scheduler resource_changing gives a trial that "
            "grows a process of its own; leave it out, or use another scheduler",
        )
    if asked and not (rebuilds or can_reset(trainable)):
        raise document.error(
            place,
            f"resources.reuse_actors = true: {spec.trainable} has no reset_config, with which it "
            "would become another trial; leave it out, or give the class a method "
            "reset_config(self, new_config) that returns True",
        )
    if asked is None:
        spec.resources.reuse_actors = not changing and (rebuilds or has_own_reset(trainable))
