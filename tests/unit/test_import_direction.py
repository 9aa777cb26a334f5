"""Imports run one way: core <- runtime <- algorithm.py <- <algorithm>.py <- experiments.

Read from the source: imports inside functions count, those under TYPE_CHECKING do not.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from import_graph import PACKAGES, Import, imports, module_of, source_files, within

from tunescape.shared_names import PACKAGES as SHARED

ROOT = Path(__file__).resolve().parents[2]

# What a part may import of ours, by prefix. An algorithm's own file is added to its list.
BELOW_ALGORITHM = (
    "trainables.core",
    "trainables.runtime",
    "trainables.registry",
    "trainables.settings",
)
# What algorithm.py is put together from.
PARTS_OF_ALGORITHM = ("trainables.lifecycle",)
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
    "trainables.core.own_folders",
    "trainables.core.suggestions",
    "trainables.runtime.evaluation.play",
    "trainables.runtime.evaluation.needed_trust",
    "trainables.lifecycle.exporting",
)
SUB_PACKAGES = (
    "trainables.core.config.reference",
    "trainables.core",
    "trainables.runtime",
    "trainables.settings",
)
LOOP = ("trainables.algorithm",)
MAY_IMPORT = {
    "trainables.core": ("trainables.core",),
    # Which algorithm has a setting of another library, it asks the registry.
    "trainables.core.config.reference": ("trainables.core", "trainables.registry"),
    "trainables.runtime": ("trainables.core", "trainables.runtime"),
    "trainables.settings": ("trainables.core", "trainables.settings"),
    "trainables.registry": ("trainables.core", "trainables.settings"),
    "<part of algorithm.py>": (*BELOW_ALGORITHM, *PARTS_OF_ALGORITHM),
    "trainables.algorithm": (*BELOW_ALGORITHM, *PARTS_OF_ALGORITHM),
    "trainables.off_policy": (*BELOW_ALGORITHM, *LOOP),
    "trainables.on_policy": (*BELOW_ALGORITHM, *LOOP),
    "<algorithm>": (*BELOW_ALGORITHM, *LOOP, "trainables.off_policy", "trainables.on_policy"),
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
        for line, imported, typing in imports(path, module):
            why = "" if typing else reason_against(path.relative_to(root), module, imported)
            if why:
                found.append(f"{path.relative_to(root)}:{line} imports {imported}: {why}")
    return found


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
    for part in SUB_PACKAGES:
        if within(module, part):
            return part
    if any(within(module, part) for part in PARTS_OF_ALGORITHM):
        return "<part of algorithm.py>"
    if module in MAY_IMPORT:
        return module
    return "<algorithm>" if within(module, "trainables") else module.split(".")[0]


def private(imported: str) -> bool:
    return any(name.startswith("_") and not name.endswith("__") for name in imported.split("."))


def lazy_public(imported: str) -> bool:
    """`from trainables import PPO`: a name of the package itself, no module in it."""
    package, _, name = imported.partition(".")
    return package == "trainables" and name[:1].isupper() and "." not in name


def test_imports_run_one_way() -> None:
    assert violations(ROOT) == []


@pytest.fixture(scope="module")
def imported() -> dict[Path, tuple[Import, ...]]:
    """By file, without those that a build leaves out."""
    return {
        path: imports(path, module_of(path.relative_to(ROOT)))
        for path in source_files(ROOT)
        if "benchmarks" not in path.parts
    }


def test_the_test_reads_the_source(imported: dict[Path, tuple[Import, ...]]) -> None:
    ppo = {(name, typing) for _, name, typing in imported[ROOT / "trainables/ppo.py"]}
    assert ("trainables.algorithm.Algorithm", False) in ppo
    curves = {(name, typing) for _, name, typing in imported[ROOT / "analysis/plots/curves.py"]}
    assert ("matplotlib.figure.Figure", False) in curves  # inside a function
    assert ("ray.tune.ResultGrid", True) in curves  # under TYPE_CHECKING
    assert len(imported) > 300 and sum(map(len, imported.values())) > 1000


def test_our_own_code_names_modules(imported: dict[Path, tuple[Import, ...]]) -> None:
    """`from analysis import leaderboard` would be taken from a project's own package."""
    modules = {name: {path.stem for path in (ROOT / name).iterdir()} for name in SHARED}
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, found in imported.items()
        for line, name, typing in found
        if not typing and name.count(".") == 1 and name.split(".")[0] in SHARED
        if path.relative_to(ROOT).parts[0] in SHARED
        if name.split(".")[1] not in modules[name.split(".")[0]]
    ]
    assert wrong == []


WRONG = [
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
    ("trainables/lifecycle/checkpoints.py", "from trainables.algorithm import Algorithm"),
    ("trainables/lifecycle/checkpoints.py", "from trainables.ppo import PPO"),
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
]
RIGHT = [
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
]


def planted(root: Path, file: str, line: str) -> list[str]:
    path = root / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    return violations(root)


def test_planted_violations_are_found_and_what_is_allowed_passes(tmp_path: Path) -> None:
    for number, (file, line) in enumerate(WRONG):
        found = planted(tmp_path / f"wrong{number}", file, line)
        assert len(found) == 1 and found[0].startswith(f"{file}:"), (file, line, found)
    passed = [planted(tmp_path / f"right{number}", *row) for number, row in enumerate(RIGHT)]
    assert passed == [[]] * len(RIGHT)


IMPORTED = """
import sys, time
start = time.process_time()
import trainables
print(time.process_time() - start)
from trainables import PPO, PPOConfig
print({"mlflow", "optuna", "matplotlib"} & set(sys.modules))
"""


def test_trainables_import_fast_and_nothing_heavy() -> None:
    """By the process's own clock: what the machine does besides is not ours."""
    python = [sys.executable, "-c", IMPORTED]
    done = subprocess.run(python, capture_output=True, text=True, check=True, timeout=120)
    seconds, heavy = done.stdout.split()
    assert heavy == "set()"
    assert float(seconds) < 3.0
