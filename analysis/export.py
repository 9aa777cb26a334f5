"""Hands over the best policy of a sweep as a folder of its own."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.home import expanded
from analysis.names import ENV_STEPS, ITERATION
from analysis.ranking.best import BestCheckpoint, best_checkpoint
from analysis.results.checkpoints import is_of_policy, policy_folders
from analysis.results.records import POLICY, Sweep
from analysis.results.rows import ResultsError, read_json
from trainables.core.own_folders import note_copy

if TYPE_CHECKING:
    from ray.tune import ResultGrid


Writer = Callable[[Path, Path], object]
"""Writes the policy of a folder (the first path) as something else, in a folder that it makes."""

# A folder with one of these was written by an export, and may be replaced by one.
_MARKS = ("policy.json", "policy.onnx.json", "model.pt2.json", "MLmodel")
# A folder with one of these is a checkpoint: of a trial, or of one with several seeds.
_CHECKPOINT_FILES = ("checkpoint.json", "seeds.json")


def export_best(
    results: ResultGrid | Sweep | str | Path,
    out_dir: str | Path,
    metric: str = "episode_return_mean",
    mode: str = "max",
    *,
    format: str | Writer = "policy",
    opset: int | None = None,
    trust: Collection[str] = (),
    policy_id: str | None = None,
) -> Path:
    """Write the policy of the best checkpoint (see `best_checkpoint`) to `out_dir`.

    The folder can be moved anywhere. `export.json` in it says where it comes from: sweep, trial,
    metric, value, iteration, steps and config. The folder is there whole or not at all; an exported
    policy of the same format that is there already is replaced, anything else never.

    Of several policies each is written to a folder of its id in `out_dir`, and `export.json` beside
    these names them under `policies`.

    Args:
        results: A `ResultGrid` or the path of a sweep folder.
        out_dir: The folder to create.
        metric: The flat name of the metric.
        mode: `"max"` or `"min"`.
        format: `"policy"`, a folder for `Policy.load`, which needs neither Ray nor the
            environment; `"torch"`, a `torch.export` program, or `"onnx"`: a graph from raw
            observations to actions, compared with the policy first. For MLflow give
            `experiments.tracking.model.export_mlflow`, or another function of that kind.
        opset: Version of ONNX's operators.
        trust: Code that the policy names and that may be imported, for `"torch"` and `"onnx"`;
            other formats import none, and refuse it.
        policy_id: Of several policies the one to write, to `out_dir` itself; None: all.

    Returns:
        The absolute path of the folder.

    Raises:
        ResultsError: There is no checkpoint to choose, it holds no policy, or `out_dir` is
            something else.
        ConfigError: The policy cannot be written in this format, or a library is missing.

    Example:
        >>> results = tuner.fit()
        >>> export_best(results, "policy")
        >>> export_best(results, "policy_onnx", format="onnx")
    """
    target = expanded(out_dir).resolve()
    _require_replaceable(target)
    best = best_checkpoint(results, metric, mode)
    return export_checkpoint(
        best,
        target,
        metric,
        mode,
        format=format,
        opset=opset,
        trust=trust,
        policy_id=policy_id,
    )


def export_checkpoint(
    best: BestCheckpoint,
    out_dir: str | Path,
    metric: str,
    mode: str,
    *,
    said: Mapping[str, Any] | None = None,
    format: str | Writer = "policy",
    opset: int | None = None,
    trust: Collection[str] = (),
    policy_id: str | None = None,
) -> Path:
    """Export a checkpoint that was chosen otherwise; see `export_best`.

    Args:
        best: The checkpoint.
        out_dir: The folder to create.
        metric: What it was chosen by.
        mode: `"max"` or `"min"`.
        said: More that `export.json` is to say of it.
        format: See `export_best`.
        opset: See `export_best`.
        trust: See `export_best`.
        policy_id: See `export_best`.
    """
    whence = {**_provenance(best, metric, mode), **(said or {})}
    write = writer_of(format, opset=opset, trust=trust)
    folders = policy_folders(best.path)
    if policy_id is not None:
        folders = {policy_id: chosen_policy(folders, policy_id, best.path)}
    if policy_id is not None or {*folders} <= {POLICY.name}:
        only = next(iter(folders.values()), best.path / POLICY)  # a damaged one is told of
        return export_folder(only, out_dir, whence, write)
    return export_folders(folders, out_dir, whence, write)


def chosen_policy(folders: Mapping[str, Path], policy_id: str, where: Path) -> Path:
    """Return the folder of one of several policies.

    Args:
        folders: By policy id.
        policy_id: Which one.
        where: What holds them, for errors.

    Raises:
        ResultsError: There is none of this id.
    """
    if policy_id not in folders:
        raise ResultsError(
            f"{where} holds no policy {policy_id!r}; allowed: {', '.join(folders) or 'none'}"
        )
    return folders[policy_id]


def export_folders(
    folders: Mapping[str, Path],
    out_dir: str | Path,
    whence: Mapping[str, Any],
    write: Writer | None = None,
) -> Path:
    """Export several policies, each to a folder of its id; see `export_best`.

    Args:
        folders: Folders with a `policy.json`, by policy id.
        out_dir: The folder to create.
        whence: What each `export.json` is to say.
        write: See `writer_of`.
    """
    for folder in folders.values():
        _require_policy(folder)

    def stage(work: Path) -> Path:
        new = work / "policies"
        for policy_id, folder in folders.items():
            own = work / f"of {policy_id}"
            own.mkdir()
            staged = _staged(folder, own, {**whence, "policy_id": policy_id}, write)
            new.mkdir(exist_ok=True)
            staged.rename(new / policy_id)
        said = json.dumps({**whence, "policies": [*folders]}, indent=2, allow_nan=False) + "\n"
        (new / "export.json").write_text(said, encoding="utf-8")
        return new

    target = _replaced(out_dir, folders.values(), stage)
    for policy_id, folder in folders.items():
        note_copy(folder, target / policy_id)
    return target


def export_folder(
    policy_folder: Path, out_dir: str | Path, whence: Mapping[str, Any], write: Writer | None = None
) -> Path:
    """Export the folder of a policy; see `export_best`.

    Args:
        policy_folder: A folder with a `policy.json`.
        out_dir: The folder to create.
        whence: What `export.json` is to say.
        write: See `writer_of`.
    """
    _require_policy(policy_folder)
    target = _replaced(
        out_dir, [policy_folder], lambda work: _staged(policy_folder, work, whence, write)
    )
    note_copy(policy_folder, target)
    return target


def _require_policy(policy_folder: Path) -> None:
    if isinstance(read_json(policy_folder / "policy.json"), dict):
        return
    checkpoint = _checkpoint_of(policy_folder)
    if checkpoint.is_dir() and not is_of_policy(checkpoint):
        raise ResultsError(
            f"{checkpoint}: it holds no policy to export: your own trainable leaves checkpoints, "
            "which only its code reads"
        )
    inside = Path(*policy_folder.parts[-len(POLICY.parts) :])
    raise ResultsError(
        f"{checkpoint}: it holds no policy ({inside}/policy.json is missing or damaged)"
    )


def _replaced(out_dir: str | Path, sources: Iterable[Path], stage: Callable[[Path], Path]) -> Path:
    """Put what is staged in place of `out_dir`, whole or not at all.

    Args:
        out_dir: The folder to create.
        sources: What is exported.
        stage: Writes it into a folder of a working folder.
    """
    target = expanded(out_dir).resolve()
    _require_replaceable(target)
    for source in sources:
        _require_apart(target, source.resolve())
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the rename stays within one file system.
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ResultsError(f"{target}: cannot write there ({error.strerror or error})") from error
    try:
        new = stage(work)
        _require_same_format(target, new)
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


def writer_of(
    format: str | Writer, *, opset: int | None = None, trust: Collection[str] = ()
) -> Writer | None:
    """Return what writes a format; None copies the policy as it is.

    Raises:
        ResultsError: It is unknown, or an option has no effect on it.
    """
    if format in ("torch", "onnx"):

        def write(policy_folder: Path, target: Path) -> object:
            from trainables.lifecycle.exporting import write_graph

            return write_graph(policy_folder, target, str(format), opset=opset, trust=trust)

        if opset is not None and format != "onnx":
            raise ResultsError(f"opset = {opset} has no effect on the format {format!r}")
        return write
    if opset is not None:
        raise ResultsError(f"opset = {opset} has no effect on the format {format!r}")
    if trust and (callable(format) or format == "policy"):
        named = getattr(format, "__name__", format)
        raise ResultsError(f"trust = {[*trust]} has no effect on the format {named!r}")
    if callable(format):
        return format
    if format != "policy":
        raise ResultsError(
            f"format = {format!r} is unknown; known: 'policy', 'torch', 'onnx', or a function such "
            "as experiments.tracking.model.export_mlflow"
        )
    return None


def _staged(
    policy_folder: Path, work: Path, whence: Mapping[str, Any], write: Writer | None
) -> Path:
    """Return the folder that becomes the target."""
    policy, new = work / "policy", work / "new"
    shutil.copytree(policy_folder, policy)
    provenance = json.dumps(whence, indent=2, allow_nan=False) + "\n"
    (policy / "export.json").write_text(provenance, encoding="utf-8")
    if write is None:
        return policy
    write(policy, new)
    (new / "export.json").write_text(provenance, encoding="utf-8")
    return new


def _checkpoint_of(policy_folder: Path) -> Path:
    """Return the checkpoint that a policy's folder lies in, or the folder itself."""
    is_inside = policy_folder.parent.name == POLICY.parent.name
    return policy_folder.parent.parent if is_inside else policy_folder


def _marks(folder: Path) -> set[str]:
    """Return which formats' files a folder has, or the folders of several policies in it."""
    return {
        mark
        for mark in _MARKS
        if (folder / mark).is_file() or (_is_of_several(folder) and any(folder.glob(f"*/{mark}")))
    }


def _is_of_several(folder: Path) -> bool:
    said = read_json(folder / "export.json")
    return isinstance(said, dict) and isinstance(said.get("policies"), list)


def _require_replaceable(target: Path) -> None:
    if not os.path.lexists(target) or _marks(target):
        return
    if target.is_dir() and not any(target.iterdir()):
        return
    what = "a folder that is no policy" if target.is_dir() else "a file"
    raise ResultsError(f"{target}: {what} is there already and left alone; choose another folder")


def _require_apart(target: Path, source: Path) -> None:
    """Refuse to write over what is exported, or into a checkpoint, whose policy would be lost."""
    if target == source or target in source.parents or source in target.parents:
        where = "is" if target == source else "holds" if target in source.parents else "lies in"
        raise ResultsError(
            f"{target} {where} the policy that is to be exported, {source}; choose another folder"
        )
    for folder in (target, *target.parents):
        if any((folder / name).is_file() for name in _CHECKPOINT_FILES):
            raise ResultsError(
                f"{target}: {folder} is a checkpoint, which stays as it is; choose another folder"
            )


def _require_same_format(target: Path, new: Path) -> None:
    """Refuse to replace a policy by a graph of it, say: there would be no way back."""
    lost = sorted(_marks(target) - _marks(new))
    if lost:
        raise ResultsError(
            f"{target}: an export of another format ({', '.join(lost)}) is there already and left "
            "alone; choose another folder"
        )


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
    """Return `value` as strict JSON holds it: numpy scalars as numbers, NaN as null, else text."""
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
