"""Sub-packages import one way, and no module imports another in a circle.

Imports inside functions count, and so do those for annotations, but for `ANNOTATIONS`. A module at
the ground of a package is a part of its own. What crosses packages is in test_import_direction.py.
"""

from __future__ import annotations

import functools
import graphlib
import re
from collections import defaultdict
from pathlib import Path

import pytest
from import_graph import imports, module_of, source_files, within

ROOT = Path(__file__).resolve().parents[2]

# What each part may import of its own package, beside itself; from the ground upwards. Files of
# algorithms are no parts: all may import the same, see test_import_direction.
TABLE = """
trainables
    core.errors:
    core.generated_part:
    core.lazy_names:
    core.logs:
    core.overlap:
    core.reported_metrics:
    core.suggestions:
    runtime.random_streams:
    core.callables: core.errors core.suggestions
    core.data: core.errors
    promise_table: core.generated_part
    core.checkpoint: core.errors core.callables core.data
    core.config: core.errors core.logs core.suggestions core.callables core.data
    core.distributions: core.errors core.data
    core.networks: core.errors core.callables core.data core.config core.distributions
    core.trust: core.callables core.checkpoint core.config
    registry: core.errors core.lazy_names core.suggestions core.config
    runtime.actors: core.errors core.config
    runtime.devices: core.errors core.config
    core.policy: core.errors core.callables core.data core.checkpoint core.config
        core.distributions core.networks core.trust
    metric_table: core.generated_part core.reported_metrics registry
    runtime.envs: core.errors core.suggestions runtime.random_streams core.callables core.data
        core.checkpoint core.config core.trust
    core.export: core.errors core.data core.checkpoint core.distributions core.networks
        core.policy
    core.learning: core.errors core.logs core.callables core.data core.config core.distributions
        core.networks core.policy
    core.curiosity: core.data core.config core.distributions core.networks core.policy
        core.learning
    core.estimation: core.errors core.logs core.overlap core.callables core.data core.config
        core.distributions core.networks core.policy core.learning
    runtime.replay: core.errors core.data core.config core.learning
    runtime.offline: core.errors core.logs core.suggestions core.callables core.data core.config
        core.networks core.policy core.learning core.estimation runtime.replay
    runtime.league: core.errors core.config core.policy runtime.envs
    runtime.callbacks: core.errors core.suggestions core.callables core.data core.config
        core.networks core.policy runtime.envs
    runtime.trial_log: core.logs core.config runtime.actors core.policy runtime.envs
    runtime.learners: core.errors core.logs core.data core.config runtime.actors runtime.devices
        core.policy core.learning
    runtime.sampling: core.errors core.logs runtime.random_streams core.callables core.data
        core.config core.networks runtime.actors runtime.devices core.policy core.learning
        runtime.envs runtime.offline runtime.callbacks runtime.league
    runtime.members: core.logs core.learning runtime.sampling
    runtime.evaluation: core.errors core.logs runtime.random_streams core.callables core.data
        core.checkpoint core.config core.trust runtime.actors core.policy runtime.envs
        runtime.offline runtime.callbacks runtime.sampling
    runtime.metrics: runtime.callbacks runtime.league runtime.sampling
    runtime.named_code: core.errors core.callables core.config core.learning runtime.callbacks
        runtime.sampling
    lifecycle: core.errors core.logs core.suggestions core.reported_metrics runtime.random_streams
        core.callables core.data core.checkpoint core.config core.networks core.trust registry
        runtime.actors runtime.devices core.policy runtime.envs core.export core.learning
        core.curiosity runtime.offline runtime.callbacks runtime.league runtime.trial_log
        runtime.learners runtime.sampling runtime.evaluation runtime.metrics
    algorithm: core.logs core.reported_metrics core.data core.config registry runtime.actors
        runtime.envs core.learning runtime.sampling lifecycle
    off_policy: core.errors core.logs core.reported_metrics core.data core.config core.networks
        runtime.replay runtime.offline core.policy core.learning runtime.learners runtime.metrics
        algorithm
    reference_table: core.generated_part core.config registry algorithm
search_spaces
    yaml_limits:
    yaml_values:
    documents: yaml_limits yaml_values
    domains: documents
    parameter: domains
    conditions: documents parameter
    define_by_run: documents domains parameter
    native: documents domains parameter conditions
    space: documents domains parameter conditions define_by_run native
    loader: documents space
    points: documents domains parameter conditions space
experiments
    activity: terminal
    disk_space:
    errors:
    fitted_columns:
    internals:
    provenance:
    result_rows:
    stop_signals: internals
    terminal:
    environment_file: provenance output_files
    output_files: errors
    spec: errors internals
    cluster: activity errors internals stop_signals spec workers
    trial_info: spec
    workers: internals
    schedulers: internals result_rows spec trial_info
    tracking: errors provenance environment_file spec trial_info
    monitor: activity errors fitted_columns internals result_rows spec trial_info tracking
    search: errors internals spec trial_info tracking
    seeds: internals spec trial_info
    sweep: activity errors internals output_files spec cluster schedulers tracking search seeds
    durability: disk_space errors internals stop_signals cluster trial_info schedulers monitor
        sweep
    running: activity disk_space errors internals stop_signals terminal environment_file
        output_files spec cluster trial_info schedulers tracking monitor search seeds sweep
        durability
    watch: errors internals spec trial_info search sweep
    commands: activity errors fitted_columns stop_signals terminal output_files spec cluster
        tracking search sweep running watch workers
    cli: errors stop_signals terminal commands
analysis
    credentials:
    errors:
    numbers:
    palette:
    home: errors
    names: errors
    reachable: credentials
    results: credentials errors home names reachable
    frames: home names results
    statistics: names results
    curves: names results statistics
    importance: names results frames statistics
    ranking: names results frames statistics
    comparison: names results frames statistics curves ranking
    export: home names results ranking
    overview: names results frames statistics curves importance ranking
    figures: palette names results statistics curves importance comparison overview
    plots: palette home names results statistics curves importance ranking comparison overview
    report: numbers home names results statistics importance ranking comparison overview figures
        plots
"""


def may_import(table: str) -> dict[str, tuple[str, ...]]:
    rows: dict[str, tuple[str, ...]] = {}
    for package, below in re.findall(r"^(\w+)\n((?: .*\n)+)", table, re.MULTILINE):
        for part, others in re.findall(r"^    ([\w.]+):((?:.|\n {8})*)", below, re.MULTILINE):
            rows[f"{package}.{part}"] = tuple(f"{package}.{other}" for other in others.split())
    return rows


MAY_IMPORT = may_import(TABLE)
# Imports for annotations that run against the table, each with its reason.
ANNOTATIONS = {
    ("trainables.core.config.agents.several_agents", "trainables.core.config.config"): (
        "what several settings of a config mean together"
    ),
    ("trainables.core.config.agents.module_overrides", "trainables.core.config.config"): (
        "a module's settings are those of a config class"
    ),
    ("trainables.runtime.callbacks", "trainables.runtime.sampling"): "hooks are given env runners",
    ("trainables.runtime.callbacks", "trainables.runtime.evaluation"): "hooks are given runners",
    ("trainables.runtime.callbacks.callbacks", "trainables.runtime.callbacks.episodes"): (
        "hooks are given episodes"
    ),
    ("trainables.runtime.members.fragment_request", "trainables.runtime.sampling.env_runner"): (
        "an env runner makes the request of its fragment"
    ),
    ("trainables.core.policy.model_view", "trainables.core.policy.policy"): (
        "a view shows the policy that makes it"
    ),
    ("trainables.core.learning.members", "trainables.core.learning.learner"): (
        "requests are learners', which ask whether to learn in company"
    ),
    ("experiments.durability.scheduler", "experiments.durability.keeper"): (
        "a wrapped scheduler tells its keeper what it decided"
    ),
    ("experiments.running.warm_start", "experiments.sweep.sweep"): (
        "a sweep's history is read with its space and its tracking URI"
    ),
}


def part_of(module: str) -> str:
    """The sub-package of a module, or the module where it lies at the ground; "" for others."""
    return max((part for part in MAY_IMPORT if within(module, part)), key=len, default="")


def is_reasoned(importer: str, imported: str) -> bool:
    return any(within(importer, one) and within(imported, other) for one, other in ANNOTATIONS)


@functools.cache
def edges(root: Path) -> list[tuple[str, str, str]]:
    """Importing module, imported module and `file:line`, of all imports within the product."""
    files = {module_of(path.relative_to(root)): path for path in source_files(root)}
    found = []
    for module, path in files.items():
        if "benchmarks" in path.parts:
            continue
        for line, name, typing in imports(path, module):
            target = name
            while target and target not in files:
                target = target.rpartition(".")[0]
            if target and target != module and not (typing and is_reasoned(module, target)):
                found.append((module, target, f"{path.relative_to(root)}:{line}"))
    return found


def violations(root: Path) -> list[str]:
    """Every import within a package that its table does not allow."""
    found = []
    for module, target, place in edges(root):
        importer, imported = part_of(module), part_of(target)
        if importer and imported and importer != imported:
            same = importer.split(".")[0] == imported.split(".")[0]
            if same and imported not in MAY_IMPORT[importer]:
                found.append(f"{place} imports {target}: {importer} may not import {imported}")
    return found


def circle(root: Path) -> list[str]:
    """Modules that import each other in a circle; empty if there are none."""
    graph = defaultdict(set)
    for module, target, _ in edges(root):
        # `from package import module` runs the package's __init__, which is lazy.
        if not module.startswith(f"{target}."):
            graph[module].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_sub_packages_import_one_way() -> None:
    assert violations(ROOT) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(ROOT) == []


def test_the_table_has_no_circle_and_nothing_that_is_not_needed() -> None:
    graphlib.TopologicalSorter(MAY_IMPORT).prepare()
    used = {(part_of(module), part_of(target)) for module, target, _ in edges(ROOT)}
    allowed = {(part, other) for part, others in MAY_IMPORT.items() for other in others}
    assert allowed - used == set()


def test_every_sub_package_has_its_row() -> None:
    folders = {
        module_of(path.parent.relative_to(ROOT) / "__init__.py")
        for path in source_files(ROOT)
        if path.parent.parent != ROOT and "benchmarks" not in path.parts
    }
    missing = {folder for folder in folders if not part_of(folder)}
    # An algorithm is no part, be it a file or a folder.
    assert missing <= {"trainables.core", "trainables.runtime", "trainables.dreamerv3"}


LATE = "trainables.runtime.sampling"


@pytest.mark.parametrize(
    "line",
    [
        f"from {LATE}.env_runner import EnvRunner",
        f"def f():\n    from {LATE} import env_runner",
        f"if TYPE_CHECKING:\n    from {LATE}.env_runner import EnvRunner",
    ],
)
def test_a_planted_violation_and_a_planted_circle_are_found(tmp_path: Path, line: str) -> None:
    for root, back in ((tmp_path / "a", ""), (tmp_path / "b", "from ..envs import make\n")):
        for name, text in (("sampling/env_runner.py", back), ("envs/make.py", line)):
            path = root / "trainables" / "runtime" / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
    [found] = violations(tmp_path / "a")
    assert found.startswith("trainables/runtime/envs/make.py:")
    assert circle(tmp_path / "a") == [] and len(circle(tmp_path / "b")) == 3
