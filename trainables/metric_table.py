"""The tables in metrics.md of what every algorithm reports, made from `core.reported_metrics`.

Run `python -m trainables.metric_table --write` after a change of metrics; without `--write` it
prints the tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from trainables import registry
from trainables.core.reported_metrics import BY_ALGORITHM, COMMON, OLDER, SEEDS, TUNES, Reported

PAGE = Path(__file__).with_name("metrics.md")
BEGIN = "<!-- metrics: begin; made by `python -m trainables.metric_table --write` -->"
END = "<!-- metrics: end -->"

_HEADER = "| Metric | Unit | Meaning | Only with |\n|---|---|---|---|"


def metric_tables() -> str:
    """All tables as Markdown."""
    blocks = [_table("Every algorithm", COMMON)]
    blocks += [
        _table(name, BY_ALGORITHM[name])
        for name in registry.algorithm_names()
        if name in BY_ALGORITHM  # one that a user registered is not ours to describe
    ]
    blocks += [_table("Added by Tune", TUNES), _older()]
    blocks.append(_table("A trial of several seeds", SEEDS))
    return "\n\n".join(blocks) + "\n"


def with_tables(page: str) -> str:
    """The page's text with the tables between its markers made anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{metric_tables()}\n{END}{after}"


def _table(title: str, metrics: Iterable[Reported]) -> str:
    rows = [_row(f"`{m.name}`", m.unit, m.meaning, m.when) for m in metrics]
    return "\n".join([f"## {title}", "", _HEADER, *rows])


def _older() -> str:
    rows = [_row(f"`{old}`", f"`{new}`") for old, new in OLDER.items()]
    header = "| Older name | The same as |\n|---|---|"
    return "\n".join(["## Older names, in every result, too", "", header, *rows])


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    """Print the tables, or write them into metrics.md."""
    parser = argparse.ArgumentParser(prog="python -m trainables.metric_table")
    parser.add_argument("--write", action="store_true", help="write the tables into metrics.md")
    if parser.parse_args().write:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(metric_tables())


if __name__ == "__main__":
    main()
