"""MLflow's client, imported late: it takes as long to import as a thousand tests to collect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow import MlflowClient


def mlflow_client(uri: str) -> MlflowClient:
    """A client of the store at a tracking URI."""
    from mlflow import MlflowClient

    return MlflowClient(uri)
