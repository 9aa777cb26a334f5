"""How MLflow's page shows a sweep: which settings are columns, and a tag within MLflow's limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.tracking.view import VariedSettings, share_view, view_path, view_state

METRIC = "episode_return_mean"


class FakeClient:
    def __init__(self) -> None:
        self.tags: dict[str, str] = {}

    def set_experiment_tag(self, experiment_id: str, key: str, value: str) -> None:
        assert experiment_id == "1"
        self.tags[key] = value


def written(settings: list[str], metric: str = METRIC, mode: str = "max") -> dict[str, Any]:
    client: Any = FakeClient()
    share_view(
        client,
        "1",
        "abc",
        run_id="parent",
        name="my/sweep",
        metric=metric,
        mode=mode,
        settings=settings,
        created_ms=7,
    )
    (key,) = client.tags
    assert key == "mlflow.sharedViewState.abc"
    assert len(client.tags[key]) <= 5000  # MLflow's limit
    return dict(json.loads(client.tags[key]))


def test_the_objective_comes_first() -> None:
    tag = written(["lr", "model.x"])
    state = json.loads(tag["state"])
    assert (tag["name"], tag["createdAt"]) == ("my/sweep", 7)
    assert tag["compareRunCharts"] == state["compareRunCharts"]  # for MLflow without saved views
    assert state["searchFilter"] == "tags.`mlflow.parentRunId` = 'parent'"
    assert (state["orderByKey"], state["orderByAsc"]) == (f"metrics.`{METRIC}`", False)
    assert state["selectedColumns"][:3] == [
        f"metrics.`{METRIC}`",
        "params.`lr`",
        "params.`model.x`",
    ]
    curve, settings = state["compareRunCharts"]
    assert (curve["type"], curve["metricKey"]) == ("LINE", METRIC)
    assert (settings["selectedParams"], settings["selectedMetrics"]) == (
        ["lr", "model.x"],
        [METRIC],
    )
    (section,) = state["compareRunSections"]
    assert {chart["metricSectionId"] for chart in (curve, settings)} == {section["uuid"]}
    assert json.loads(written(["lr"], "loss", "min")["state"])["orderByAsc"] is True


def test_names_are_those_that_mlflow_has() -> None:
    state = json.loads(written(["a(b)"], "eval|mean")["state"])
    assert state["orderByKey"] == "metrics.`eval_mean`" and "params.`a_b_`" in str(state)


def test_without_settings_there_is_one_chart() -> None:
    assert len(view_state("parent", METRIC, "max", [])["compareRunCharts"]) == 1


@pytest.mark.parametrize("length", [10, 240])
def test_many_settings_fit_a_tag(length: int) -> None:
    tag = written([f"{number:02}{'x' * length}" for number in range(40)])
    columns = json.loads(tag["state"])["selectedColumns"]
    assert sum(name.startswith("params.") for name in columns) >= 4


def test_addresses() -> None:
    assert view_path("3", "abc") == (
        "#/experiments/3/runs?viewStateShareKey=abc&workflowType=machine_learning"
    )
    assert view_path("3", "abc", charts=True).endswith("&compareRunsMode=CHART")


def test_settings_beside_the_fixed_ones_are_searched() -> None:
    varied = VariedSettings({"env": "CartPole-v1", "model": {"x": 1}})
    assert varied.add({"env": "CartPole-v1", "model/x": "1", "lr": "0.1", "seed": "1"})
    assert varied.names == ["lr"]
    assert not varied.add({"env": "CartPole-v1", "model/x": "1", "lr": "0.2", "seed": "1"})
    assert varied.add({"env": "CartPole-v1", "lr": "0.2", "seed": "2", "kl": "1"})  # conditional
    assert varied.names == ["lr", "seed", "kl"]


def test_without_fixed_ones_what_differs_is_searched() -> None:
    varied = VariedSettings({})
    assert not varied.add({"env": "x", "lr": "0.1"})
    assert varied.add({"env": "x", "lr": "0.2"}) and varied.names == ["lr"]
