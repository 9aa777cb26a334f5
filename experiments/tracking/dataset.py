"""The environment of a run as an MLflow dataset: its id, its version, and what made it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from analysis.names import environment_of
from experiments.tracking.names import as_text

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

_VERSION = re.compile(r"-v(\d+)$")
_CONTEXT = "mlflow.data.context"


def environment_dataset(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what identifies the environment of a config, or None if it names none.

    Where training steps none it is that of evaluations.

    Keys: `environment`, `version` (of a gymnasium id: the `1` of `CartPole-v1`), `env_config`, and
    the version of each package that brings the environment.
    """
    env = environment_of(config)
    if env is None:
        return None
    if config.get("env") is None:  # that of evaluations
        config = config["evaluation_config"]
    name = as_text(env)
    found: dict[str, Any] = {"environment": name}
    version = _VERSION.search(name)
    if version:
        found["version"] = version.group(1)
    if config.get("env_config"):
        found["env_config"] = json.loads(json.dumps(config["env_config"], default=as_text))
    packages = ["envpool"] if name.startswith("envpool:") else ["gymnasium"]
    packages += ["ale-py"] if name.startswith("ALE/") else []
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def dataset_input(dataset: Mapping[str, Any]) -> DatasetInput:
    """Return the input that `client.log_inputs` takes, of what `environment_dataset` found.

    The digest tells datasets apart: the same environment with another version, setting or package
    is another dataset.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    text = json.dumps(dataset, sort_keys=True)
    entity = Dataset(
        name=dataset["environment"][:500],
        digest=hashlib.sha256(text.encode()).hexdigest()[:8],
        source_type="code",  # made by a program, not loaded from a place
        source=json.dumps({"tags": {key: as_text(value) for key, value in dataset.items()}}),
        profile=text,
    )
    return DatasetInput(entity, [InputTag(_CONTEXT, "training")])
