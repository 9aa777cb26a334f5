"""How MLflow's UI shows a sweep: its trials only, the objective's column and chart first.

MLflow keeps a shared view as a tag of the experiment, `mlflow.sharedViewState.<key>`, and opens it
by the parameter `viewStateShareKey` of the address. A sweep has one, under its own id. Releases of
MLflow that have a menu of saved views list it there by the sweep's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from analysis.names import ENV_STEPS
from analysis.results.mlflow_tags import OUTCOME_TAG, PARENT_TAG
from analysis.results.rows import flatten
from experiments.tracking.store import accepted_key

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_TAG = "mlflow.sharedViewState."
_MAX_TAG_LENGTH = 5000  # MLflow's limit for an experiment's tag
_MAX_SETTINGS = 12  # columns of settings
_WORKFLOW = {"workflowType": "machine_learning"}  # else the page is that of language models


class VariedSettings:
    """Which parameters differ between the trials of a sweep, as they begin one by one.

    Args:
        fixed: The settings that all trials share; what else they have is searched. Without it
            only what differs counts.
    """

    def __init__(self, fixed: Mapping[str, Any]) -> None:
        self.names: list[str] = []
        self._fixed = frozenset(flatten(fixed))
        self._first: dict[str, str] = {}

    def add(self, params: Mapping[str, str]) -> bool:
        """Take in the parameters of a trial; tell whether `names` has grown."""
        before = len(self.names)
        is_first = not self._first
        if is_first:
            self._first = dict(params)
        for key, value in params.items():
            is_searched = bool(self._fixed) and key != "seed"
            differs = not is_first and self._first.get(key) != value
            if key not in self._fixed and key not in self.names and (is_searched or differs):
                self.names.append(key)
        return len(self.names) > before


def share_view(
    client: MlflowClient,
    experiment_id: str,
    key: str,
    *,
    run_id: str,
    name: str,
    metric: str,
    mode: str,
    settings: Sequence[str],
    created_ms: int,
) -> None:
    """Write a sweep's view as a tag of its experiment, in place of the one there was.

    Args:
        client: MLflow's client.
        experiment_id: The experiment of the sweep's runs.
        key: The key by which the view is opened: the sweep's id.
        run_id: The sweep's run, whose children are shown.
        name: The view's name.
        metric: The objective.
        mode: "max" or "min".
        settings: The parameters that differ between trials, the first ones as columns.
        created_ms: The time when the sweep began, in milliseconds since 1970.
    """
    shown = [accepted_key(setting) for setting in settings[:_MAX_SETTINGS]]
    while True:
        state = view_state(run_id, accepted_key(metric), mode, shown)
        # What MLflow before saved views reads lies beside what it reads now.
        envelope = {"name": name, "createdAt": created_ms, "state": json.dumps(state)}
        for value in (json.dumps({**state, **envelope}), json.dumps(envelope)):
            if len(value) <= _MAX_TAG_LENGTH:
                client.set_experiment_tag(experiment_id, _TAG + key, value)
                return
        if not shown:
            return
        shown.pop()


def view_state(run_id: str, metric: str, mode: str, settings: Sequence[str]) -> dict[str, Any]:
    """Return the state of the page of runs, in MLflow's own terms."""
    section = "objective"
    chart = {
        "uuid": "objective-by-step",
        "type": "LINE",
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "metricSectionId": section,
        "runsCountToCompare": 20,
        "deleted": False,
        "isGenerated": False,
        "xAxisKey": "step",
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "lineSmoothness": 0,
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "selectedXAxisMetricKey": "",
        "range": {},
    }
    charts: list[dict[str, Any]] = [chart]
    if settings:
        charts.append(
            {
                "uuid": "objective-by-setting",
                "type": "PARALLEL",
                "metricSectionId": section,
                "runsCountToCompare": 20,
                "deleted": False,
                "isGenerated": False,
                "selectedParams": list(settings),
                "selectedMetrics": [metric],
                "showAllRuns": False,
            }
        )
    columns = [f"metrics.`{metric}`", *(f"params.`{name}`" for name in settings)]
    columns += [f"metrics.`{ENV_STEPS}`"] if metric != ENV_STEPS else []
    columns.append(f"tags.`{OUTCOME_TAG}`")
    return {
        "searchFilter": f"tags.`{PARENT_TAG}` = '{run_id}'",
        "orderByKey": f"metrics.`{metric}`",
        "orderByAsc": mode == "min",
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
        "columnOrder": [],
        "columnWidths": {},
        "runsExpanded": {},
        "runsPinned": [],
        "runsHidden": [],
        "runsVisibilityMap": {},
        "runsHiddenMode": "FIRST_20_RUNS",
        "compareRunCharts": charts,
        "compareRunSections": [
            {
                "uuid": section,
                "name": "Objective",
                "display": True,
                "isReordered": True,
                "deleted": False,
                "isGenerated": False,
            }
        ],
        "isAccordionReordered": True,  # else the sections are sorted by name
        "viewMaximized": False,
        "runListHidden": False,
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        "groupBy": None,
        "groupsExpanded": {},
        "autoRefreshEnabled": True,
        "globalLineChartConfig": {
            "xAxisKey": "step",
            "lineSmoothness": 0,
            "selectedXAxisMetricKey": "",
        },
    }


def view_path(experiment_id: str, key: str, *, charts: bool = False) -> str:
    """Return the part of an address in MLflow's UI, from `#` on, that opens a view.

    Args:
        experiment_id: The experiment of the sweep's runs.
        key: The view's key.
        charts: Whether it opens on the charts, not on the table.
    """
    asked = {"viewStateShareKey": key, **_WORKFLOW}
    if charts:
        asked["compareRunsMode"] = "CHART"
    return f"#/experiments/{experiment_id}/runs?{urlencode(asked, quote_via=quote)}"
