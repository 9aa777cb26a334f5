"""The commands in the pages are there, and take the options and values that the pages give them."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from page_blocks import FOLDERS, PAGES, every_block, text_of

from experiments import cli

PLACEHOLDERS = re.compile(r"[…\[|<{]")  # `[--what trials|curves] DIR…`
START = {
    "tunescape": re.compile(r"^(?:.*&& )?(tunescape [^\n]*)$", re.MULTILINE),
    "python": re.compile(rf"^(?:.*/)?(python -m (?:{'|'.join(FOLDERS)})\b[^\n]*)$", re.MULTILINE),
}


def commands(program: str, *, in_blocks: bool) -> Iterator[str]:
    """Every command of a program: the lines of blocks, or what stands in backticks in the text."""
    for page in PAGES:
        if page == "CHANGELOG.md":  # it tells of commands as they were
            continue
        if in_blocks:
            for block in every_block(page):
                if block.language == "bash":
                    yield from START[program].findall(block.code.replace("\\\n", " "))
            continue
        text = re.sub(r"^ *```.*?^ *```", "", text_of(page), flags=re.S | re.M)
        for code in re.findall(r"`([^`]+)`", text):
            whole = " ".join(code.split())
            if START[program].fullmatch(whole) and not PLACEHOLDERS.search(whole):
                yield whole


def mistake(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the program says of a command that it refuses as it reads it; it is not run."""
    words = shlex.split(command, comments=True)
    try:
        if words[0] == "tunescape":
            cli.app(args=words[1:], prog_name="tunescape")
        else:
            sys.argv = words[2:]
            runpy.run_module(words[2], run_name="__main__")
        return "it reads no options, and would have been run"
    except SystemExit as end:
        said = capsys.readouterr()
        return "" if end.code in (0, None) else said.err or said.out
    except ImportError as error:
        return str(error)


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end when they have read what they were given."""
    read = argparse.ArgumentParser.parse_args

    def parse_args(parser: argparse.ArgumentParser, *given: Any, **more: Any) -> None:
        read(parser, *given, **more)
        raise SystemExit(0)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    [context] = typer.Context.__bases__
    monkeypatch.setattr(context, "invoke", lambda *given, **more: None)
    monkeypatch.setattr(sys, "argv", [])


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.usefixtures("nothing_runs")
def test_commands_are_read(in_blocks: bool, capsys: pytest.CaptureFixture[str]) -> None:
    found = {*commands("tunescape", in_blocks=in_blocks)}
    assert len(found) > 40
    said = {command: mistake(command, capsys) for command in sorted(found)}
    # The text may leave out what it does not speak of.
    allowed = "\0" if in_blocks else "Missing argument"
    assert {c: text for c, text in said.items() if text and allowed not in text} == {}


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.usefixtures("nothing_runs")
def test_modules_read_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    found = {*commands("python", in_blocks=True), *commands("python", in_blocks=False)}
    assert len(found) > 20
    said = {command: mistake(command, capsys) for command in sorted(found)}
    assert {command: text for command, text in said.items() if text} == {}


MISTAKES = [
    ("tunescape runn quickstart", "No such command 'runn'"),
    ("tunescape run quickstart --dry", "No such option: --dry"),
    ("tunescape evaluate runs/quickstart --episodes many", "Invalid value for '--episodes'"),
    ("tunescape export", "Missing argument"),
    ("python -m trainables.metric_table --wirte", "unrecognized arguments: --wirte"),
    ("python -m trainables.metric_tables", "No module named trainables.metric_tables"),
]


@pytest.mark.usefixtures("nothing_runs")
def test_mistakes_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
    for command, said in MISTAKES:
        assert said in " ".join(mistake(command, capsys).split()), command
