"""Checkpoints as a stranger would forge them who knows the format: the digests are right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainables.core import checkpoint


def forge(folder: Path, change: Callable[[dict[str, Any]], Any], name: str = "checkpoint") -> None:
    """Change the state in `<name>.json`, as the file has it, and put its digest right."""
    path = folder / f"{name}.json"
    document = json.loads(path.read_text())
    change(document["state"])
    document["sha256"] = checkpoint._digest(document["files"], document["state"])
    path.write_text(json.dumps(document))


def forge_files(folder: Path, name: str = "checkpoint") -> None:
    """Put the digests of a checkpoint's files right, after some were changed."""
    path = folder / f"{name}.json"
    document = json.loads(path.read_text())
    for file in document["files"]:
        document["files"][file] = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    document["sha256"] = checkpoint._digest(document["files"], document["state"])
    path.write_text(json.dumps(document))


def forge_config(folder: Path, **settings: Any) -> None:
    """Change settings of a checkpoint's config."""
    forge(folder, lambda state: state["config"].update(settings))
