"""`tunescape list`: what there is."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.commands import shell
from experiments.spec.files import find_spec, spec_names
from experiments.terminal import say
from search_spaces.loader import load_preset, preset_names, space_names
from trainables.registry import algorithm_names, algorithm_summary

if TYPE_CHECKING:
    from rich.console import Console


_INDENT = "  "
_SENTENCE = re.compile(r"(?<=[.:])\s+(?=[A-Z])")
_SHORTEST = 40  # characters: what ends sooner is the title of what follows


def list_() -> None:
    """List the algorithms, search spaces and specs."""
    show_list(shell.output())


def show_list(console: Console) -> None:
    """Print what there is; nothing is imported for it, and a line is as wide as the console."""
    presets = {name: f"{name} ({', '.join(preset_names(name))})" for name in space_names()}
    sections = {
        "Algorithms": {name: algorithm_summary(name) for name in algorithm_names()},
        "Search spaces": {shown: load_preset(name).description for name, shown in presets.items()},
        "Specs": {name: spec_summary(find_spec(name)) for name in spec_names()},
    }
    for title, lines in sections.items():
        console.print(f"{title}:", highlight=False, style="bold")
        width = max(map(len, lines))
        for name, about in lines.items():
            room = max(20, console.width - width - 2 * len(_INDENT))
            about = textwrap.shorten(about.rstrip(".:"), room, placeholder=" …")
            say(console, f"{_INDENT}{name:<{width}}{_INDENT}{about}")
    say(console, "More: tunescape space NAME, tunescape show NAME, tunescape run NAME --dry-run")


def spec_summary(file: Path) -> str:
    """Return what a spec's first comment says: a sentence, or more where that is a title."""
    words: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# ") or line.startswith("#     "):  # the spec, or a command
            break
        words.append(line.removeprefix("# ").strip())
    sentences = _SENTENCE.split(" ".join(words))
    about = sentences[0]
    for sentence in sentences[1:]:
        if len(about) >= _SHORTEST:
            break
        about = f"{about} {sentence}"
    return about
