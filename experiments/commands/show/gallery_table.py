"""The tables in gallery.md: each shipped spec with the line that it begins with, and its command.

Run `python -m experiments.commands.show.gallery_table --write` after a change of the specs; without
`--write` it prints the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from experiments.commands.listing import spec_summary
from experiments.spec.files import find_spec, spec_names
from trainables.core.generated_part import GeneratedPart, run_command

PICTURES = {
    "minatar_breakout": "benchmarks/figures/minatar_breakout.png",
    "quickstart": "pictures/live_table.png",
    "stateless_cartpole": "benchmarks/figures/recurrent_scores.png",
    "tuned/dqn/frozenlake": "benchmarks/figures/curiosity.png",
    "tuned/ppo/frozenlake": "benchmarks/figures/curiosity.png",
    "tuned/ppo/mountaincar": "benchmarks/figures/curiosity.png",
    "tuned/dreamerv3/tmaze": "benchmarks/figures/tmaze.png",
    "tuned/ppo/tmaze": "benchmarks/figures/tmaze.png",
    "tuned/sac/halfcheetah": "benchmarks/figures/halfcheetah.png",
}
"""By spec, a picture of what came out."""

_TUNED = "tuned/"


def gallery() -> str:
    """Return both tables as Markdown."""
    names = spec_names()
    return "\n\n".join(
        (
            _table("Sweeps", (name for name in names if not name.startswith(_TUNED))),
            _table("Tuned settings", (name for name in names if name.startswith(_TUNED))),
        )
    )


PART = GeneratedPart(
    Path(__file__).parents[2] / "gallery.md",
    "gallery",
    "experiments.commands.show.gallery_table",
    gallery,
    40,
)


def _table(title: str, names: Iterable[str]) -> str:
    rows = [_row(name) for name in names]
    header = "| Spec | What it is | Command |\n|---|---|---|"
    return "\n".join([f"## {title}", "", header, *rows])


def _row(name: str) -> str:
    about = spec_summary(find_spec(name)).rstrip(".:")
    picture = PICTURES.get(name)
    shown = f" ([picture]({picture}))" if picture else ""
    return f"| [`{name}`]({name}.yaml) | {about}{shown} | `tunescape run {name}` |"


if __name__ == "__main__":
    run_command([PART])
