"""Parts of pages that are made from the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from trainables.core.generated_part import GeneratedPart, row, rows_of_tables, run_command


def test_a_part_whose_tables_are_too_short_is_none() -> None:
    head = "| A | B |\n|---|--:|"
    made = f"Words\n\n{head}\n{row('1', '-')}\n{row('2', '')}\n\n### More\n\n{head}\n{row('3', '')}"
    assert rows_of_tables(made) == [2, 1]
    page = Path("page.md")
    assert GeneratedPart(page, "table", "x", lambda: made, 3).text() == made
    for text, rows in ((made, "[2, 1]"), (f"{made}\n\n{head}", "[2, 1, 0]"), ("", "[]")):
        with pytest.raises(ValueError, match=re.escape(f"page.md: table: tables of {rows} rows")):
            GeneratedPart(
                page, "table", "x", lambda text=text: text, 4 if text == made else 1
            ).text()


def test_a_part_is_made_anew_and_the_rest_of_its_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    part = GeneratedPart(page, "table", "somewhere.table", lambda: row("a|b", "c"), 1)
    page.write_text(f"Before\n{part.begin}\n\nolder\n\n{part.end}\nAfter\n")
    assert part.current() == "older"
    monkeypatch.setattr(sys, "argv", ["table"])
    run_command([part])
    assert capsys.readouterr().out == "| a\\|b | c |\n" and part.current() == "older"
    monkeypatch.setattr(sys, "argv", ["table", "--write"])
    run_command([part])
    expected = f"Before\n{part.begin}\n\n| a\\|b | c |\n\n{part.end}\nAfter\n"
    assert page.read_text() == expected and "`python -m somewhere.table --write`" in part.begin
