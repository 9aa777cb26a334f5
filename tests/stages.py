"""What a command writes beside telling what it is doing."""

from __future__ import annotations


def without_stages(text: str) -> str:
    """A command's stderr without the lines of `experiments.activity`, such as "Starting Ray …"."""
    return "".join(
        line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(" …")
    )
