"""Texts that users read, in files that are reviewed as a diff; `--write-golden` writes them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, texts: Mapping[str, str], *, write: bool) -> None:
    """Compare texts, by case, with those in `golden/<name>.txt`.

    Raises:
        AssertionError: They differ; with the difference.
    """
    now = "".join(f"## {case}\n{text.rstrip()}\n\n" for case, text in texts.items())
    file = FOLDER / f"{name}.txt"
    if write:
        file.parent.mkdir(exist_ok=True)
        file.write_text(now, encoding="utf-8")
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    if now != before:
        lines = difflib.unified_diff(
            before.splitlines(), now.splitlines(), str(file), "now", lineterm="", n=1
        )
        raise AssertionError("texts differ (pytest --write-golden):\n" + "\n".join(lines))
