"""Sweeps in memory whose trials' values are a known function of their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.results.records import Sweep, TrialRecord

RETURN = "episode_return_mean"
Draw = Callable[[np.random.Generator], Any]


def uniform(rng: np.random.Generator) -> float:
    """From (0, 1)."""
    return float(rng.uniform())


def log_uniform(rng: np.random.Generator) -> float:
    """From 1e-5 to 1e-1."""
    return float(10 ** rng.uniform(-5, -1))


def trial(number: int, config: dict[str, Any], values: list[float], **more: Any) -> TrialRecord:
    """A trial that reports a value every 100 env steps."""
    rows = range(1, len(values) + 1)
    steps = [100 * row for row in rows]
    columns = {"training_iteration": rows, "num_env_steps_sampled_lifetime": steps, RETURN: values}
    fields = {"status": "TERMINATED", "searched": (), **more}
    return TrialRecord(
        f"t{number}", Path(f"t{number}"), config=config, frame=pd.DataFrame(columns), **fields
    )


def sweep_of(
    objective: Callable[[dict[str, Any]], float],
    draws: Mapping[str, Draw],
    *,
    trials: int = 60,
    noise: float = 0.1,
    seed: int = 0,
    path: Path = Path("no-such-folder"),
) -> Sweep:
    """A random search over ``draws``."""
    rng = np.random.default_rng(seed)
    records = []
    for number in range(trials):
        config = {name: draw(rng) for name, draw in draws.items()}
        config = {name: value for name, value in config.items() if value is not None}
        value = objective(config) + noise * float(rng.normal())
        records.append(trial(number, config, [value]))
    return Sweep("planted", path, records)
