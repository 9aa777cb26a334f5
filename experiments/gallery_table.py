"""The tables in gallery.md: each shipped spec with the line that it begins with, and its command.

Run `python -m experiments.gallery_table --write` after a change of the specs; without `--write` it
prints the tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from experiments.show_list import spec_summary
from experiments.spec_files import find_spec, spec_names

PAGE = Path(__file__).with_name("gallery.md")
BEGIN = "<!-- gallery: begin; made by `python -m experiments.gallery_table --write` -->"
END = "<!-- gallery: end -->"
PICTURES = {
    "minatar_breakout": "benchmarks/figures/minatar_breakout.png",
    "quickstart": "pictures/live_table.png",
    "stateless_cartpole": "benchmarks/figures/recurrent_scores.png",
    "tuned/sac/halfcheetah": "benchmarks/figures/halfcheetah.png",
}
"""By spec, of what came out."""

_TUNED = "tuned/"


def gallery() -> str:
    """Both tables as Markdown."""
    names = spec_names()
    return "\n\n".join(
        (
            _table("Sweeps", (name for name in names if not name.startswith(_TUNED))),
            _table("Tuned settings", (name for name in names if name.startswith(_TUNED))),
        )
    )


def with_gallery(page: str) -> str:
    """The page's text with the tables between its markers made anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{gallery()}\n\n{END}{after}"


def _table(title: str, names: Iterable[str]) -> str:
    rows = [_row(name) for name in names]
    header = "| Spec | What it is | Command |\n|---|---|---|"
    return "\n".join([f"## {title}", "", header, *rows])


def _row(name: str) -> str:
    about = spec_summary(find_spec(name)).rstrip(".:")
    picture = PICTURES.get(name)
    shown = f" ([picture]({picture}))" if picture else ""
    return f"| [`{name}`]({name}.yaml) | {about}{shown} | `tunescape run {name}` |"


def main() -> None:
    """Print the tables, or write them into gallery.md."""
    parser = argparse.ArgumentParser(prog="python -m experiments.gallery_table")
    parser.add_argument("--write", action="store_true", help="write the tables into gallery.md")
    if parser.parse_args().write:
        PAGE.write_text(with_gallery(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(gallery())


if __name__ == "__main__":
    main()
