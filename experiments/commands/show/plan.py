"""What a sweep would do, shown by `tunescape run --dry-run`. Ray is not started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.credentials import scrubbed
from experiments.cluster.session import local_node
from experiments.commands.show.short_spec import short_spec
from experiments.search.kind import search_kind
from experiments.sweep.batching import batching_notes
from experiments.sweep.load import dump_spec
from experiments.sweep.preflight import check_places, check_resources
from experiments.sweep.sweep import Sweep
from experiments.sweep.used_folder import check_replaceable
from experiments.terminal import say
from search_spaces.yaml_values import dump_flow
from trainables.runtime.actors.feasibility import shown

if TYPE_CHECKING:
    from rich.console import Console

_EXAMPLES = 3


def show_plan(
    sweep: Sweep, console: Console, *, whole: bool = False, overwrite: bool = False
) -> None:
    """Print the spec, the resources, the folders and some configurations.

    Args:
        sweep: The sweep.
        console: Where to.
        whole: Whether every default of the spec is shown, too.
        overwrite: Whether the sweep may replace one with results.

    Raises:
        PreflightError: This machine could not run a trial (a cluster is not asked), a place to
            which the sweep writes is not its own or cannot be written, or the search cannot learn
            from what `warm_start` names.
    """
    from experiments.running.final import held_out_seeds
    from experiments.running.warm_start import load_history

    spec = sweep.spec
    _check(sweep)
    lines = [
        dump_spec(spec).rstrip() if whole else short_spec(spec),
        "",
        f"# trials: {sweep.num_trials}, {_at_once(sweep)}, each with "
        f"{shown(sweep.resources.needed)}",
        f"# folder: {sweep.folder}",
    ]
    if spec.seeds is not None:
        lines.append(
            f"# seeds of each trial: {spec.seeds.values}, {sweep.trainable.parallel} at a time"
        )
    lines += [f"# {note}" for note in batching_notes(sweep)]
    if spec.final is not None:
        lines.append(
            f"# then the best {spec.final.top} configurations on the held-out seeds "
            f"{held_out_seeds(spec)}"
        )
    if spec.mlflow.enabled:
        lines.append(f"# MLflow: {scrubbed(sweep.tracking_uri)}")
    lines += [f"# {line}" for line in load_history(sweep).lines]
    lines += [f"# {note}" for note in sweep.notes]
    lines += [f"# a trial may have: {dump_flow(_rounded(e))}" for e in _examples(sweep)]
    if not whole:
        lines.append("# settings at their defaults are not shown: -v shows them")
    say(console, "\n".join(lines))
    check_replaceable(sweep.folder, overwrite=overwrite)


def show_plans(sweeps: list[Sweep], console: Console, *, overwrite: bool = False) -> None:
    """Print a line for each sweep of a matrix; see `show_plan`."""
    lines = [f"# {len(sweeps)} sweeps, one after another:"]
    for sweep in sweeps:
        _check(sweep)
        spec = sweep.spec
        lines.append(
            f"{spec.name}: {sweep.num_trials} trials of {spec.trainable} by "
            f"{spec.search.algorithm} search, {_at_once(sweep)}, "
            f"each with {shown(sweep.resources.needed)}"
        )
    folder = sweeps[0].folder.parent
    lines.append(f"# folder: {folder}")
    lines.append("# `tunescape show` prints each sweep's complete spec")
    say(console, "\n".join(lines))
    check_replaceable(folder, overwrite=overwrite)


def _at_once(sweep: Sweep) -> str:
    """Say how many trials run at a time. A cluster is not joined to show a plan."""
    if sweep.spec.resources.address is None:
        return f"{sweep.at_once} at a time"
    most = sweep.spec.max_concurrent
    return "as many at a time as the cluster holds" + (f", at most {most}" if most else "")


def _check(sweep: Sweep) -> None:
    """See that this machine could run a trial, and that the places to write are the sweep's own."""
    if sweep.spec.resources.address is None:
        check_resources(sweep, [local_node(sweep.spec.resources)])
    check_places(sweep)


def _rounded(value: Any) -> Any:
    """Return the numbers of an example as people read them."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _examples(sweep: Sweep) -> list[dict[str, Any]]:
    from experiments.search.build import searched_points

    spec, space = sweep.spec, sweep.space
    if not space:
        return []
    generator = np.random.default_rng(spec.seed)
    grid = list(space.grid_points(whole=search_kind(spec.search).whole_grid))
    first = searched_points(spec, space)
    examples = []
    for index in range(min(_EXAMPLES, max(len(grid), spec.num_samples))):
        draw, place = divmod(index, len(grid))
        point = first[draw] if draw < len(first) else {}
        examples.append(space.config(space.sample(generator, {**point, **grid[place]})))
    return examples
