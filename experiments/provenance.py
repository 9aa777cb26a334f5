"""Where a sweep came from: the commit and the versions that produced its numbers."""

from __future__ import annotations

import getpass
import platform
import subprocess
from importlib import metadata
from pathlib import Path

_PACKAGES = ("tunescape", "ray", "torch", "gymnasium", "optuna")


def package_versions() -> dict[str, str]:
    """Return the installed version of Python and of each package that shapes the results."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_commit(folder: str | Path = ".") -> str | None:
    """Return the commit of the working tree around `folder`, `-dirty` appended if it was edited.

    Returns:
        None where there is no repository, no commit yet, or no git.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}-dirty" if _git(folder, "status", "--porcelain", "-uno") else commit


def user_name() -> str | None:
    """Return the name of the user who runs this process, None where the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def _git(folder: str | Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
