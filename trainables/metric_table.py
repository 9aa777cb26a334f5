"""The tables in metrics.md of what every algorithm reports, made from what they declare.

Run `python -m trainables.metric_table --write` after a change of metrics; without `--write` it
prints the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainables import registry
from trainables.core.all_metrics import (
    COMMON,
    ESTIMATES,
    INTRINSIC,
    LEAGUE,
    SAMPLED,
    SEEDS,
    SEVERAL_AGENTS,
    TUNES,
)
from trainables.core.generated_part import GeneratedPart, row, run_command
from trainables.core.reported_metrics import OLDER, OLDER_EVALUATED, Reported

_HEADER = "| Metric | Unit | Meaning | Only with |\n|---|---|---|---|"


def metric_tables() -> str:
    """All tables as Markdown."""
    blocks = [
        _table("Every algorithm whose training steps an environment", SAMPLED),
        _table("Every algorithm", COMMON),
        _table("Every algorithm with several agents", SEVERAL_AGENTS),
        _table("Off-policy estimates", ESTIMATES),
        _table("Curiosity rewards", INTRINSIC),
        _table("Self-play", LEAGUE),
    ]
    blocks += [
        _table(name, algorithm.reported_metrics)
        for name in registry.algorithm_names()
        if registry.is_ours(algorithm := registry.get_algorithm(name))
    ]
    blocks += [_table("Added by Tune", TUNES), _older()]
    blocks.append(_table("A trial of several seeds", SEEDS))
    return "\n\n".join(blocks)


PAGE = Path(__file__).with_name("metrics.md")
PART = GeneratedPart(PAGE, "metrics", "trainables.metric_table", metric_tables, 200)


def _table(title: str, metrics: Iterable[Reported]) -> str:
    rows = [row(f"`{m.name}`", m.unit, m.meaning, m.when) for m in metrics]
    return "\n".join([f"## {title}", "", _HEADER, *rows])


def _older() -> str:
    rows = [row(f"`{old}`", f"`{new}`") for old, new in {**OLDER, **OLDER_EVALUATED}.items()]
    header = "| Older name | The same as |\n|---|---|"
    return "\n".join(
        [
            "## Older names, in every result, too, or in every one with an evaluation",
            "",
            header,
            *rows,
        ]
    )


if __name__ == "__main__":
    run_command([PART])
