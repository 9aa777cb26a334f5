"""What is built of the project: benchmarks and what needs them stay in the repository."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = "experiments.benchmarks"
BUILDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
    "build"
]["targets"]


def is_built(file: Path, target: str) -> bool:
    """Whether a file is in what is built: hatchling's patterns are those of git."""
    path = f"/{file.relative_to(ROOT).as_posix()}"
    settings = BUILDS[target]
    roots = settings.get("include") or [f"/{name}" for name in settings["packages"]]
    return any(f"{path}/".startswith(f"{root}/") for root in roots) and not any(
        path.startswith(f"{pattern}/") if "/" in pattern else file.name == pattern
        for pattern in settings["exclude"]
    )


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def imports_benchmarks(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(a.name.startswith(BENCHMARKS) for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(BENCHMARKS):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "experiments":
            return any(alias.name == "benchmarks" for alias in node.names)
    return False


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_no_benchmark_is_built(target: str) -> None:
    built = [f for f in python_files("experiments", "tests") if is_built(f, target)]
    assert ROOT / "experiments" / "cli.py" in built
    assert not [file for file in built if "benchmarks" in file.parent.parts]
    results = ROOT / "experiments" / "benchmarks" / "figures" / "halfcheetah.json"
    assert results.is_file() and not is_built(results, target)


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_nothing_that_is_built_imports_a_benchmark(target: str) -> None:
    folders = ("trainables", "search_spaces", "experiments", "analysis", "tunescape", "tests")
    files = [file for file in python_files(*folders) if is_built(file, target)]
    assert len(files) > 300
    assert not [
        str(file)
        for file in files
        if imports_benchmarks(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert imports_benchmarks(ast.parse("def f():\n    from experiments.benchmarks import noop"))
    assert imports_benchmarks(ast.parse("from experiments import benchmarks"))


def test_every_excluded_file_is_there() -> None:
    there = {file.name for file in python_files("tests")}
    named = [pattern for pattern in BUILDS["sdist"]["exclude"] if "/" not in pattern]
    assert named and set(named) <= there
