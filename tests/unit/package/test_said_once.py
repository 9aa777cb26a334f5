"""What several modules need to agree on stands in one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from analysis import names
from analysis.results import mlflow_tags
from analysis.results.schedulers import SCHEDULER_FAMILIES
from analysis.results.searches import SEARCH_FAMILIES
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.search_schema import SEARCHES
from trainables.runtime.members import host

ROOT = Path(__file__).parents[3]
PACKAGES = ("trainables", "search_spaces", "experiments", "analysis", "tunescape")


def texts() -> Iterator[tuple[Path, str]]:
    """Every text in the code of the product, with its file; no docstrings and no benchmarks."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "benchmarks" in path.parts:
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and id(node) not in told:
                    yield path, str(node.value)


def test_mlflow_tags() -> None:
    tags = {value for name, value in vars(mlflow_tags).items() if name.endswith(("_TAG", "_TAGS"))}
    assert len(tags) > 20
    home = Path(str(mlflow_tags.__file__)).name
    found = {(path.name, text) for path, text in texts() for tag in tags if tag in text}
    assert {text for name, text in found if name == home} == tags
    assert {(name, text) for name, text in found if name != home} == set()


def test_names_of_columns() -> None:
    columns = {names.ENV_STEPS, names.ITERATION, names.SECONDS}
    homes = [path for path, text in texts() if text in columns and "trainables" not in path.parts]
    assert homes == [Path(str(names.__file__))] * len(columns)


def test_a_host_is_called_the_same_where_results_are_made() -> None:
    assert names.HOST == host.HOST  # the analysis imports nothing of the runtime


def test_schedulers_and_searches() -> None:
    assert [*SCHEDULER_FAMILIES] == [*SCHEDULERS], "a line for each in analysis.results.schedulers"
    assert [*SEARCH_FAMILIES] == [*SEARCHES], "a line for each in analysis.results.searches"
