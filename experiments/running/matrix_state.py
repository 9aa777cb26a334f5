"""What a matrix's folder says: every sweep's spec, and the row of each in the comparison."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from analysis.home import expanded
from experiments.errors import SweepError
from experiments.output_files import replace_text
from experiments.spec.schema import SweepSpec
from experiments.sweep.load import make_spec, spec_data
from search_spaces.documents import load_document
from search_spaces.yaml_values import dump_yaml

MATRIX_FILE = "matrix.yaml"
COMPARISON_FILE = "comparison.csv"

Status = Literal["finished", "failed", "interrupted", "waiting"]
Measure = Literal["", "last value", "held-out IQM"]


@dataclass
class Row:
    """One sweep of a matrix in the comparison.

    Attributes:
        status: `failed` if it could not be run or no trial succeeded; `note` is the cause.
        env: Its environment, where it has one that is not searched.
        trials: Trials that were begun.
        failed: Those of them that failed.
        value: The objective of the best trial, or of the final's winner where there is a final.
        measure: What the value is: the best trial's last one, or the winner's on held-out seeds.
        trial: The search's trial that the value is of.
        env_steps: Environment steps that this trial took.
        seconds: Time that the sweep took, over all runs of it.
        note: Why there is no value.
    """

    status: Status = "waiting"
    env: str = ""
    trials: int = 0
    failed: int = 0
    value: float | None = None
    measure: Measure = ""
    trial: str = ""
    env_steps: int | None = None
    seconds: float = 0.0
    note: str = ""


@dataclass
class Matrix:
    """The sweeps of a matrix by name, and how each ended."""

    folder: Path
    specs: dict[str, SweepSpec]
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return any(row.status == "interrupted" for row in self.rows.values())

    @property
    def any_failed(self) -> bool:
        """Whether a sweep failed."""
        return any(row.status == "failed" for row in self.rows.values())


def is_matrix(folder: str | Path) -> bool:
    """Tell whether a folder is that of a matrix."""
    return (expanded(folder) / MATRIX_FILE).is_file()


def load_matrix(folder: str | Path) -> Matrix:
    """Read a matrix's folder, wherever it lies now."""
    path = expanded(folder).absolute()
    document = load_document(path / MATRIX_FILE)
    try:
        specs, rows = {}, {}
        for name, entry in document.data["sweeps"].items():
            specs[name] = make_spec(entry["spec"], f"{path / MATRIX_FILE}: {name}")
            rows[name] = Row(**entry["row"])
    except (KeyError, TypeError, AttributeError) as error:
        raise SweepError(f"{path / MATRIX_FILE} cannot be read: {error}") from None
    for name, spec in specs.items():
        spec.storage, spec.name = str(path.parent), f"{path.name}/{name}"
    return Matrix(path, specs, rows)


def save_matrix(matrix: Matrix) -> None:
    """Write `matrix.yaml` and the comparison, each whole or not at all."""
    sweeps = {
        name: {"row": asdict(matrix.rows[name]), "spec": spec_data(spec)}
        for name, spec in matrix.specs.items()
    }
    replace_text(matrix.folder / MATRIX_FILE, dump_yaml({"sweeps": sweeps}))
    table = io.StringIO()
    writer = csv.DictWriter(table, ["sweep", *Row.__dataclass_fields__], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"sweep": name, **asdict(row)} for name, row in matrix.rows.items())
    replace_text(matrix.folder / COMPARISON_FILE, table.getvalue())
