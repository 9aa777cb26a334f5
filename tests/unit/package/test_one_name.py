"""`import tunescape` has every public name of the four packages, and imports nothing heavy."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import tunescape
from tunescape.shared_names import PACKAGES

ROOT = Path(__file__).parents[3]


def test_every_public_name_is_the_packages_own() -> None:
    for package in map(importlib.import_module, PACKAGES):
        assert package.__all__
        for public in package.__all__:
            assert getattr(tunescape, public) is getattr(package, public), public
            assert public in dir(tunescape) and public in tunescape.__all__


def test_no_name_hides_another() -> None:
    homes: dict[str, list[Any]] = {}
    for name in PACKAGES:
        package = importlib.import_module(name)
        for public in package.__all__:
            homes.setdefault(public, []).append(getattr(package, public))
    assert sorted(homes) == tunescape.__all__
    twice = {public: found for public, found in homes.items() if len(found) > 1}
    assert all(found[0] is other for found in twice.values() for other in found), twice


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'leaderbord'; did you mean 'leaderboa"):
        tunescape.leaderbord  # noqa: B018
    assert not hasattr(tunescape, "__wrapped__")
    assert tunescape.__version__ == importlib.import_module("trainables.registry").VERSION


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, tunescape; dir(tunescape); tunescape.__version__; tunescape.load_space; "
        "print([m for m in ('torch', 'ray', 'mlflow', 'pandas', 'optuna') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_it_is_in_what_is_built_and_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    builds = project["tool"]["hatch"]["build"]["targets"]
    assert set(builds["wheel"]["packages"]) == {*PACKAGES, "tunescape"}
    assert {f"/{name}" for name in (*PACKAGES, "tunescape")} <= set(builds["sdist"]["include"])
    assert set(project["tool"]["mypy"]["packages"]) == {*PACKAGES, "tunescape"}
    module, _, function = project["project"]["scripts"]["tunescape"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_editors_know_its_names() -> None:
    tree = ast.parse((ROOT / "tunescape" / "__init__.py").read_text(encoding="utf-8"))
    [typing] = [node for node in tree.body if isinstance(node, ast.If)]
    starred = {
        n.module for n in typing.body if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"
    }
    assert starred == set(PACKAGES)
