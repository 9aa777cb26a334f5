"""What things are called in MLflow: tags, artifacts, parameters, and where a sweep came from."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, TypeGuard

from analysis.results.mlflow_tags import (
    NUM_HOSTS_TAG,
    NUM_PLACES_TAG,
    SPEC_TAG,
    VERSION_TAGS,
)
from analysis.results.rows import flatten
from experiments.provenance import git_commit, package_versions, user_name

BEST_ARTIFACT = "best_policy"

_MAX_RUN_NAME = 40  # characters

FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"


def provenance_tags(spec_path: str | None) -> dict[str, str]:
    """Return the tags that say which code, versions and user produced a run."""
    tags = {f"{VERSION_TAGS}{name}": v for name, v in package_versions().items()}
    tags["mlflow.source.name"] = os.path.basename(spec_path) if spec_path else "tunescape"
    tags["mlflow.source.type"] = "LOCAL"
    commit = git_commit()
    if commit:
        tags["mlflow.source.git.commit"] = commit
    user = user_name()
    if user:
        tags["mlflow.user"] = user
    if spec_path:
        tags[SPEC_TAG] = os.path.basename(spec_path)
    return tags


def hosting_tags(num_hosts: int, num_places: int) -> dict[str, str]:
    """Return the tags that say how trials share processes.

    Args:
        num_hosts: How many processes there are.
        num_places: How many trials they have at a time, together.
    """
    return {NUM_HOSTS_TAG: str(num_hosts), NUM_PLACES_TAG: str(num_places)}


def as_params(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a config as MLflow's parameters: flat, and text."""
    return {key: as_text(value) for key, value in flatten(config).items()}


def run_name(trial_id: str, params: Mapping[str, str], fixed: Mapping[str, Any]) -> str:
    """Return what a trial's run is called: its id, and the first settings that were searched.

    Pages that compare runs show their names only.

    Args:
        trial_id: The trial.
        params: Its settings as parameters.
        fixed: The settings that all trials share.

    Example:
        >>> run_name("a12b1499", {"env": "Pong", "lr": "0.00031234", "gamma": "0.99"}, {"env": 1})
        'a12b1499 lr=0.000312 gamma=0.99'
    """
    name = trial_id
    searched = [key for key in params if key not in flatten(fixed)]
    for key in sorted(searched, key=lambda key: key == "seed"):
        value = params[key]
        longer = f"{name} {key.rpartition('/')[2]}={_short(value)}"
        if len(longer) > _MAX_RUN_NAME:
            break
        name = longer
    return name


def _short(value: str) -> str:
    try:
        return f"{float(value):.3g}"
    except ValueError:
        return value


def as_text(value: Any) -> str:
    """Return a setting as MLflow shows it: callables by name, containers as JSON."""
    if isinstance(value, str):
        return value
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', '?')}:{name}"
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, default=as_text)
    return str(value)


def is_number(value: Any) -> TypeGuard[float]:
    """Tell whether a value can be a metric."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def timestamp_ms(result: Mapping[str, Any]) -> int:
    """Return when a result was made; the same result logged twice is then the same point."""
    return int(1000 * float(result.get("timestamp") or time.time()))
