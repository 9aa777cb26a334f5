"""The folders of finals in a sweep's folder, and those of somebody else beside them."""

from __future__ import annotations

from pathlib import Path

from experiments.running.final import _existing


def test_a_folder_that_is_no_finals_is_left_alone(tmp_path: Path) -> None:
    for name in ("final", "final-2", "final-notes", "final_thesis"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "spec.yaml").touch()
    (tmp_path / "final" / "experiment_state-1.json").touch()
    assert _existing(tmp_path) == [tmp_path / "final"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"final", "final-notes", "final_thesis"}  # final-2 was never saved
