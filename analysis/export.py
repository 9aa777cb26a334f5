"""Hands over the best policy of a sweep as a folder of its own."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.best import BestCheckpoint, best_checkpoint
from analysis.records import ENV_STEPS, ITERATION, POLICY, Sweep
from analysis.rows import ResultsError, read_json

if TYPE_CHECKING:
    from ray.tune import ResultGrid


def export_best(
    results: ResultGrid | Sweep | str | Path,
    out_dir: str | Path,
    metric: str = "episode_return_mean",
    mode: str = "max",
) -> Path:
    """Copies the policy of the best checkpoint (see `best_checkpoint`) to ``out_dir``.

    The folder can be moved anywhere: ``Policy.load(out_dir)`` needs neither Ray nor the
    environment. ``export.json`` in it says where it comes from: sweep, trial, metric, value,
    iteration, steps and config. The folder is there whole or not at all; an exported policy that is
    there already is replaced, anything else never.

    Args:
        results: A ``ResultGrid`` or the path of a sweep folder.
        out_dir: The folder to create.
        metric: The flat name of the metric.
        mode: ``"max"`` or ``"min"``.

    Returns:
        The absolute path of the exported policy.

    Raises:
        ResultsError: There is no checkpoint to choose, it holds no policy, or ``out_dir`` is
            something else.
    """
    target = Path(out_dir).expanduser().resolve()
    _require_replaceable(target)
    return export_checkpoint(best_checkpoint(results, metric, mode), target, metric, mode)


def export_checkpoint(
    best: BestCheckpoint,
    out_dir: str | Path,
    metric: str,
    mode: str,
    *,
    said: Mapping[str, Any] | None = None,
) -> Path:
    """Like `export_best`, of a checkpoint that was chosen otherwise.

    Args:
        best: The checkpoint.
        out_dir: The folder to create.
        metric: What it was chosen by.
        mode: ``"max"`` or ``"min"``.
        said: More that ``export.json`` is to say of it.
    """
    target = Path(out_dir).expanduser().resolve()
    _require_replaceable(target)
    source = best.path / POLICY
    if not isinstance(read_json(source / "policy.json"), dict):
        raise ResultsError(
            f"{best.path}: it holds no policy ({POLICY}/policy.json is missing or damaged)"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the rename stays within one file system.
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ResultsError(f"{target}: cannot write there ({error.strerror or error})") from error
    try:
        new = work / "new"
        shutil.copytree(source, new)
        whence = {**_provenance(best, metric, mode), **(said or {})}
        provenance = json.dumps(whence, indent=2, allow_nan=False)
        (new / "export.json").write_text(provenance + "\n", encoding="utf-8")
        if target.exists():
            os.replace(target, work / "old")
        try:
            os.replace(new, target)
        except OSError:
            if (work / "old").exists():
                os.replace(work / "old", target)
            raise
    except OSError as error:
        raise ResultsError(f"{target}: cannot write there ({error.strerror or error})") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _require_replaceable(target: Path) -> None:
    if not os.path.lexists(target) or (target / "policy.json").is_file():
        return
    if target.is_dir() and not any(target.iterdir()):
        return
    what = "a folder that is no policy" if target.is_dir() else "a file"
    raise ResultsError(f"{target}: {what} is there already and left alone; choose another folder")


def _provenance(best: BestCheckpoint, metric: str, mode: str) -> dict[str, Any]:
    several = {"seed": _plain(best.metrics["median_seed"])} if "median_seed" in best.metrics else {}
    return {
        "sweep": best.sweep,
        "trial_id": best.trial.trial_id,
        "checkpoint": f"{best.path.parent.name}/{best.path.name}",
        "metric": metric,
        "mode": mode,
        "value": best.value,
        ITERATION: _plain(best.metrics.get(ITERATION)),
        ENV_STEPS: _plain(best.metrics.get(ENV_STEPS)),
        **several,  # of several seeds the policy is the median one's
        "config": _plain(best.metrics.get("config") or best.trial.config),
    }


def _plain(value: Any) -> Any:
    """``value`` as strict JSON holds it: numpy scalars as numbers, NaN as null, else text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
