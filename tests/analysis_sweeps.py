"""Fabricates sweep folders as Tune writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def row(
    iteration: int,
    value: float | None,
    *,
    done: bool = False,
    config: dict | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A result row; `value` None leaves the metric out."""
    metric = {} if value is None else {"episode_return_mean": value}
    steps = {"num_env_steps_sampled_lifetime": 100 * iteration, "time_total_s": 0.5 * iteration}
    given = {} if config is None else {"config": config}
    return {**metric, **steps, "training_iteration": iteration, "done": done, **more, **given}


def make_sweep(root: Path, trials: dict[str, dict[str, Any]], name: str = "sweep") -> Path:
    """A sweep folder; see `add_trial` for what a trial may say."""
    sweep = root / name
    sweep.mkdir()
    data = [[json.dumps(add_trial(sweep, key, trial)), "{}"] for key, trial in trials.items()]
    snapshot = {"trial_data": data, "runner_data": {}, "stats": {}}
    (sweep / "experiment_state-2026-01-01_00-00-00.json").write_text(json.dumps(snapshot))
    return sweep


def add_trial(sweep: Path, name: str, trial: dict[str, Any]) -> dict[str, Any]:
    """Writes a trial's folder (`rows`, `config`) and returns its state (`status`, `searched`)."""
    folder = sweep / f"trial_{name}"
    folder.mkdir()
    config = trial.get("config", {"lr": 0.1})
    (folder / "params.json").write_text(json.dumps(config))
    rows = [{"trial_id": name, "config": config, **r} for r in trial.get("rows", [row(1, 1.0)])]
    (folder / "result.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return {
        "trial_id": name,
        "relative_logdir": folder.name,
        "status": trial.get("status", "TERMINATED"),
        "experiment_tag": trial.get("tag", "1_lr=0.1"),
        "config": config,
        "evaluated_params": trial.get("searched", {}),
    }


def add_checkpoint(
    sweep: Path,
    trial: str,
    index: int,
    *,
    iteration: int | None = None,
    env_steps: int | None = None,
    policy: bool = True,
) -> Path:
    """A checkpoint that says its iteration, or in its policy its steps, or neither."""
    folder = sweep / f"trial_{trial}" / f"checkpoint_{index:06d}"
    inner = folder / "policies" / "default_policy"
    inner.mkdir(parents=True)
    says = {} if iteration is None else {"counters": {"iteration": iteration}}
    (folder / "checkpoint.json").write_text(json.dumps({"format_version": 1, "state": says}))
    if policy:
        metadata = {} if env_steps is None else {"num_env_steps_sampled_lifetime": env_steps}
        content = {"state": {"metadata": metadata}, "from": f"{trial}/{index}"}
        (inner / "policy.json").write_text(json.dumps(content))
        (inner / "weights.safetensors").write_bytes(b"weights")
    return folder


def make_runs(
    root: Path,
    name: str,
    values: list[list[float]],
    *,
    settings: list[dict[str, Any]] | None = None,
    every: int = 100,
    **config: Any,
) -> Path:
    """A grid over ``seed``: for each of ``settings`` a trial for each of ``values``, its curve."""
    trials: dict[str, dict[str, Any]] = {}
    for group, own in enumerate(settings or [{}]):
        for seed, curve in enumerate(values):
            rows = [
                row(i, value, num_env_steps_sampled_lifetime=every * i, time_total_s=0.5 * i)
                for i, value in enumerate(curve, start=1)
            ]
            trials[f"{name}{group}s{seed}"] = {
                "rows": rows,
                "config": {"env": "CartPole-v1", **config, **own, "seed": seed},
            }
    return make_sweep(root, trials, name)
