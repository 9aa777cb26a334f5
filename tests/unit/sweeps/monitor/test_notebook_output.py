"""The live table in a notebook: one output, redrawn in place."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from experiments.monitor.notebook_output import as_html
from experiments.monitor.progress import Progress


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The outputs of a cell, each with all that it was in turn."""
    outputs: list[list[str]] = []

    def display(html: str, display_id: bool) -> Any:
        assert display_id
        outputs.append([html])
        return SimpleNamespace(update=outputs[-1].append)

    fake = SimpleNamespace(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    return outputs


def test_a_sweep_is_one_output(shown: list[list[str]]) -> None:
    console = Console(force_jupyter=True, file=io.StringIO())
    progress = Progress("loss", "min", total_trials=3, name="mine", console=console, interval_s=0.0)
    for step in range(3):
        progress.on_step_end(step, [])
    progress.on_experiment_end([])
    [versions] = shown
    assert len(versions) == 4
    assert "mine" in versions[-1] and "trials 0/3" in versions[-1]


def test_colours_are_kept_and_text_is_text() -> None:
    html = as_html(Text("a <b>", style="bold red"))
    assert "a &lt;b&gt;" in html and "font-weight: bold" in html
