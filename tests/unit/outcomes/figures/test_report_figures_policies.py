"""The report of several agents: a curve and a column for each policy, and short names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from analysis_sweeps import make_sweep, row

from analysis.figures import theme
from analysis.figures.policies import returns_by_policy
from analysis.names import returns_of_policies, setting_label
from analysis.overview.overview import ReportData
from analysis.report.tables import leaderboard_table

RETURN = "episode_return_mean"


@pytest.fixture
def data(tmp_path: Path) -> ReportData:
    def trial(number: int) -> dict[str, Any]:
        each = {"a": 2.0, "b": 3.0 + number}
        rows = [
            row(i, 10.0 * number * i, **{f"module/{m}/{RETURN}": i * r for m, r in each.items()})
            for i in (1, 2)
        ]
        lr = {"policies/a/config/lr": 0.1 * number}
        config = {"policies": {"a": {"config": {"lr": 0.1 * number}}}}
        return {"rows": rows, "config": config, "searched": lr}

    return ReportData(make_sweep(tmp_path, {f"t{n}": trial(n) for n in (1, 2)}), RETURN, "max")


def test_each_policy_of_the_best_trial_has_a_curve(data: ReportData) -> None:
    figure = returns_by_policy(data)
    assert isinstance(figure, go.Figure)
    drawn = {trace.name: (trace.x.tolist(), trace.y.tolist()) for trace in figure.data}
    assert drawn == {"a": ([100, 200], [2, 4]), "b": ([100, 200], [5, 10])}
    assert len({trace.line.dash for trace in figure.data}) == 2  # not by colour alone
    assert "trial, t2" in figure.layout.meta["caption"]


def test_each_policy_has_a_column(data: ReportData) -> None:
    table = leaderboard_table(data, 10, {})
    assert table.columns[:6] == ["#", "Trial", "Value", "a", "b", "Best"]
    assert [[cell.text for cell in cells[:6]] for cells in table.rows] == [
        ["1", "t2", "40", "4", "10", "40"],
        ["2", "t1", "20", "4", "8", "20"],
    ]
    assert (
        table.columns[-1] == "a/lr" and "a and b: the return of each policy's agents" in table.note
    )
    assert len(table.columns) == len(table.numeric) == len(table.rows[0])


def test_one_policy_has_neither(tmp_path: Path) -> None:
    rows = [row(1, 1.0, **{f"module/default_policy/{RETURN}": 1.0})]
    one = ReportData(make_sweep(tmp_path, {"t": {"rows": rows}}), RETURN, "max")
    assert returns_by_policy(one) is None
    assert leaderboard_table(one, 10, {}).columns[3] == "Best"


def test_settings_of_a_policy_are_named_in_short() -> None:
    for name, label in (
        ("policies/agent_0/config/lr", "agent_0/lr"),
        ("policies/agent_0/config/model/fcnet_hiddens", "agent_0/model/fcnet_hiddens"),
        ("algorithm_config_overrides_per_module/red/lr", "red/lr"),
        ("env_config/config/lr", "env_config/config/lr"),
        ("lr", "lr"),
    ):
        assert setting_label(name) == label
    assert theme.short("policies/agent_0/config/train_batch_size", 28) == "agent_0/train_batch_size"
    played = [f"evaluation/module/{m}/{RETURN}" for m in "ba"]
    metrics = [f"module/{m}/{RETURN}" for m in "abc"]
    assert list(returns_of_policies([*played, *metrics])) == ["a", "b", "c"]
    assert returns_of_policies([*played, *metrics], "evaluation/") == dict(
        zip("ab", sorted(played), strict=True)
    )
    assert not returns_of_policies(["module/x/episode_len_mean", metrics[0]])
