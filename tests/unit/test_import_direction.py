"""Imports run one way: core <- runtime <- algorithm.py <- <algorithm>.py <- experiments.

Read from the source: imports inside functions count, those under TYPE_CHECKING do not.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trainables", "search_spaces", "experiments", "analysis", "tunescape")

# What a part may import of ours, by prefix. An algorithm's own file is added to its list.
BELOW_ALGORITHM = ("trainables.core", "trainables.runtime", "trainables.registry")
# What algorithm.py is put together from.
PARTS_OF_ALGORITHM = (
    "trainables.lifecycle.building",
    "trainables.lifecycle.built_trainable",
    "trainables.lifecycle.checkpointing",
    "trainables.lifecycle.configuring",
    "trainables.lifecycle.encoder_sharing",
    "trainables.lifecycle.evaluating",
    "trainables.lifecycle.exporting",
    "trainables.lifecycle.folder_trainable",
    "trainables.lifecycle.agents_actions",
    "trainables.lifecycle.chosen_policies",
    "trainables.lifecycle.league_play",
    "trainables.lifecycle.other_modules",
    "trainables.lifecycle.stored_states",
    "trainables.lifecycle.initial_weights",
    "trainables.lifecycle.own_classes",
    "trainables.lifecycle.policy_access",
    "trainables.lifecycle.policy_changes",
    "trainables.lifecycle.spaces",
)
# The names that other packages build on; everything else in trainables is its own business.
PUBLIC = (
    "trainables.core.callables",
    "trainables.core.errors",
    "trainables.registry",
    "trainables.core.checkpoint",
    "trainables.core.lazy_names",
    "trainables.core.policy.policy",
    "trainables.core.config.settings",
    "trainables.core.overlap",
    "trainables.core.suggestions",
    "trainables.runtime.evaluation.play",
    "trainables.runtime.evaluation.needed_trust",
    "trainables.lifecycle.exporting",
)
MAY_IMPORT = {
    "trainables.core": ("trainables.core",),
    "trainables.runtime": ("trainables.core", "trainables.runtime"),
    "trainables.registry": ("trainables.core",),
    "<part of algorithm.py>": (*BELOW_ALGORITHM, *PARTS_OF_ALGORITHM),
    "trainables.algorithm": (*BELOW_ALGORITHM, *PARTS_OF_ALGORITHM),
    "trainables.off_policy": (*BELOW_ALGORITHM, "trainables.algorithm"),
    "<algorithm>": (*BELOW_ALGORITHM, "trainables.algorithm", "trainables.off_policy"),
    "trainables": PACKAGES[:1],  # the lazy package itself
    "search_spaces": ("search_spaces", *PUBLIC),
    "analysis": ("analysis", *PUBLIC),
    "experiments": (*PACKAGES[:4], "tunescape.shared_names"),
    "tunescape": PACKAGES,
}
# The algorithms that extend another one.
EXTENDS = {
    "appo": ("impala", "ppo"),
    "cql": ("sac",),
    "qmix": ("dqn",),
    "bc": ("marwil",),
    "marwil": ("bc",),
}
# Libraries that a part does without.
WITHOUT = {
    "trainables.core": ("ray", "mlflow", "optuna", "matplotlib", "pandas", "envpool"),
    "trainables": ("mlflow", "optuna", "matplotlib", "pandas"),
    "search_spaces": ("mlflow", "optuna", "matplotlib", "torch"),
    "analysis": ("mlflow", "optuna", "torch"),
}
# … but for the files whose matter it is, by how their paths begin.
EXCEPT = {"mlflow": "analysis/results/mlflow"}
ONLY_IN = {
    "difflib": "trainables/core/suggestions",
    "ray.rllib": "experiments/benchmarks/peer_rllib",
    "stable_baselines3": "experiments/benchmarks/peer_sb3",
}


def violations(root: Path) -> list[str]:
    """Every import that runs the wrong way, as `file:line imports module: why`."""
    found = []
    for path in source_files(root):
        module = module_of(path.relative_to(root))
        for line, imported in imports(path, module):
            why = reason_against(path.relative_to(root), module, imported)
            if why:
                found.append(f"{path.relative_to(root)}:{line} imports {imported}: {why}")
    return found


def source_files(root: Path) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """The line and full name of everything that a file imports, `package.name` for each name."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in runtime_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = ".".join([*base, source] if source else base)
            for alias in node.names:
                yield node.lineno, f"{source}.{alias.name}"
        elif isinstance(node, ast.Call) and name_of(node.func) in ("import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node.lineno, argument.value


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node, except below `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from runtime_nodes(other)
            continue
        yield node
        yield from runtime_nodes(node)


def name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def reason_against(path: Path, module: str, imported: str) -> str:
    for library, home in ONLY_IN.items():
        if within(imported, library) and not path.as_posix().startswith(home):
            return f"{library} may be imported in {home}*.py only"
    part = part_of(module)
    for owner, libraries in WITHOUT.items():
        for library in filter(lambda library: within(imported, library), libraries):
            home = EXCEPT.get(library)
            if within(module, owner) and not (home and path.as_posix().startswith(home)):
                return f"{owner} does without it"
    if not any(within(imported, package) for package in PACKAGES):
        return ""
    if private(imported) and imported.split(".")[0] != module.split(".")[0]:
        return "it is private"
    allowed = MAY_IMPORT[part]
    if part == "<algorithm>":
        own = module.split(".")[1]
        allowed += (f"trainables.{own}", *(f"trainables.{name}" for name in EXTENDS.get(own, ())))
    if any(within(imported, prefix) for prefix in allowed):
        return ""
    if part in ("search_spaces", "analysis") and lazy_public(imported):
        return ""
    return f"{part} may import only {', '.join(allowed)}"


def part_of(module: str) -> str:
    for part in ("trainables.core", "trainables.runtime"):
        if within(module, part):
            return part
    if module in PARTS_OF_ALGORITHM:
        return "<part of algorithm.py>"
    if module in MAY_IMPORT:
        return module
    return "<algorithm>" if within(module, "trainables") else module.split(".")[0]


def within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def private(imported: str) -> bool:
    return any(name.startswith("_") and not name.endswith("__") for name in imported.split("."))


def lazy_public(imported: str) -> bool:
    """`from trainables import PPO`: a name of the package itself, no module in it."""
    package, _, name = imported.partition(".")
    return package == "trainables" and name[:1].isupper() and "." not in name


def test_imports_run_one_way() -> None:
    assert violations(ROOT) == []


def test_the_test_reads_the_source() -> None:
    seen = {
        (module_of(path.relative_to(ROOT)), imported)
        for path in source_files(ROOT)
        for _, imported in imports(path, module_of(path.relative_to(ROOT)))
    }
    assert ("trainables.ppo", "trainables.algorithm.Algorithm") in seen
    assert ("analysis.plots.curves", "matplotlib.figure.Figure") in seen  # inside a function
    assert ("analysis.plots.curves", "ray.tune.ResultGrid") not in seen  # under TYPE_CHECKING
    assert len(seen) > 100


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("trainables/core/data/batch.py", "import ray"),
        ("trainables/core/data/batch.py", "def f():\n    from ray import tune"),
        ("trainables/core/data/batch.py", "from trainables.runtime.envs import make as envs"),
        ("trainables/core/data/batch.py", "from trainables import runtime"),
        ("trainables/core/data/batch.py", "from ...runtime import envs"),
        ("trainables/core/data/batch.py", "import trainables.algorithm"),
        ("trainables/runtime/envs/make.py", "from trainables.ppo import PPO"),
        ("trainables/runtime/envs/make.py", "from trainables import PPO"),
        ("trainables/runtime/envs/make.py", "from trainables.algorithm import Algorithm"),
        ("trainables/runtime/envs/make.py", "from trainables.registry import get_algorithm"),
        ("trainables/algorithm.py", "from trainables.ppo import PPO"),
        ("trainables/algorithm.py", "import importlib\nimportlib.import_module('trainables.ppo')"),
        ("trainables/lifecycle/checkpointing.py", "from trainables.algorithm import Algorithm"),
        ("trainables/lifecycle/checkpointing.py", "from trainables.ppo import PPO"),
        ("trainables/registry.py", "from trainables.ppo import PPO"),
        ("trainables/ppo.py", "from trainables.dqn import DQN"),
        ("trainables/ppo.py", "from .dqn import DQN"),
        ("trainables/impala.py", "from trainables.appo import APPO"),
        ("trainables/ppo.py", "from experiments.running.runner import run"),
        ("trainables/ppo.py", "import mlflow"),
        ("trainables/ppo.py", "from analysis import leaderboard"),
        ("trainables/ppo.py", "from ray.rllib.utils import annotations"),
        ("trainables/ppo.py", "from ray import rllib"),
        ("search_spaces/space.py", "from trainables.core.learning.learner import Learner"),
        ("search_spaces/space.py", "from trainables import core"),
        ("search_spaces/space.py", "from experiments.sweep.load import load_spec"),
        ("analysis/ranking/best.py", "from trainables.ppo import PPOConfig"),
        ("analysis/ranking/best.py", "from trainables.core.checkpoint import _decode"),
        ("analysis/ranking/best.py", "import experiments"),
        ("analysis/ranking/best.py", "import mlflow"),
        ("experiments/running/tuner.py", "from trainables.algorithm import _read_checkpoint"),
        ("experiments/running/tuner.py", "import ray.rllib"),
        ("experiments/running/tuner.py", "import difflib"),
        ("experiments/running/tuner.py", "from tunescape import PPO"),
        ("trainables/ppo.py", "from tunescape.shared_names import make_room"),
        ("experiments/benchmarks/peer_sb3.py", "from ray.rllib.algorithms.ppo import PPO"),
        ("experiments/benchmarks/ours.py", "import stable_baselines3"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, line: str) -> None:
    plant(tmp_path, file, line)
    [found] = violations(tmp_path)
    assert found.startswith(f"{file}:")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("trainables/core/data/batch.py", "if TYPE_CHECKING:\n    import ray"),
        ("trainables/core/data/batch.py", "if typing.TYPE_CHECKING:\n    from ray import tune"),
        ("trainables/core/data/batch.py", "from . import spaces"),
        ("trainables/core/data/batch.py", "import gymnasium, rayleigh, torch"),
        ("trainables/runtime/envs/make.py", "import ray\nfrom ...core import config"),
        ("trainables/algorithm.py", "from trainables.runtime.envs.make import make"),
        ("trainables/appo.py", "from trainables.impala import IMPALA"),
        ("trainables/dreamerv3/world.py", "from trainables.dreamerv3.rssm import RSSM"),
        ("analysis/ranking/best.py", "from trainables import PPO"),
        ("analysis/results/mlflow.py", "from mlflow.tracking import MlflowClient"),
        ("analysis/ranking/best.py", "from trainables.core.policy.policy import Policy"),
        (
            "experiments/running/tuner.py",
            "from trainables.runtime.envs.make import make\nimport mlflow, optuna",
        ),
        ("experiments/benchmarks/peer_rllib.py", "from ray.rllib.algorithms.ppo import PPOConfig"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, file: str, line: str) -> None:
    plant(tmp_path, file, line)
    assert violations(tmp_path) == []


def plant(root: Path, file: str, line: str) -> None:
    path = root / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")


HEAVY = ("mlflow", "optuna", "matplotlib")


@pytest.mark.parametrize("code", ["import trainables", "from trainables import PPO, PPOConfig"])
def test_trainables_import_nothing_heavy(code: str) -> None:
    check = f"import sys; {code}; print(sorted({set(HEAVY)} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_trainables_import_fast() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import trainables"], check=True, timeout=120)
        return time.perf_counter() - start

    # The best of three: what the machine does besides is not ours.
    assert min(seconds() for _ in range(3)) < 3.0
