"""What is built of the project: benchmarks and what needs them stay in the repository."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from import_graph import imports, within

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


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_no_benchmark_is_built(target: str) -> None:
    built = [f for f in python_files("experiments", "tests") if is_built(f, target)]
    assert ROOT / "experiments" / "cli.py" in built
    assert not [file for file in built if "benchmarks" in file.parent.parts]
    results = ROOT / "experiments" / "benchmarks" / "figures" / "halfcheetah.json"
    assert results.is_file() and not is_built(results, target)


def test_nothing_that_is_built_imports_a_benchmark(tmp_path: Path) -> None:
    folders = ("trainables", "search_spaces", "experiments", "analysis", "tunescape", "tests")
    files = [file for file in python_files(*folders) if any(is_built(file, to) for to in BUILDS)]
    assert len(files) > 300
    assert [file.name for file in files if imports_benchmarks(file)] == []
    (tmp_path / "a.py").write_text("def f():\n    from experiments.benchmarks import noop")
    (tmp_path / "b.py").write_text("from experiments import benchmarks")
    assert imports_benchmarks(tmp_path / "a.py") and imports_benchmarks(tmp_path / "b.py")


def imports_benchmarks(file: Path) -> bool:
    if "benchmarks" not in file.read_text(encoding="utf-8"):
        return False
    return any(within(name, BENCHMARKS) for _, name, _ in imports(file, ""))


def test_every_excluded_file_is_there() -> None:
    there = {file.name for file in python_files("tests")}
    named = [pattern for pattern in BUILDS["sdist"]["exclude"] if "/" not in pattern]
    assert named and set(named) <= there
