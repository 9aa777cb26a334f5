"""What a sweep would do, shown by `tunescape run --dry-run`. Ray is not started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.credentials import scrubbed
from experiments.cluster import local_node
from experiments.paths import sweep_dir, tracking_uri
from experiments.preflight import check_places, check_resources, check_unused, trial_resources
from experiments.schema import SweepSpec
from experiments.search_checks import notes
from experiments.seed_plan import sweep_trainable
from experiments.short_spec import short_spec
from experiments.spec import dump_spec, spec_space
from search_spaces.yaml_values import dump_flow
from trainables.runtime.feasibility import shown

if TYPE_CHECKING:
    from rich.console import Console

_EXAMPLES = 3


def show_plan(spec: SweepSpec, console: Console, *, whole: bool = False) -> None:
    """Print the spec, the resources, the folders and some configurations.

    Args:
        spec: The sweep.
        console: Where to.
        whole: Whether every default of the spec is shown, too.

    Raises:
        PreflightError: This machine could not run a trial (a cluster is not asked), a place to
            which the sweep writes is not its own or cannot be written, or the search cannot learn
            from what `warm_start` names.
    """
    from experiments.final import held_out_seeds
    from experiments.search import total_trials
    from experiments.tuner import max_concurrent_trials
    from experiments.warm_start import load_history

    space = spec_space(spec)
    trainable = sweep_trainable(spec)
    if spec.resources.address is None:
        check_resources(trainable, spec, space, [local_node(spec.resources)])
    check_places(spec)
    lines = [
        dump_spec(spec).rstrip() if whole else short_spec(spec),
        "",
        f"# trials: {total_trials(spec, space)}, {max_concurrent_trials(spec, trainable)} at a "
        f"time, each with {shown(trial_resources(trainable, spec, space))}",
        f"# folder: {sweep_dir(spec)}",
    ]
    if spec.seeds is not None:
        lines.append(f"# seeds of each trial: {spec.seeds.values}, {trainable.parallel} at a time")
    if spec.final is not None:
        lines.append(
            f"# then the best {spec.final.top} configurations on the held-out seeds "
            f"{held_out_seeds(spec)}"
        )
    if spec.mlflow.enabled:
        lines.append(f"# MLflow: {scrubbed(tracking_uri(spec))}")
    lines += [f"# {line}" for line in load_history(spec, space).lines]
    lines += [f"# {note}" for note in notes(spec, space)]
    lines += [f"# a trial may have: {dump_flow(_rounded(e))}" for e in _examples(spec)]
    if not whole:
        lines.append("# what is not shown is at its default: -v shows it")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    check_unused(sweep_dir(spec))


def show_plans(specs: list[SweepSpec], console: Console) -> None:
    """One line for each sweep of a matrix; see `show_plan`."""
    from experiments.search import total_trials
    from experiments.tuner import max_concurrent_trials

    lines = [f"# {len(specs)} sweeps, one after another:"]
    for spec in specs:
        trainable = sweep_trainable(spec)
        space = spec_space(spec)
        if spec.resources.address is None:
            check_resources(trainable, spec, space, [local_node(spec.resources)])
        check_places(spec)
        lines.append(
            f"{spec.name}: {total_trials(spec, space)} trials of {spec.trainable} by "
            f"{spec.search.algorithm} search, {max_concurrent_trials(spec, trainable)} at a time, "
            f"each with {shown(trial_resources(trainable, spec, space))}"
        )
    lines.append(f"# folder: {sweep_dir(specs[0]).parent}")
    lines.append("# `tunescape show` prints each sweep's complete spec")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    check_unused(sweep_dir(specs[0]).parent)


def _rounded(value: Any) -> Any:
    """The numbers of an example as people read them."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _examples(spec: SweepSpec) -> list[dict[str, Any]]:
    from experiments.search import searched_points

    space = spec_space(spec)
    if not space:
        return []
    generator = np.random.default_rng(spec.seed)
    grid = list(space.grid_points(whole=spec.search.algorithm == "grid"))
    first = searched_points(spec, space)
    examples = []
    for index in range(min(_EXAMPLES, max(len(grid), spec.num_samples))):
        draw, place = divmod(index, len(grid))
        point = first[draw] if draw < len(first) else {}
        examples.append(space.config(space.sample(generator, {**point, **grid[place]})))
    return examples
