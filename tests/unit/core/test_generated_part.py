"""Parts of pages that are made from the code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trainables.core.generated_part import GeneratedPart, row, run_command


def test_a_part_is_made_anew_and_the_rest_of_its_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    part = GeneratedPart(page, "table", "somewhere.table", lambda: row("a|b", "c"))
    page.write_text(f"Before\n{part.begin}\n\nolder\n\n{part.end}\nAfter\n")
    assert part.current() == "older"
    monkeypatch.setattr(sys, "argv", ["table"])
    run_command([part])
    assert capsys.readouterr().out == "| a\\|b | c |\n" and part.current() == "older"
    monkeypatch.setattr(sys, "argv", ["table", "--write"])
    run_command([part])
    expected = f"Before\n{part.begin}\n\n| a\\|b | c |\n\n{part.end}\nAfter\n"
    assert page.read_text() == expected and "`python -m somewhere.table --write`" in part.begin
