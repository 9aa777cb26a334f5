"""What several modules need to agree on stands in one of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from analysis import names
from analysis.results import mlflow_tags
from analysis.results.schedulers import SCHEDULER_FAMILIES
from analysis.results.searches import SEARCH_FAMILIES
from experiments.spec.scheduler_schema import SCHEDULERS
from experiments.spec.search_schema import SEARCHES
from trainables.runtime.members import host

ROOT = Path(__file__).parents[3]
PACKAGES = ("trainables", "search_spaces", "experiments", "analysis", "tunescape")
TAGS = {value for name, value in vars(mlflow_tags).items() if name.endswith(("_TAG", "_TAGS"))}
COLUMNS = {names.ENV_STEPS, names.ITERATION, names.SECONDS}


@pytest.fixture(scope="module")
def texts() -> list[tuple[Path, str]]:
    """Every text in the code of the product, with its file; no docstrings and no benchmarks.

    Of files without any of the words asked for nothing is read but that they have none.
    """
    found, told = [], set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if "benchmarks" in path.parts:
            continue
        source = path.read_text(encoding="utf-8")
        words = TAGS if "trainables" in path.parts else TAGS | COLUMNS
        if not any(word in source for word in words):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Expr):  # it comes before its value
                told.add(node.value)
            elif isinstance(node, ast.Constant) and node not in told:
                found.append((path, str(node.value)))
    return found


def test_mlflow_tags(texts: list[tuple[Path, str]]) -> None:
    assert len(TAGS) > 20
    home = Path(str(mlflow_tags.__file__)).name
    found = {(path.name, text) for path, text in texts for tag in TAGS if tag in text}
    assert {text for name, text in found if name == home} == TAGS
    assert {(name, text) for name, text in found if name != home} == set()


def test_names_of_columns(texts: list[tuple[Path, str]]) -> None:
    homes = [path for path, text in texts if text in COLUMNS and "trainables" not in path.parts]
    assert homes == [Path(str(names.__file__))] * len(COLUMNS)


def test_a_host_is_called_the_same_where_results_are_made() -> None:
    assert names.HOST == host.HOST  # the analysis imports nothing of the runtime


def test_schedulers_and_searches() -> None:
    assert [*SCHEDULER_FAMILIES] == [*SCHEDULERS], "a line for each in analysis.results.schedulers"
    assert [*SEARCH_FAMILIES] == [*SEARCHES], "a line for each in analysis.results.searches"
