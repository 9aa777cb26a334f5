"""The spec that a sweep keeps in its folder, as far as the analysis looks at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_spec_file(folder: Path) -> dict[str, Any]:
    """The content of the folder's ``spec.yaml``; empty where none was written, or it is no spec."""
    try:
        document = yaml.safe_load((folder / "spec.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return document if isinstance(document, dict) else {}
