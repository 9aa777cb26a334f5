"""Where a sweep's files lie. All paths are absolute: trials run in other processes."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from experiments.errors import SpecError
from experiments.schema import SweepSpec

SPEC_FILE = "spec.yaml"
BEST_FOLDER = "best"
CURVES_FILE = "learning_curves.png"
EFFECTS_FILE = "effects.png"
LINEAGE_PICTURE = "lineage.png"
PARETO_FILE = "pareto.png"
PARETO_TABLE = "pareto.csv"


def storage_dir(spec: SweepSpec) -> Path:
    """The folder that holds the sweeps' folders and MLflow's database."""
    if "://" in spec.storage:
        raise SpecError(
            f"storage = {spec.storage!r}: remote storage is not supported yet; use a folder"
        )
    return Path(spec.storage).expanduser().absolute()


def sweep_dir(spec: SweepSpec) -> Path:
    """The folder that holds all that the sweep writes."""
    return storage_dir(spec) / spec.name


def tracking_uri(spec: SweepSpec) -> str:
    """The spec's tracking URI, or MLFLOW_TRACKING_URI, or SQLite in the storage folder."""
    uri = spec.mlflow.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        return default_tracking_uri(storage_dir(spec))
    if uri.startswith("sqlite:///"):
        return f"sqlite:///{Path(uri.removeprefix('sqlite:///')).expanduser().absolute()}"
    if urlsplit(uri).scheme == "":
        return Path(uri).expanduser().absolute().as_uri()
    return uri


def default_tracking_uri(storage: Path) -> str:
    """MLflow's database of a storage folder."""
    return f"sqlite:///{storage.absolute() / 'mlflow.db'}"


def artifact_location(spec: SweepSpec) -> str | None:
    """Where MLflow keeps artifacts: beside its database; a server decides for itself."""
    if tracking_uri(spec).startswith("sqlite:"):
        return (storage_dir(spec) / "mlartifacts").as_uri()
    return None
