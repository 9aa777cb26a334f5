"""`tunescape data`: what it tells of recorded data, and that it finds all that is broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from experiments import cli
from experiments.commands.recording.data_summary import MOST_BROKEN, summarise
from experiments.commands.recording.record import record_folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    record_folder("random", folder / "cartpole", env="CartPole-v1", episodes=20)
    return folder / "cartpole"


def broken(recorded: Path, target: Path, column: str, rows: list[int], value: float) -> Path:
    """A copy of the data with wrong values."""
    [file] = recorded.glob("*.parquet")
    table = pq.read_table(file)
    values = table.column(column).to_numpy().copy()
    values[rows] = value
    place = table.schema.names.index(column)
    target.mkdir()
    pq.write_table(table.set_column(place, column, pa.array(values)), target / "a.parquet")
    return target


def test_it_counts_what_is_there(recorded: Path) -> None:
    summary = summarise([str(recorded)])
    table = pq.read_table(recorded).to_pandas()
    lengths = table.groupby("episode_id").size()
    assert sorted(summary.lengths.tolist()) == sorted(lengths.tolist())
    assert sorted(summary.returns.tolist()) == sorted(lengths.astype(float).tolist())
    assert summary.num_terminated == 20 and not summary.num_truncated and not summary.num_cut
    assert summary.num_logp == summary.num_steps == len(table)
    [actions] = summary.actions
    assert actions.counts.tolist() == np.bincount(table["action"]).tolist()
    assert not summary.broken


def test_all_broken_rows_are_found_with_their_numbers(recorded: Path, tmp_path: Path) -> None:
    wrong = broken(recorded, tmp_path / "wrong", "reward", [3, 4, 200], np.nan)
    (wrong / "b.parquet").write_bytes(b"PAR1 and no more")
    summary = summarise([str(wrong)])
    assert [m for m in summary.broken if "no whole Parquet file" in m]
    rows = [m.split("row ")[1].split(",")[0] for m in summary.broken if "row " in m]
    assert rows == ["3", "4", "200"]
    # Besides them two rows are left out: what the actions before 3 and 200 led to is not known.
    assert summary.num_steps == summarise([str(recorded)]).num_steps - 5
    result = CliRunner().invoke(cli.app, ["data", str(wrong)])
    assert result.exit_code == 1 and "Broken: 4" in result.output


def test_reading_stops_where_all_is_broken(recorded: Path, tmp_path: Path) -> None:
    lines = tmp_path / "all.json"
    lines.write_text("no JSON\n" * (MOST_BROKEN + 5))
    summary = summarise([str(lines)])
    assert summary.stopped and len(summary.broken) == MOST_BROKEN


def test_continuous_actions_at_bounds(tmp_path: Path) -> None:
    record_folder("random", tmp_path / "d", env="Pendulum-v1", episodes=2)
    [counts] = summarise([str(tmp_path / "d")]).actions
    assert (counts.low, counts.high) == (-2, 2) and counts.counts.sum() == 400
    assert counts.counts.min() > 0 and counts.at_bounds is not None and counts.at_bounds < 20


def test_columns_of_any_name(tmp_path: Path) -> None:
    table = tmp_path / "orders.csv"
    table.write_text("price,order,profit,done\n1.5,0,2,0\n2.5,1,3,1\n")
    names = '{"obs_columns": ["price"], "action_column": "order", "reward_column": "profit"}'
    told = CliRunner().invoke(cli.app, ["data", str(table), "--input-config", names])
    assert told.exit_code == 0 and "1 episode" in told.output, told.output
    unnamed = CliRunner().invoke(cli.app, ["data", str(table)])
    assert unnamed.exit_code == 1 and "input_config={'obs_columns'" in unnamed.output
    wrong = CliRunner().invoke(cli.app, ["data", str(table), "--input-config", "price"])
    assert wrong.exit_code != 0 and "--input-config price: expected a mapping" in str(
        wrong.exception
    )


def test_it_is_drawn(recorded: Path, tmp_path: Path) -> None:
    plot = tmp_path / "data.png"
    result = CliRunner().invoke(cli.app, ["data", str(recorded), "--plot", str(plot)])
    assert result.exit_code == 0, result.output
    assert plot.read_bytes()[:4] == b"\x89PNG"
    for words in ("20 episodes", "Discrete(2)", "100.0% terminated", "0: "):
        assert words in result.output


def test_a_mistake_is_named() -> None:
    result = CliRunner().invoke(cli.app, ["data", "nothing_there"])
    assert "no such file or folder" in str(result.exception)
