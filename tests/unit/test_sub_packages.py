"""Sub-packages import one way, and no module imports another in a circle.

Imports inside functions count, and so do those for annotations, but for `ANNOTATIONS`. A module at
the ground of a package is a part of its own. What crosses packages is in test_import_direction.py.
"""

from __future__ import annotations

import graphlib
from collections import defaultdict
from pathlib import Path

import pytest
from import_graph import imports, module_of, source_files, within

ROOT = Path(__file__).resolve().parents[2]

# What each part may import of its own package, beside itself; from the ground upwards. Files of
# algorithms are no parts: all may import the same, see test_import_direction.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "trainables.core.errors": (),
    "trainables.core.generated_part": (),
    "trainables.core.lazy_names": (),
    "trainables.core.logs": (),
    "trainables.core.overlap": (),
    "trainables.core.reported_metrics": (),
    "trainables.core.suggestions": (),
    "trainables.runtime.random_streams": (),
    "trainables.core.callables": ("trainables.core.errors",),
    "trainables.core.data": ("trainables.core.errors",),
    "trainables.promise_table": ("trainables.core.generated_part",),
    "trainables.core.checkpoint": (
        "trainables.core.errors",
        "trainables.core.callables",
        "trainables.core.data",
    ),
    "trainables.core.config": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.core.suggestions",
        "trainables.core.callables",
        "trainables.core.data",
    ),
    "trainables.core.distributions": (
        "trainables.core.errors",
        "trainables.core.data",
    ),
    "trainables.core.networks": (
        "trainables.core.errors",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.distributions",
    ),
    "trainables.core.trust": (
        "trainables.core.callables",
        "trainables.core.checkpoint",
        "trainables.core.config",
    ),
    "trainables.registry": (
        "trainables.core.errors",
        "trainables.core.lazy_names",
        "trainables.core.suggestions",
        "trainables.core.config",
    ),
    "trainables.runtime.actors": (
        "trainables.core.errors",
        "trainables.core.config",
    ),
    "trainables.runtime.devices": (
        "trainables.core.errors",
        "trainables.core.config",
    ),
    "trainables.core.policy": (
        "trainables.core.errors",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.checkpoint",
        "trainables.core.config",
        "trainables.core.distributions",
        "trainables.core.networks",
        "trainables.core.trust",
    ),
    "trainables.metric_table": (
        "trainables.core.generated_part",
        "trainables.core.reported_metrics",
        "trainables.registry",
    ),
    "trainables.runtime.envs": (
        "trainables.core.errors",
        "trainables.core.suggestions",
        "trainables.runtime.random_streams",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.checkpoint",
        "trainables.core.config",
        "trainables.core.trust",
    ),
    "trainables.core.export": (
        "trainables.core.errors",
        "trainables.core.data",
        "trainables.core.checkpoint",
        "trainables.core.distributions",
        "trainables.core.networks",
        "trainables.core.policy",
    ),
    "trainables.core.learning": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.distributions",
        "trainables.core.networks",
        "trainables.core.policy",
    ),
    "trainables.core.curiosity": (
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.distributions",
        "trainables.core.networks",
        "trainables.core.policy",
        "trainables.core.learning",
    ),
    "trainables.core.estimation": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.core.overlap",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.distributions",
        "trainables.core.networks",
        "trainables.core.policy",
        "trainables.core.learning",
    ),
    "trainables.runtime.replay": (
        "trainables.core.errors",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.learning",
    ),
    "trainables.runtime.offline": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.core.suggestions",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.networks",
        "trainables.core.policy",
        "trainables.core.learning",
        "trainables.core.estimation",
        "trainables.runtime.replay",
    ),
    "trainables.runtime.league": (
        "trainables.core.errors",
        "trainables.core.config",
        "trainables.core.policy",
        "trainables.runtime.envs",
    ),
    "trainables.runtime.callbacks": (
        "trainables.core.errors",
        "trainables.core.suggestions",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.networks",
        "trainables.core.policy",
        "trainables.runtime.envs",
    ),
    "trainables.runtime.trial_log": (
        "trainables.core.logs",
        "trainables.core.config",
        "trainables.runtime.actors",
        "trainables.core.policy",
        "trainables.runtime.envs",
    ),
    "trainables.runtime.learners": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.runtime.actors",
        "trainables.runtime.devices",
        "trainables.core.policy",
        "trainables.core.learning",
    ),
    "trainables.runtime.sampling": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.runtime.random_streams",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.networks",
        "trainables.runtime.actors",
        "trainables.runtime.devices",
        "trainables.core.policy",
        "trainables.core.learning",
        "trainables.runtime.envs",
        "trainables.runtime.offline",
        "trainables.runtime.callbacks",
        "trainables.runtime.league",
    ),
    "trainables.runtime.members": (
        "trainables.core.logs",
        "trainables.core.learning",
        "trainables.runtime.sampling",
    ),
    "trainables.runtime.evaluation": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.runtime.random_streams",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.checkpoint",
        "trainables.core.config",
        "trainables.core.trust",
        "trainables.runtime.actors",
        "trainables.core.policy",
        "trainables.runtime.envs",
        "trainables.runtime.offline",
        "trainables.runtime.callbacks",
        "trainables.runtime.sampling",
    ),
    "trainables.runtime.metrics": (
        "trainables.runtime.callbacks",
        "trainables.runtime.league",
        "trainables.runtime.sampling",
    ),
    "trainables.runtime.named_code": (
        "trainables.core.errors",
        "trainables.core.callables",
        "trainables.core.config",
        "trainables.core.learning",
        "trainables.runtime.callbacks",
        "trainables.runtime.sampling",
    ),
    "trainables.lifecycle": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.core.suggestions",
        "trainables.core.reported_metrics",
        "trainables.runtime.random_streams",
        "trainables.core.callables",
        "trainables.core.data",
        "trainables.core.checkpoint",
        "trainables.core.config",
        "trainables.core.networks",
        "trainables.core.trust",
        "trainables.registry",
        "trainables.runtime.actors",
        "trainables.runtime.devices",
        "trainables.core.policy",
        "trainables.runtime.envs",
        "trainables.core.export",
        "trainables.core.learning",
        "trainables.core.curiosity",
        "trainables.runtime.offline",
        "trainables.runtime.callbacks",
        "trainables.runtime.league",
        "trainables.runtime.trial_log",
        "trainables.runtime.learners",
        "trainables.runtime.sampling",
        "trainables.runtime.evaluation",
        "trainables.runtime.metrics",
    ),
    "trainables.algorithm": (
        "trainables.core.logs",
        "trainables.core.reported_metrics",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.registry",
        "trainables.runtime.actors",
        "trainables.runtime.envs",
        "trainables.core.learning",
        "trainables.runtime.sampling",
        "trainables.lifecycle",
    ),
    "trainables.off_policy": (
        "trainables.core.errors",
        "trainables.core.logs",
        "trainables.core.reported_metrics",
        "trainables.core.data",
        "trainables.core.config",
        "trainables.core.networks",
        "trainables.runtime.replay",
        "trainables.runtime.offline",
        "trainables.core.policy",
        "trainables.core.learning",
        "trainables.runtime.learners",
        "trainables.runtime.metrics",
        "trainables.algorithm",
    ),
    "trainables.reference_table": (
        "trainables.core.generated_part",
        "trainables.core.config",
        "trainables.registry",
        "trainables.algorithm",
    ),
    "search_spaces.yaml_limits": (),
    "search_spaces.yaml_values": (),
    "search_spaces.documents": (
        "search_spaces.yaml_limits",
        "search_spaces.yaml_values",
    ),
    "search_spaces.domains": ("search_spaces.documents",),
    "search_spaces.parameter": ("search_spaces.domains",),
    "search_spaces.conditions": (
        "search_spaces.documents",
        "search_spaces.parameter",
    ),
    "search_spaces.define_by_run": (
        "search_spaces.documents",
        "search_spaces.domains",
        "search_spaces.parameter",
    ),
    "search_spaces.native": (
        "search_spaces.documents",
        "search_spaces.domains",
        "search_spaces.parameter",
        "search_spaces.conditions",
    ),
    "search_spaces.space": (
        "search_spaces.documents",
        "search_spaces.domains",
        "search_spaces.parameter",
        "search_spaces.conditions",
        "search_spaces.define_by_run",
        "search_spaces.native",
    ),
    "search_spaces.loader": (
        "search_spaces.documents",
        "search_spaces.space",
    ),
    "search_spaces.points": (
        "search_spaces.documents",
        "search_spaces.domains",
        "search_spaces.parameter",
        "search_spaces.conditions",
        "search_spaces.space",
    ),
    "experiments.activity": ("experiments.terminal",),
    "experiments.disk_space": (),
    "experiments.errors": (),
    "experiments.fitted_columns": (),
    "experiments.internals": (),
    "experiments.provenance": (),
    "experiments.result_rows": (),
    "experiments.stop_signals": ("experiments.internals",),
    "experiments.terminal": (),
    "experiments.environment_file": (
        "experiments.provenance",
        "experiments.output_files",
    ),
    "experiments.output_files": ("experiments.errors",),
    "experiments.spec": (
        "experiments.errors",
        "experiments.internals",
    ),
    "experiments.cluster": (
        "experiments.activity",
        "experiments.errors",
        "experiments.internals",
        "experiments.stop_signals",
        "experiments.spec",
        "experiments.workers",
    ),
    "experiments.trial_info": ("experiments.spec",),
    "experiments.workers": ("experiments.internals",),
    "experiments.schedulers": (
        "experiments.internals",
        "experiments.result_rows",
        "experiments.spec",
        "experiments.trial_info",
    ),
    "experiments.tracking": (
        "experiments.errors",
        "experiments.provenance",
        "experiments.environment_file",
        "experiments.spec",
        "experiments.trial_info",
    ),
    "experiments.monitor": (
        "experiments.activity",
        "experiments.errors",
        "experiments.fitted_columns",
        "experiments.internals",
        "experiments.result_rows",
        "experiments.spec",
        "experiments.trial_info",
        "experiments.tracking",
    ),
    "experiments.search": (
        "experiments.errors",
        "experiments.internals",
        "experiments.spec",
        "experiments.trial_info",
        "experiments.tracking",
    ),
    "experiments.seeds": (
        "experiments.internals",
        "experiments.spec",
        "experiments.trial_info",
    ),
    "experiments.sweep": (
        "experiments.activity",
        "experiments.errors",
        "experiments.internals",
        "experiments.output_files",
        "experiments.spec",
        "experiments.cluster",
        "experiments.schedulers",
        "experiments.tracking",
        "experiments.search",
        "experiments.seeds",
    ),
    "experiments.durability": (
        "experiments.disk_space",
        "experiments.errors",
        "experiments.internals",
        "experiments.stop_signals",
        "experiments.cluster",
        "experiments.trial_info",
        "experiments.schedulers",
        "experiments.monitor",
        "experiments.sweep",
    ),
    "experiments.running": (
        "experiments.activity",
        "experiments.disk_space",
        "experiments.errors",
        "experiments.internals",
        "experiments.stop_signals",
        "experiments.terminal",
        "experiments.environment_file",
        "experiments.output_files",
        "experiments.spec",
        "experiments.cluster",
        "experiments.trial_info",
        "experiments.schedulers",
        "experiments.tracking",
        "experiments.monitor",
        "experiments.search",
        "experiments.seeds",
        "experiments.sweep",
        "experiments.durability",
    ),
    "experiments.commands": (
        "experiments.activity",
        "experiments.errors",
        "experiments.fitted_columns",
        "experiments.stop_signals",
        "experiments.terminal",
        "experiments.output_files",
        "experiments.spec",
        "experiments.cluster",
        "experiments.tracking",
        "experiments.search",
        "experiments.sweep",
        "experiments.running",
        "experiments.workers",
    ),
    "experiments.cli": (
        "experiments.errors",
        "experiments.stop_signals",
        "experiments.terminal",
        "experiments.commands",
    ),
    "analysis.credentials": (),
    "analysis.errors": (),
    "analysis.numbers": (),
    "analysis.palette": (),
    "analysis.home": ("analysis.errors",),
    "analysis.names": ("analysis.errors",),
    "analysis.reachable": ("analysis.credentials",),
    "analysis.results": (
        "analysis.credentials",
        "analysis.errors",
        "analysis.home",
        "analysis.names",
        "analysis.reachable",
    ),
    "analysis.frames": (
        "analysis.home",
        "analysis.names",
        "analysis.results",
    ),
    "analysis.statistics": (
        "analysis.names",
        "analysis.results",
    ),
    "analysis.curves": (
        "analysis.names",
        "analysis.results",
        "analysis.statistics",
    ),
    "analysis.importance": (
        "analysis.names",
        "analysis.results",
        "analysis.frames",
        "analysis.statistics",
    ),
    "analysis.ranking": (
        "analysis.names",
        "analysis.results",
        "analysis.frames",
        "analysis.statistics",
    ),
    "analysis.comparison": (
        "analysis.names",
        "analysis.results",
        "analysis.frames",
        "analysis.statistics",
        "analysis.curves",
        "analysis.ranking",
    ),
    "analysis.export": (
        "analysis.home",
        "analysis.names",
        "analysis.results",
        "analysis.ranking",
    ),
    "analysis.overview": (
        "analysis.names",
        "analysis.results",
        "analysis.frames",
        "analysis.statistics",
        "analysis.curves",
        "analysis.importance",
        "analysis.ranking",
    ),
    "analysis.figures": (
        "analysis.palette",
        "analysis.names",
        "analysis.results",
        "analysis.statistics",
        "analysis.curves",
        "analysis.importance",
        "analysis.comparison",
        "analysis.overview",
    ),
    "analysis.plots": (
        "analysis.palette",
        "analysis.home",
        "analysis.names",
        "analysis.results",
        "analysis.statistics",
        "analysis.curves",
        "analysis.importance",
        "analysis.ranking",
        "analysis.comparison",
        "analysis.overview",
    ),
    "analysis.report": (
        "analysis.numbers",
        "analysis.home",
        "analysis.names",
        "analysis.results",
        "analysis.statistics",
        "analysis.importance",
        "analysis.ranking",
        "analysis.comparison",
        "analysis.overview",
        "analysis.figures",
        "analysis.plots",
    ),
}
# Imports for annotations that run against the table, each with its reason.
ANNOTATIONS = {
    ("trainables.core.config.several_agents", "trainables.core.config.config"): (
        "what several settings of a config mean together"
    ),
    ("trainables.core.config.module_overrides", "trainables.core.config.config"): (
        "a module's settings are those of a config class"
    ),
    ("trainables.runtime.callbacks", "trainables.runtime.sampling"): "hooks are given env runners",
    ("trainables.runtime.callbacks", "trainables.runtime.evaluation"): "hooks are given runners",
    ("trainables.runtime.callbacks.callbacks", "trainables.runtime.callbacks.episodes"): (
        "hooks are given episodes"
    ),
    ("trainables.runtime.sampling.fragment_request", "trainables.runtime.sampling.env_runner"): (
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
    ("experiments.search.warm_start", "experiments.sweep.sweep"): (
        "a sweep's history is read with its space and its tracking URI"
    ),
}


def part_of(module: str) -> str:
    """The sub-package of a module, or the module where it lies at the ground; "" for others."""
    return max((part for part in MAY_IMPORT if within(module, part)), key=len, default="")


def is_reasoned(importer: str, imported: str) -> bool:
    return any(within(importer, one) and within(imported, other) for one, other in ANNOTATIONS)


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


@pytest.mark.parametrize(
    "line",
    [
        "from trainables.runtime.sampling.env_runner import EnvRunner",
        "def f():\n    from trainables.runtime.sampling import env_runner",
        "if TYPE_CHECKING:\n    from trainables.runtime.sampling.env_runner import EnvRunner",
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, line: str) -> None:
    for name in ("sampling/env_runner.py", "envs/make.py"):
        path = tmp_path / "trainables" / "runtime" / name
        path.parent.mkdir(parents=True)
        path.write_text(line if name.startswith("envs") else "EnvRunner = object\n")
    [found] = violations(tmp_path)
    assert found.startswith("trainables/runtime/envs/make.py:")
    assert circle(tmp_path) == []
    (tmp_path / "trainables/runtime/sampling/env_runner.py").write_text(
        "from trainables.runtime.envs import make\n"
    )
    assert len(circle(tmp_path)) == 3
