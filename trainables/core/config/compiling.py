"""How losses are compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompileOptions:
    """How `torch.compile` compiles a loss: its backend and mode."""

    backend: str = "inductor"
    mode: str | None = None
