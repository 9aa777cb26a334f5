"""Whole metric histories of many MLflow runs, in as few requests as the store allows.

MLflow's client reads one metric of one run at a time: 40,000 requests for a sweep of a thousand
trials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_RUNS_A_QUERY = 20
_RUNS_A_REQUEST = 100
_POINTS_A_REQUEST = 25_000
_BULK = "/ajax-api/2.0/mlflow/metrics/get-history-bulk"
"""The server's own way; its UI uses it."""


class Point(NamedTuple):
    """A value of a metric, when it was reported (milliseconds) and at which step."""

    key: str
    value: float
    timestamp: int
    step: int


def histories(
    client: MlflowClient, metrics: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, list[Point]]]:
    """Return every run's points, by run.

    A database is asked once for some runs, a server once for each metric of some runs; any other
    store once for each metric of each run.

    Args:
        client: A client of the store.
        metrics: The names of the metrics of each run, by run id.
    """
    store: Any = client._tracking_client.store  # the client itself offers no bulk reading
    read = _from_client
    if hasattr(store, "ManagedSessionMaker"):
        read = _from_database
    elif hasattr(store, "get_host_creds") and _is_served(store):
        read = _from_server
    yield from read(client, metrics)


def _from_database(
    client: Any, metrics: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, list[Point]]]:
    from mlflow.store.tracking.dbmodels.models import SqlMetric

    row: Any = SqlMetric
    columns = (row.run_uuid, row.key, row.value, row.timestamp, row.step)
    for run_ids in _groups(list(metrics), _RUNS_A_QUERY):
        points: dict[str, list[Point]] = {run_id: [] for run_id in run_ids}
        with client._tracking_client.store.ManagedSessionMaker() as session:
            # Columns, not MLflow's objects: those take ten times as long to make.
            query = session.query(*columns).filter(row.run_uuid.in_(run_ids), ~row.is_nan)
            for run_id, *point in query:
                points[run_id].append(Point(*point))
        yield from points.items()


def _from_server(
    client: Any, metrics: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, list[Point]]]:
    for run_ids in _groups(list(metrics), _RUNS_A_REQUEST):
        points: dict[str, list[Point]] = {run_id: [] for run_id in run_ids}
        holders: dict[str, list[str]] = defaultdict(list)
        for run_id in run_ids:
            for name in metrics[run_id]:
                holders[name].append(run_id)
        for name, ids in holders.items():
            for run_id, point in _served(client, ids, name):
                points[run_id].append(point)
        yield from points.items()


def _served(client: Any, run_ids: list[str], name: str) -> Iterator[tuple[str, Point]]:
    """Return one metric of some runs; of fewer at a time if the server cuts its answer."""
    found = _request(client._tracking_client.store, run_ids, name).json()["metrics"]
    if len(found) < _POINTS_A_REQUEST:
        for each in found:
            yield each["run_id"], Point(name, each["value"], each["timestamp"], each["step"])
    elif len(run_ids) > 1:
        middle = len(run_ids) // 2
        yield from _served(client, run_ids[:middle], name)
        yield from _served(client, run_ids[middle:], name)
    else:
        for _, points in _from_client(client, {run_ids[0]: [name]}):
            yield from ((run_ids[0], point) for point in points)


def _request(store: Any, run_ids: Sequence[str], name: str) -> Any:
    from mlflow.utils.rest_utils import http_request

    params = [("run_id", run_id) for run_id in run_ids]
    params += [("metric_key", name), ("max_results", str(_POINTS_A_REQUEST))]
    return http_request(store.get_host_creds(), _BULK, "GET", params=params)


def _is_served(store: Any) -> bool:
    """Tell whether the server has the bulk reading; not every server is MLflow's own."""
    answer = _request(store, ["0" * 32], "none")
    return bool(answer.status_code == 200 and isinstance(answer.json().get("metrics"), list))


def _from_client(
    client: Any, metrics: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, list[Point]]]:
    for run_id, names in metrics.items():
        found = [m for name in names for m in client.get_metric_history(run_id, name)]
        yield run_id, [Point(m.key, m.value, m.timestamp, m.step) for m in found]


def _groups(items: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
