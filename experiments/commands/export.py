"""`tunescape export`: write the best policy of a sweep, or another one."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.home import expanded
from experiments.commands import shell
from experiments.errors import ExperimentError
from experiments.spec.paths import BEST_FOLDER, FINAL_FILE, SPEC_FILE, shown_path
from experiments.terminal import say
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from rich.console import Console

    from analysis.export import Writer


FORMATS = ("policy", "torch", "onnx", "mlflow")


def export(
    folder: Annotated[
        Path,
        typer.Argument(help="A sweep (its best/), a trial, a checkpoint or a policy."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder to write; default: best/ or best-FORMAT in the sweep."
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="policy (a folder for Policy.load), torch or onnx (a graph from observations to "
            "actions), or mlflow (a model to serve)."
        ),
    ] = "policy",
    metric: Annotated[
        str | None,
        typer.Option(help="Choose the sweep's best checkpoint by this metric; needs -o."),
    ] = None,
    mode: Annotated[str | None, typer.Option(help="max or min; needs -o.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Export this checkpoint: TRIAL/checkpoint_000001; needs -o."),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="Version of the ONNX operators.")] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="For torch and onnx: code that may be imported, as module:name."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Id of the policy to export, of several; needs -o.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an export of another sweep.")
    ] = False,
) -> None:
    """Export the best policy of a sweep, or another policy."""
    target = export_policy(
        folder,
        output,
        format=format,
        metric=metric,
        mode=mode,
        checkpoint=checkpoint,
        opset=opset,
        trust=trust or (),
        policy_id=policy,
        overwrite=overwrite,
    )
    show_export(target, shell.output())


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
    policy_id: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a policy to a folder of its own; of several each to one of its id in it.

    Args:
        folder: A sweep, a trial, a checkpoint or an exported policy. A sweep stands for its `best/`
            (with `final` the winner's policy), as it does for `tunescape evaluate`, or for its best
            checkpoint as long as it has none. That of a sweep without `final` is written anew
            where it is the output.
        output: The folder to write; of a sweep by default `best`, or `best-<format>`, in it. What
            is chosen by `metric`, `mode` or `checkpoint` needs a place of its own.
        format: One of `FORMATS`, see `analysis.export_best`; "mlflow" is a model's folder for
            `mlflow models serve`.
        metric: Choose by this among all checkpoints of the sweep.
        mode: "max" or "min".
        checkpoint: A checkpoint of the sweep, not the best: `<trial>/checkpoint_<number>`.
        opset: Version of ONNX's operators.
        trust: Code that the policy names and that may be imported, as `module:name`.
        policy_id: Of several policies the one to write, to the output folder itself; None: all.
        overwrite: Whether the policy of another sweep that is there already is replaced, as one of
            the same sweep is.

    Returns:
        The absolute path of the folder.

    Raises:
        ExperimentError: An option is unknown or has no effect, or there is no such folder.
        ResultsError: There is no policy, or the output is something else, or what is exported.
        ConfigError: The policy cannot be written in this format, or a library is missing.
    """
    from analysis.export import (
        chosen_policy,
        export_best,
        export_folder,
        export_folders,
        writer_of,
    )
    from analysis.results.load import is_sweep_folder
    from experiments.commands.evaluation.policy_sources import find_policy, objective_of
    from experiments.spec.metrics import canonical_metric
    from trainables.core.export.exported_policy import is_exported

    if format not in FORMATS:
        raise ExperimentError(
            f"--format {format} is unknown; known: {', '.join(FORMATS)}"
            + suggestion(format, FORMATS)
        )
    writer: str | Writer = _mlflow_writer(trust) if format == "mlflow" else format
    folder = expanded(folder)
    is_sweep = (folder / SPEC_FILE).is_file() or is_sweep_folder(folder)
    if checkpoint is not None and (metric or mode):
        raise ExperimentError("--metric and --mode choose a checkpoint: leave out --checkpoint")
    if not is_sweep and (metric or mode or checkpoint):
        raise ExperimentError(
            f"{folder} is no sweep: --metric, --mode and --checkpoint choose among a sweep's "
            "checkpoints"
        )
    is_chosen = bool(metric or mode or checkpoint)
    if (is_chosen or policy_id) and output is None:
        raise ExperimentError(
            "--metric, --mode, --checkpoint and --policy choose another policy than the sweep's "
            "best: name its folder with -o"
        )
    if output is not None and not overwrite:
        _spare_other(output, folder)
    best = folder / BEST_FOLDER
    if is_sweep and not is_chosen and _has_winner(folder):
        if not _is_written(best):
            raise ExperimentError(
                f"{best}: the policy of the final's winner is gone; `tunescape resume` writes it "
                "again, and --metric or --checkpoint choose another one"
            )
        if output is None and format == "policy":
            writer_of(writer, opset=opset, trust=trust)  # names what has no effect
            return best.resolve()
    if is_sweep:
        output = output or (best if format == "policy" else folder / f"best-{format}")
    if output is not None:
        _spare_winner(output)
    is_best = output is not None and expanded(output).resolve() == best.resolve()
    is_there = _is_written(best) and not (is_best and format == "policy")
    if is_sweep and output is not None and checkpoint is None and (is_chosen or not is_there):
        by = objective_of(folder)
        by = canonical_metric(metric) if metric else by[0], mode or by[1]
        return export_best(
            folder,
            output,
            *by,
            format=writer,
            opset=opset,
            trust=trust,
            policy_id=policy_id,
        )
    source = find_policy(folder if checkpoint is None else _inside(folder, checkpoint))
    if source.is_graph or is_exported(source.folder):
        raise ExperimentError(f"{folder} is a graph already; export other formats from its policy")
    if output is None:
        raise ExperimentError(f"{folder} is no sweep: name a folder for its policy with -o")
    write = writer_of(writer, opset=opset, trust=trust)
    policies = source.policies or {source.folder.name: source.folder}
    if policy_id is not None:
        chosen = chosen_policy(policies, policy_id, source.folder)
        return export_folder(chosen, output, _whence(chosen, source.chosen), write)
    whence = _whence(source.folder, source.chosen)
    if source.policies:
        return export_folders(source.policies, output, whence, write)
    return export_folder(source.folder, output, whence, write)


def _is_written(best: Path) -> bool:
    """Tell whether a folder holds an exported policy, or several."""
    from experiments.commands.evaluation.policy_sources import exported_policies

    return (best / "policy.json").is_file() or bool(exported_policies(best))


def show_export(target: Path, console: Console) -> None:
    """Say where the policy is, which one it is, and on what its graph was compared with it."""
    from analysis.results.rows import read_json

    def line(text: str) -> None:
        # Without markup: a folder may be called `a[/x]`.
        say(console, text)

    line(f"Exported to {shown_path(target)}")
    origin = _origin(read_json(target / "export.json"))
    if origin:
        line(f"Policy: {origin}")
    for file in sorted([*target.glob("*.json"), *target.glob("*/*.json")]):
        said = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(said, dict) or "verified" not in said:
            continue
        verified: dict[str, Any] = said["verified"]
        counts = [f"{count} of {source}" for source, count in verified["observations"].items()]
        worst = max(
            (d for n, d in verified["max_difference"].items() if n.partition("/")[0] == "action"),
            default=0.0,
        )
        name = file.relative_to(target).with_suffix("")
        line(
            f"{name} acts as the policy does on observations sampled and played "
            f"({' and '.join(counts)}): actions differ by at most {worst:.1e}"
        )


def _origin(said: Any) -> str:
    """Return where `export.json` says that a policy comes from, in words."""
    if not isinstance(said, dict):
        return ""
    parts = [str(said[name]) for name in ("sweep", "checkpoint", "policy") if said.get(name)]
    value = said.get("value")
    if isinstance(value, float | int):
        parts.append(f"{said.get('metric')} {value:.4g}")
    if said.get("winner_of_final"):
        parts.append(f"a held-out run of {said['winner_of_final']}, the winner of the final")
    elif said.get("chosen"):
        parts.append(str(said["chosen"]))
    return ", ".join(parts)


def _has_winner(folder: Path) -> bool:
    """Tell whether a sweep's `final` has chosen, so that `best/` is the winner's."""
    from analysis.results.rows import read_json

    final = read_json(folder / FINAL_FILE)
    return isinstance(final, dict) and final.get("winner") is not None


def _spare_winner(output: Path) -> None:
    """Refuse a final's winner as a place for another policy."""
    target = expanded(output).resolve()
    if target.name == BEST_FOLDER and _has_winner(target.parent):
        raise ExperimentError(
            f"{target} is for the policy of the final's winner; choose another folder with -o"
        )


def _spare_other(output: Path, source: Path) -> None:
    """Refuse the place of another sweep's policy, of which there may be no other copy.

    Args:
        output: Where to write.
        source: What is exported: it lies in its sweep's folder, is that, or says of which it is.
    """
    from analysis.results.rows import read_json

    there, own = (read_json(place / "export.json") for place in (expanded(output), source))
    sweep = there.get("sweep") if isinstance(there, dict) else None
    names = [own["sweep"]] if isinstance(own, dict) and "sweep" in own else source.resolve().parts
    if sweep is not None and sweep not in names:
        raise ExperimentError(
            f"{output}: the policy of the sweep {sweep!r} is there already; choose another folder "
            "with -o, or replace it with --overwrite"
        )


def _inside(folder: Path, checkpoint: Path) -> Path:
    """Return a checkpoint of a sweep, named as in `export.json` or by any path."""
    inside = folder / checkpoint
    if inside.is_dir() or expanded(checkpoint).is_dir():
        return inside if inside.is_dir() else expanded(checkpoint)
    names = [f"{p.parent.name}/{p.name}" for p in sorted(folder.glob("*/checkpoint_*"))]
    raise ExperimentError(
        f"--checkpoint {checkpoint}: there is no such folder in {folder}"
        + suggestion(str(checkpoint), names)
        if names
        else f"--checkpoint {checkpoint}: {folder} has no checkpoints"
    )


def _whence(policy_folder: Path, chosen: str) -> dict[str, Any]:
    """Return what `export.json` says: what it said before, or which checkpoint it was."""
    from analysis.results.records import POLICY

    try:
        said = json.loads((policy_folder / "export.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        said = None
    if isinstance(said, dict):
        return said
    parts = policy_folder.resolve().parts
    depth = len(Path(POLICY).parts)
    is_in_checkpoint = parts[-depth:-1] == Path(POLICY).parts[:-1]
    named = "/".join(parts[-depth - 2 : -depth] if is_in_checkpoint else parts[-1:])
    return {"checkpoint" if is_in_checkpoint else "policy": named} | (
        {"chosen": chosen} if chosen else {}
    )


def _mlflow_writer(trust: Collection[str]) -> Writer:
    if trust:
        raise ExperimentError("--trust has no effect with --format mlflow: its models load no code")
    from experiments.tracking.model import export_mlflow

    return export_mlflow
