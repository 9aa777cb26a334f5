"""`result.json` ends with the row of the checkpoint from which its trial goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.result_rows import ROWS_UNTIL, cut_back, row_identity


def row(iteration: int, seconds: float) -> dict[str, Any]:
    return {"training_iteration": iteration, "time_total_s": seconds, "episode_return_mean": 1.0}


ROWS = [row(1, 0.1), row(2, 0.2), row(3, 0.3), row(2, 0.25), row(3, 0.35)]  # an exploit after 3


@pytest.mark.parametrize(
    ("checkpoint", "kept"),
    [
        (ROWS[4], 5),
        (ROWS[3], 4),
        (ROWS[2], 3),
        ({**row(1, 0.15), ROWS_UNTIL: row_identity(ROWS[2])}, 3),  # the donor's, since the exploit
        ({**row(2, 0.2), ROWS_UNTIL: row_identity(ROWS[4])}, 5),
        ({}, 0),  # no checkpoint: it starts from the beginning
        (row(7, 0.7), 5),  # a row that is not there: nothing is known
    ],
)
def test_rows_after_the_checkpoints_are_taken_back(
    checkpoint: dict[str, Any], kept: int, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ROWS))
    before = path.stat().st_ino
    assert cut_back(path, checkpoint) == len(ROWS) - kept
    assert [json.loads(line) for line in path.read_text().splitlines()] == ROWS[:kept]
    # The sweep's snapshots add to a file that has grown: one that was cut is another file.
    assert (path.stat().st_ino == before) == (kept == len(ROWS))


def test_a_line_that_a_kill_cut_short_goes(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(ROWS[0]) + '\n{"training_it')
    assert cut_back(path, ROWS[0]) == 1
    assert path.read_text() == json.dumps(ROWS[0]) + "\n"
    assert cut_back(tmp_path / "none.json", {}) == 0
