"""What the README promises of Python versions is what the package declares and CI runs."""

from __future__ import annotations

import re
import sys
import tomllib
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def test_the_supported_versions_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [supported] = filter(None, map(CLASSIFIER.fullmatch, project["classifiers"]))
    version = supported[1]
    assert project["requires-python"] == f">={version}"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"You need Python {version} and pip" in readme
    assert f"Python {version} is supported" in readme
    assert f"(Python {version}, Linux x86-64)" in (ROOT / "constraints.txt").read_text()
    assert f"python{version}" in (ROOT / ".ci" / "run").read_text()


def test_the_code_reads_in_this_python() -> None:
    """Newer versions turn old habits, such as a stray backslash, into warnings and then errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for folder in ("trainables", "search_spaces", "experiments", "analysis", "tunescape"):
            for file in (ROOT / folder).rglob("*.py"):
                compile(file.read_text(encoding="utf-8"), str(file), "exec")
    assert sys.version_info >= (3, 11)
