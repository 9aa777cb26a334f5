"""The policy that a folder stands for, written in a format that runs elsewhere."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.errors import ExperimentError
from experiments.paths import BEST_FOLDER, SPEC_FILE, shown_path
from search_spaces.documents import nearest

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.export import Writer

FORMATS = ("policy", "torch", "onnx", "mlflow")


def export_policy(
    folder: Path,
    output: Path | None = None,
    *,
    format: str = "policy",
    metric: str | None = None,
    mode: str | None = None,
    checkpoint: Path | None = None,
    opset: int | None = None,
    trust: Collection[str] = (),
) -> Path:
    """Write a policy to a folder of its own.

    Args:
        folder: A sweep (its best checkpoint), a trial, a checkpoint or an exported policy.
        output: The folder to write; of a sweep by default `best`, or `best-<format>`, in it.
        format: One of `FORMATS`, see `analysis.export_best`; "mlflow" is a model's folder for
            `mlflow models serve`.
        metric: What the sweep's best is best by; by default its objective.
        mode: "max" or "min".
        checkpoint: Of the sweep, instead of the best: `<trial>/checkpoint_<number>`.
        opset: Version of ONNX's operators.
        trust: Code that the policy names and that may be imported, as `module:name`.

    Returns:
        The absolute path of the folder.

    Raises:
        ExperimentError: An option is unknown or has no effect, or there is no such folder.
        ResultsError: There is no policy, or the output is something else.
        ConfigError: The policy cannot be written in this format, or a library is missing.
    """
    from analysis import export_best
    from analysis.export import export_folder, writer_of
    from experiments.policy_sources import find_policy
    from trainables.core.exported_policy import is_exported

    if format not in FORMATS:
        raise ExperimentError(
            f"--format {format} is unknown; known: {', '.join(FORMATS)}{nearest(format, FORMATS)}"
        )
    writer: str | Writer = _mlflow_writer(trust) if format == "mlflow" else format
    is_sweep = (folder.expanduser() / SPEC_FILE).is_file()
    if checkpoint is not None and (metric or mode):
        raise ExperimentError("--metric and --mode choose a checkpoint: leave out --checkpoint")
    if not is_sweep and (metric or mode or checkpoint):
        raise ExperimentError(
            f"{folder} is no sweep: --metric, --mode and --checkpoint choose among a sweep's "
            "checkpoints"
        )
    if is_sweep:
        folder = folder.expanduser()
        output = output or folder / (BEST_FOLDER if format == "policy" else f"best-{format}")
    if is_sweep and checkpoint is None and output is not None:
        objective = _objective(folder, metric, mode)
        return export_best(folder, output, *objective, format=writer, opset=opset, trust=trust)
    source = find_policy(folder if checkpoint is None else _inside(folder, checkpoint))
    if is_exported(source.folder):
        raise ExperimentError(
            f"{folder} is a graph already; other formats are made of the policy that it is of"
        )
    if output is None:
        raise ExperimentError(f"{folder} is no sweep: say where to write its policy with -o")
    write = writer_of(writer, opset=opset, trust=trust)
    return export_folder(source.folder, output, _whence(source.folder, source.chosen), write)


def show_export(target: Path, console: Console) -> None:
    """Say where the policy is, and on what its graph was compared with it."""

    def line(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    line(f"Exported to {shown_path(target)}")
    for file in sorted(target.glob("*.json")):
        said = json.loads(file.read_text(encoding="utf-8"))
        if "verified" not in said:
            continue
        verified: dict[str, Any] = said["verified"]
        counts = [f"{count} of {source}" for source, count in verified["observations"].items()]
        worst = max(
            (d for n, d in verified["max_difference"].items() if n.partition("/")[0] == "action"),
            default=0.0,
        )
        line(
            f"{file.stem} acts as the policy does on observations sampled and played "
            f"({' and '.join(counts)}): actions differ by at most {worst:.1e}"
        )


def _objective(folder: Path, metric: str | None, mode: str | None) -> tuple[str, str]:
    from experiments.metrics import canonical_metric
    from experiments.runner import load_sweep_spec

    objective = load_sweep_spec(folder).objective
    return canonical_metric(metric) if metric else objective.metric, mode or objective.mode


def _inside(folder: Path, checkpoint: Path) -> Path:
    """A checkpoint of a sweep, named as in `export.json` or by any path."""
    inside = folder / checkpoint
    if inside.is_dir() or checkpoint.expanduser().is_dir():
        return inside if inside.is_dir() else checkpoint.expanduser()
    names = [f"{p.parent.name}/{p.name}" for p in sorted(folder.glob("*/checkpoint_*"))]
    raise ExperimentError(
        f"--checkpoint {checkpoint}: there is no such folder in {folder}"
        + nearest(str(checkpoint), names)
        if names
        else f"--checkpoint {checkpoint}: {folder} has no checkpoints"
    )


def _whence(policy_folder: Path, chosen: str) -> dict[str, Any]:
    """What `export.json` says: what it said before, or which checkpoint it was."""
    from analysis.records import POLICY

    try:
        said = json.loads((policy_folder / "export.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        said = None
    if isinstance(said, dict):
        return said
    parts = policy_folder.resolve().parts
    depth = len(Path(POLICY).parts)
    is_in_checkpoint = parts[-depth:] == Path(POLICY).parts
    named = "/".join(parts[-depth - 2 : -depth] if is_in_checkpoint else parts[-1:])
    return {"checkpoint" if is_in_checkpoint else "policy": named} | (
        {"chosen": chosen} if chosen else {}
    )


def _mlflow_writer(trust: Collection[str]) -> Writer:
    if trust:
        raise ExperimentError("--trust has no effect with --format mlflow: its models load no code")
    from experiments.mlflow_model import export_mlflow

    return export_mlflow
