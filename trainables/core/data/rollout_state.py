"""Rollouts as checkpoints keep them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from trainables.core.data.batch import Rollout
from trainables.core.data.layout import ObservationLayout


def rollout_state(rollout: Rollout, layout: ObservationLayout) -> dict[str, Any]:
    """Return a copy of a rollout that checkpoints keep."""
    columns = {field.name: _copy(getattr(rollout, field.name)) for field in fields(rollout)}
    return columns | {"obs": layout.to_state(rollout.obs)}


def rollout_of_state(state: dict[str, Any], layout: ObservationLayout) -> Rollout:
    """Return the rollout of `rollout_state`."""
    return Rollout(**(state | {"obs": layout.from_state(state["obs"])}))


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: part.copy() for name, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
