"""A sweep that is given more samples or a longer budget, in place.

The `spec.yaml` in the sweep's folder says what the sweep is to be; every resume brings Tune's
saved state in line with it (`experiments.durability.resumption`). So an extension is one file,
replaced whole: a kill before that leaves the old sweep, a kill after it the extended one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from experiments.errors import SweepError
from experiments.output_files import replace_text
from experiments.schedulers.kind import scheduler_kind
from experiments.search.kind import search_kind
from experiments.spec.metrics import canonical_metric
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import dump_spec, read_spec
from search_spaces.documents import SpecError
from trainables.core.suggestions import suggestion

_NEW_SWEEP = "start a new sweep instead"


def extended(
    spec: SweepSpec, num_samples: int | None = None, stop: Mapping[str, float] | None = None
) -> SweepSpec:
    """Return the spec with more samples or a longer budget.

    Args:
        spec: The sweep as it is.
        num_samples: All samples that it is to have, those that there are included.
        stop: New values of its stop criteria; those that are left out stay.

    Raises:
        SweepError: It would not be an extension, or this sweep cannot have it; the message says
            what can be done instead.
    """
    new = spec.model_copy(deep=True)
    if num_samples is not None:
        _check_samples(spec, num_samples)
        new.num_samples = num_samples
    for name, value in (stop or {}).items():
        metric = _criterion(spec, name, value)
        new.stop[metric] = value
        scheduler_kind(new.scheduler).extend(metric, value)
    return new


def parse_stop(assignments: list[str]) -> dict[str, float]:
    """Stop criteria from the command line, `METRIC=VALUE` each."""
    stop: dict[str, float] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        try:
            value = float(text.replace("_", ""))
        except ValueError:
            value = math.nan
        if not equals or not name or not math.isfinite(value):
            raise SweepError(
                f"--stop {assignment}: write METRIC=NUMBER, "
                "e.g. --stop num_env_steps_sampled_lifetime=200000"
            )
        stop[name] = int(value) if value.is_integer() else value
    return stop


def write_spec(spec: SweepSpec, file: Path) -> None:
    """Replace a sweep's `spec.yaml`, whole or not at all; where it says it lies stays."""
    before = read_spec(file)
    spec = spec.model_copy(update={"storage": before.storage, "name": before.name})
    replace_text(file, dump_spec(spec))


def _check_samples(spec: SweepSpec, num_samples: int) -> None:
    there = f"{spec.name} has num_samples = {spec.num_samples}"
    if search_kind(spec.search).whole_grid:
        raise SweepError(
            f"--num-samples {num_samples}: a grid search runs every combination once and cannot "
            f"get more; {_NEW_SWEEP}, with more values or with `search: random`"
        )
    reason = scheduler_kind(spec.scheduler).fixed_size
    if reason:
        raise SweepError(
            f"--num-samples {num_samples}: a sweep with the scheduler {spec.scheduler.algorithm} "
            f"cannot get more trials: {reason}; {_NEW_SWEEP}"
        )
    if num_samples < spec.num_samples:
        raise SweepError(
            f"--num-samples {num_samples}: {there} already, and trials are never taken away; "
            f"give the number of all samples, {spec.num_samples + 1} or more"
        )


def _criterion(spec: SweepSpec, name: str, value: float) -> str:
    """Return the canonical name of the stop criterion that is to become `value`."""
    given = f"--stop {name}={value:g}"
    try:
        metric = canonical_metric(name)
    except SpecError as error:
        raise SweepError(f"{given}: {error}") from None
    if metric not in spec.stop:
        there = ", ".join(f"{key}={limit:g}" for key, limit in spec.stop.items()) or "none"
        raise SweepError(
            f"{given}: it is no stop criterion of {spec.name}, which has {there}"
            f"{suggestion(metric, spec.stop)}"
        )
    if value < spec.stop[metric]:
        raise SweepError(
            f"{given}: that is less than the {spec.stop[metric]:g} that {spec.name} has, and "
            f"trials that went further cannot go back; {_NEW_SWEEP} for a lower budget"
        )
    reason = scheduler_kind(spec.scheduler).fixed_budget
    if value > spec.stop[metric] and reason:
        raise SweepError(
            f"{given}: a sweep with the scheduler {spec.scheduler.algorithm} cannot get a longer "
            f"budget: {reason}; {_NEW_SWEEP}"
        )
    return metric
