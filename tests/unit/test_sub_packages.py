"""Packages import one way, no modules import each other in a circle, and the core stays small.

Imports inside functions count. Those for annotations count in circles only. The front of a
feature is a part of its own. What crosses packages is in
test_import_direction.py.
"""

from __future__ import annotations

import functools
import graphlib
import inspect
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from import_graph import imports, module_of, source_files

ROOT = Path(__file__).resolve().parents[2]

# In order: each part may import those in rows above, of its own package.
ROWS = """
trainables
    core.errors core.features core.generated_part core.logs core.overlap core.own_folders \\
        core.paths core.reported_metrics core.suggestions runtime.process_environment \\
        runtime.random_streams
    core.all_metrics core.callables core.data core.lazy_names promise_table
    core.checkpoint core.config
    core.compiled core.config.agents.feature core.config.recorded.feature core.distributions \\
        core.trust runtime.devices settings
    core.networks registry runtime.envs
    core.config.reference core.networks.chosen.feature core.policy metric_table
    core.config.reference.feature core.export core.learning core.policy.calls.feature \\
        core.policy.connectors.feature runtime.callbacks runtime.trial_log
    core.curiosity core.estimation runtime.callbacks.feature runtime.replay runtime.sampling
    core.curiosity.feature runtime.members runtime.metrics runtime.named_code \\
        runtime.offline runtime.sampling.remote_env_runner
    runtime.actors runtime.members.feature runtime.offline.feature runtime.sampling.agents
    runtime.evaluation runtime.league runtime.learners runtime.sampling.remote_group
    lifecycle on_policy runtime.actors.feature runtime.evaluation.feature \\
        runtime.league.feature
    algorithm lifecycle.agents.feature lifecycle.restoring.feature
    a2c impala off_policy ppo reference_table
    appo dqn dreamerv3 iql marwil sac
    bc cql qmix
search_spaces
    yaml_limits yaml_values
    documents
    domains
    parameter
    conditions define_by_run
    native
    space
    loader points
analysis
    credentials errors numbers palette
    home names reachable
    results
    frames statistics
    curves importance ranking
    comparison export overview
    figures plots
    report
experiments
    disk_space errors fitted_columns internals provenance result_rows terminal
    activity output_files spec stop_signals workers
    cluster environment_file trial_info
    schedulers search seeds tracking
    monitor sweep
    durability watch
    running
    commands
    cli
"""
# What an algorithm's module may load of ours, its own included. A change that needs more says why.
MOST_FILES, MOST_LINES = {"ppo": 116, "dqn": 129, "sac": 131}, 24_000
LONGEST_CHAIN = 17  # of modules that import each other
MOST_BASES = {"PPO": 4, "PPOConfig": 5}
# Folders of features. Nothing that those algorithms load lies there.
FEATURES = (
    "trainables/core/config/reference/",
    "trainables/core/curiosity/",
    "trainables/core/estimation/",
    "trainables/core/export/",
    "trainables/core/learning/members/",
    "trainables/core/networks/world_model/",
    "trainables/core/policy/calls/",
    "trainables/core/policy/connectors/",
    "trainables/dreamerv3/",
    "trainables/lifecycle/agents/",
    "trainables/lifecycle/restoring/",
    "trainables/runtime/actors/",
    "trainables/runtime/envs/games/",
    "trainables/runtime/envs/multi_agent/",
    "trainables/runtime/envs/remote/",
    "trainables/runtime/evaluation/",
    "trainables/runtime/league/",
    "trainables/runtime/members/",
    "trainables/runtime/offline/",
    "trainables/runtime/sampling/agents/",
)
LOADED = """
import json, pathlib, sys
import trainables.{name}
root = pathlib.Path({root!r})
files = [getattr(m, "__file__", None) for m in list(sys.modules.values())]
ours = [pathlib.Path(f) for f in files if f and f.startswith(str(root))]
own = {{path.relative_to(root).as_posix() for path in ours}}
print(json.dumps(sorted(own)))
"""


def rows() -> dict[str, int]:
    """The row of each part, by its whole name."""
    found, package = {}, ""
    for number, line in enumerate(ROWS.replace("\\\n", "").splitlines()):
        if line and not line.startswith(" "):
            package = line
        for part in line.split() if line.startswith(" ") else ():
            found[f"{package}.{part}"] = number
    return found


ROW = rows()


def part_of(module: str) -> str | None:
    """The part that a module belongs to: the longest that its name begins with."""
    name = module
    while name and name not in ROW:
        name = name.rpartition(".")[0]
    return name or None


@functools.cache
def edges(root: Path) -> list[tuple[str, str, bool, str]]:
    """Importing module, imported module, whether for annotations, and `file:line`."""
    files = {module_of(path.relative_to(root)): path for path in source_files(root)}
    found = []
    for module, path in files.items():
        if "benchmarks" in path.parts:
            continue
        for line, name, typing in imports(path, module):
            target = name
            while target and target not in files:
                target = target.rpartition(".")[0]
            lists_names = typing and path.name == "__init__.py"  # which are imported when used
            if target and target != module and not lists_names:
                found.append((module, target, typing, f"{path.relative_to(root)}:{line}"))
    return found


def violations(root: Path) -> list[str]:
    """Every import of what does not stand above."""
    found = []
    for module, target, typing, place in edges(root):
        importer, imported = part_of(module), part_of(target)
        if typing or not importer or not imported or importer == imported:
            continue
        same = importer.split(".")[0] == imported.split(".")[0]
        if same and ROW[imported] >= ROW[importer]:
            found.append(f"{place} imports {target}: {imported} does not stand above {importer}")
    return found


def circle(root: Path) -> list[str]:
    """Modules that import each other in a circle; empty if there are none."""
    graph = defaultdict(set)
    for module, target, _, _ in edges(root):
        # `from package import module` runs the package's __init__, which is lazy.
        if not module.startswith(f"{target}."):
            graph[module].add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_parts_import_what_stands_above() -> None:
    assert violations(ROOT) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(ROOT) == []


def test_every_part_has_a_row_and_every_row_its_parts() -> None:
    modules = {module_of(path.relative_to(ROOT)) for path in source_files(ROOT)}
    assert ROW.keys() - modules == set()
    outside = ("trainables.core", "trainables.runtime", "experiments.benchmarks", "tunescape")
    unknown = {m for m in modules if "." in m and not part_of(m)}
    assert {m for m in unknown if m not in outside and not m.startswith(outside[2:])} == set()


@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_an_algorithm_loads_a_small_core_and_no_feature(name: str) -> None:
    code = LOADED.format(name=name, root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = json.loads(done.stdout)
    lines = sum(len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files)
    assert [file for file in files if file.startswith(FEATURES)] == []
    assert len(files) <= MOST_FILES[name] and lines <= MOST_LINES, (len(files), lines)


def test_chains_of_imports_and_of_base_classes_are_short() -> None:
    graph = defaultdict(set)
    for module, target, typing, _ in edges(ROOT):
        if not typing and not module.startswith(f"{target}."):
            graph[module].add(target)

    @functools.cache
    def depth(module: str) -> int:
        return 1 + max(map(depth, graph[module]), default=0)

    assert max(depth(f"trainables.{name}") for name in MOST_FILES) <= LONGEST_CHAIN
    from trainables.ppo import PPO, PPOConfig

    bases = {kind.__name__: len(inspect.getmro(kind)) - 1 for kind in (PPO, PPOConfig)}
    assert all(bases[name] <= most for name, most in MOST_BASES.items()), bases


LATE = "trainables.runtime.sampling"


@pytest.mark.parametrize(
    "line",
    [f"from {LATE}.env_runner import EnvRunner", f"def f():\n    from {LATE} import env_runner"],
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
