"""What a notebook shows of a sweep."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from analysis_sweeps import make_sweep, row

from analysis import SweepResult, load_sweep


def test_a_sweep_shows_words_table_and_curves(tmp_path: Path) -> None:
    rows = [row(number, 10.0 * number) for number in (1, 2, 3)]
    trials = {f"trial{n}": {"config": {"lr": n / 10}, "rows": rows[: n + 1]} for n in (1, 2)}
    shown = SweepResult(make_sweep(tmp_path, trials))._repr_html_()
    assert "2 trials" in shown and "<code>seeds: 5</code>" in shown
    assert shown.index("<td>30</td>") < shown.index("<td>20</td>")  # best first
    [picture] = re.findall(r'src="data:image/png;base64,([^"]+)"', shown)
    assert base64.b64decode(picture).startswith(b"\x89PNG")


def test_a_sweep_without_results_says_so(tmp_path: Path) -> None:
    shown = SweepResult(make_sweep(tmp_path, {"a": {"config": {}, "rows": []}}))._repr_html_()
    assert "There is no winner" in shown and "<img" not in shown


def test_names_are_text(tmp_path: Path) -> None:
    trials = {"a": {"config": {"tag": "<script>x</script>"}, "rows": [row(1, 1.0)]}}
    trials["b"] = {"config": {"tag": "y"}, "rows": [row(1, 1.0)]}
    assert "<script>" not in SweepResult(make_sweep(tmp_path, trials))._repr_html_()


def test_a_sweep_in_words_is_short(tmp_path: Path) -> None:
    trials = {"a": {"config": {}, "rows": [row(1, 1.0)]}}
    folder = make_sweep(tmp_path, trials)
    assert repr(SweepResult(folder)).startswith("sweep: 1 trial")
    assert len(repr(load_sweep(folder))) < 200 + len(str(tmp_path))
