"""What a run learns from as MLflow datasets: its environment, and recorded data by their digest."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from analysis.names import environment_of
from experiments.tracking.names import as_text

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

logger = logging.getLogger(__name__)

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


def dataset_inputs(config: Mapping[str, Any]) -> list[DatasetInput]:
    """Return the inputs that `client.log_inputs` takes: the environment, then recorded data.

    The contents of files are read for that, the first time.
    """
    environment = environment_dataset(config)
    found = [] if environment is None else [dataset_input(environment)]
    return found + recorded_inputs(config)


def recorded_inputs(config: Mapping[str, Any]) -> list[DatasetInput]:
    """Return the recorded data of a config's `input_` as inputs, each with its digest.

    What cannot be read has no digest to be told by, and is left out: the trial says what is wrong.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    from trainables.core.config.experience import SAMPLER
    from trainables.core.config.recorded.input_shares import parse_input
    from trainables.runtime.offline.inputs import find_source

    given = config.get("input_")
    if given is None:
        return []
    found = []
    try:
        for source, share in parse_input(given).items():
            if source == SAMPLER or callable(source):
                continue
            items = [source] if isinstance(source, str) else list(source)
            data = find_source(items, config.get("input_config"))
            spaces = data.spaces()
            profile: dict[str, Any] = {"share": share, "files": len(data.files)}
            if spaces is not None:
                profile |= {"observation": str(spaces.observation), "action": str(spaces.action)}
            entity = Dataset(
                name=_data_name(items)[:500],
                digest=data.digest()[:36],
                source_type="local" if "://" not in items[0] else items[0].partition("://")[0],
                source=json.dumps({"uri": items[0] if len(items) == 1 else items}),
                profile=json.dumps(profile),
            )
            found.append(DatasetInput(entity, [InputTag(_CONTEXT, "training")]))
    except (ValueError, OSError, ImportError):
        logger.debug("no digest of input_ = %r", given, exc_info=True)
    return found


def _data_name(items: list[str]) -> str:
    """Return the last two parts of a path: what tells recorded data apart."""
    parts = [part for part in items[0].rstrip("/").split("/") if part]
    return "/".join(parts[-2:]) + (f" and {len(items) - 1} more" if len(items) > 1 else "")


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
