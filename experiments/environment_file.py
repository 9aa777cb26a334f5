"""What a sweep ran on, in its folder: `environment.json`, with an entry for each start of it.

A sweep that is resumed may go on with other versions, from another commit or on another machine;
who reads its numbers must see that.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from datetime import datetime
from pathlib import Path
from typing import Any

from experiments.output_files import replace_text
from experiments.provenance import git_commit, package_versions

ENVIRONMENT_FILE = "environment.json"

logger = logging.getLogger(__name__)


def note_environment(folder: Path, cluster: dict[str, float] | None = None) -> None:
    """Add this start of a sweep to its `environment.json`.

    Names of the user, the host and folders are left out: the file is made to be passed on. A disk
    that is full costs a warning, not the sweep.

    Args:
        folder: The sweep's folder.
        cluster: The resources that Ray has, by name.
    """
    file = folder / ENVIRONMENT_FILE
    runs = [*_runs(file), _this_start(cluster or {})]
    try:
        replace_text(file, json.dumps({"runs": runs}, indent=2) + "\n")
    except OSError as error:
        logger.warning("%s could not be written: %s", file, error)


def _runs(file: Path) -> list[Any]:
    try:
        runs = json.loads(file.read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return runs if isinstance(runs, list) else []


def _this_start(cluster: dict[str, float]) -> dict[str, Any]:
    return {
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "commit": git_commit(),
        "versions": package_versions(),
        "machine": {
            "system": f"{platform.system()} {platform.release()}",
            "processor": _processor(),
            "CPUs": os.cpu_count(),
            "memory": _memory(),
            **_cluster(cluster),
        },
    }


def _processor() -> str:
    """Return the processor's model where the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models and models[0] else platform.processor() or platform.machine()


def _memory() -> str | None:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return f"{size / 2**30:.1f} GiB"


def _cluster(resources: dict[str, float]) -> dict[str, Any]:
    """What Ray was given to use: its CPUs, GPUs, their models, and nodes if there are several."""
    found: dict[str, Any] = {}
    for name in ("CPU", "GPU"):
        if resources.get(name):
            found[f"{name}s for trials"] = f"{resources[name]:g}"
    models = [name.partition(":")[2] for name in resources if name.startswith("accelerator_type:")]
    if models and resources.get("GPU"):
        found["GPU models"] = ", ".join(sorted(models))
    nodes = sum(name.startswith("node:") and "__internal" not in name for name in resources)
    if nodes > 1:
        found["nodes"] = nodes
    return found
