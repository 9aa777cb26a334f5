"""`tunescape compare`: which sweep is better, and if the data show it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.numbers import cell
from experiments.commands import shell
from experiments.errors import ExperimentError, SpecError
from experiments.output_files import check_writable
from experiments.spec.metrics import canonical_metric
from experiments.spec.paths import SPEC_FILE, shown_path
from experiments.terminal import make_table, say
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from rich.console import Console

    from analysis import Comparison


FORMS = ("table", "markdown", "json")
PICTURES = (".png", ".pdf", ".svg")
FILES = (*PICTURES, ".csv", ".json", ".md")


def compare(
    folders: Annotated[
        list[str],
        typer.Argument(
            help="Two or more sweeps: FOLDER or LABEL=FOLDER; a matrix counts as several."
        ),
    ],
    metric: Annotated[
        str | None, typer.Option(help="Metric to compare; default: the objective of the sweeps.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="max or min.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Budget to compare at; default: the largest that all runs reached."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Unit of the budget: a metric such as time_total_s; default: the first that all "
            "runs share of environment steps (steps trained on, if no run samples), iterations, "
            "and the end of training."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Also show the budget at which runs reach this value.")
    ] = None,
    unit: Annotated[
        str,
        typer.Option(
            help="Runs to compare: held-out, best, trials, or auto, the fairest of these."
        ),
    ] = "auto",
    reference: Annotated[
        list[str] | None,
        typer.Option(metavar="ENV=LOW,HIGH", help="Scores of a task that count as 0 and as 1."),
    ] = None,
    as_: Annotated[
        str, typer.Option("--as", help="Output format: table, markdown or json.")
    ] = "table",
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="File to write: .png, .pdf, .svg, .csv, .json or .md."),
    ] = None,
) -> None:
    """Compare sweeps over a shared budget, and say if the data show a difference."""
    check_files(as_, output or ())
    found = compare_folders(
        folders,
        metric=metric,
        mode=mode,
        budget=budget,
        by=by,
        threshold=threshold,
        unit=unit,
        reference=reference or (),
    )
    show_comparison(found, as_, shell.output())
    for path in write_comparison(found, output or ()):
        say(shell.errors(), f"Wrote {shown_path(path)}")


def compare_folders(
    folders: Sequence[str],
    *,
    metric: str | None = None,
    mode: str | None = None,
    by: str | None = None,
    reference: Sequence[str] = (),
    **options: Any,
) -> Comparison:
    """Compare sweeps.

    Args:
        folders: Folders of sweeps, or of several sweeps, each as FOLDER or LABEL=FOLDER.
        metric: The metric to compare; by default the objective that all of the sweeps have.
        mode: "max" or "min"; by default the objective's.
        by: What a budget counts; None: the first of `analysis.compare` that all runs share.
        reference: Scores that count as 0 and as 1, as ENV=LOW,HIGH.
        options: Further ones of `analysis.compare`.
    """
    from analysis.comparison.comparison import compare
    from analysis.comparison.contenders import contenders

    given = contenders(list(folders))
    if metric is None or mode is None:
        objective = _objective([sweep.path for sweeps in given.values() for sweep in sweeps])
        metric, mode = metric or objective[0], mode or objective[1]
    scores = dict(map(_reference, reference)) or None
    x = None if by is None else canonical_metric(by)
    return compare(given, canonical_metric(metric), mode, x=x, reference=scores, **options)


def check_files(form: str, files: Sequence[Path]) -> None:
    """Refuse, before anything is read, what could not be written."""
    if form not in FORMS:
        raise SpecError(f"--as {form}: allowed: {', '.join(FORMS)}{suggestion(form, FORMS)}")
    for path in files:
        if path.suffix not in FILES:
            raise SpecError(f"-o {path}: allowed endings: {', '.join(FILES)}")
        check_writable(path, "-o")


def write_comparison(found: Comparison, files: Sequence[Path]) -> list[Path]:
    """Write the comparison to files, each by its ending; a `.csv` brings further ones."""
    written: list[Path] = []
    for path in files:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            written += _write(found, path)
        except OSError as error:
            raise ExperimentError(f"{path} cannot be written: {error}") from error
    return written


def show_comparison(found: Comparison, form: str, console: Console) -> None:
    """Print it as a table, as markdown or as JSON."""
    if form == "json":
        text = json.dumps(found.to_dict(), indent=2, allow_nan=False)
        say(console, text)
    elif form == "markdown":
        say(console, markdown(found).removesuffix("\n"))
    else:
        _show_table(found, console)


def markdown(found: Comparison) -> str:
    """Return the comparison as a section of a document."""
    names, rows = summary_table(found)
    lines = [f"## {_title(found)}", ""]
    lines += [_row(names), _row(["---"] * len(names)), *(_row(row) for row in rows), ""]
    lines += [f"- **{line}**" for line in found.lines]
    lines += [f"- {line}" for line in found.notes]
    lines += [f"- Caution: {line}" for line in found.cautions]
    return "\n".join(lines) + "\n"


def summary_table(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the cells of the table of algorithms."""
    from analysis.comparison.verdict import interval

    percent = f"{100 * found.confidence:g} %"
    names = ["algorithm", "runs", f"IQM [{percent}]", "area", "s per run", "steps"]
    if found.threshold is not None:
        names += [f"reached {found.threshold:g}", "median budget", "mean budget"]
    rows = []
    for at in found.summary.to_dict("records"):
        runs = f"{at['runs']}" if at["tasks"] == 1 else f"{at['tasks']} x {at['runs']}"
        row = [str(at["algorithm"]), runs]
        row.append(interval(at["iqm"], at["iqm_low"], at["iqm_high"]))
        row += [cell(at["area"]), cell(at["seconds"]), f"{at['total_env_steps']:,.0f}"]
        if found.threshold is not None:
            row += [f"{at['reached']:.0%}".replace("%", " %"), _budget(at, "threshold_median")]
            row += [_budget(at, "threshold_mean")]
        rows.append(row)
    return names, rows


def _show_table(found: Comparison, console: Console) -> None:
    from rich.markup import escape

    caption = (
        "area: IQM of the mean over the budget; s per run: median training time up to the budget "
        "(its share, if trials shared a process); steps: of all trials, with those of the search"
    )
    if found.threshold is not None:
        caption += (
            "; mean budget: runs that did not reach the threshold count with the whole budget"
        )
    table = make_table(escape(_title(found)), caption)
    names, rows = summary_table(found)
    for name in names:
        left = name == names[0]
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))  # a label may be `[red]`
    console.print(table)
    for line in found.lines:
        say(console, line, style="bold")
    for line in found.notes:
        say(console, line)
    for line in found.cautions:
        say(console, f"Caution: {line}")


def _write(found: Comparison, path: Path) -> list[Path]:
    if path.suffix in PICTURES:
        from analysis.plots.comparison import plot_comparison

        return [plot_comparison(found, path)]
    if path.suffix == ".csv":
        frames = {"": found.summary, "-pairs": found.pairs, "-runs": found.runs}
        paths = []
        for part, frame in frames.items():
            paths.append(path.with_name(f"{path.stem}{part}.csv"))
            frame.to_csv(paths[-1], index=False)
        return paths
    if path.suffix == ".md":
        path.write_text(markdown(found), encoding="utf-8")
    else:
        text = json.dumps(found.to_dict(), indent=2, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
    return [path]


def _objective(folders: Sequence[Path]) -> tuple[str, str]:
    """Return the objective of the sweeps that say theirs."""
    from experiments.sweep.load import read_spec

    specs = [read_spec(path / SPEC_FILE) for path in folders if (path / SPEC_FILE).is_file()]
    found = {(spec.objective.metric, spec.objective.mode) for spec in specs}
    if len(found) > 1:
        said = ", ".join(f"{metric} ({mode})" for metric, mode in sorted(found))
        raise SpecError(f"the sweeps have different objectives, {said}: give --metric and --mode")
    return found.pop() if found else ("episode_return_mean", "max")


def _reference(text: str) -> tuple[str, tuple[float, float]]:
    task, _, scores = text.rpartition("=")
    try:
        low, high = (float(score) for score in scores.split(","))
    except ValueError:
        raise SpecError(
            f"--reference {text}: write ENV=LOW,HIGH, the scores that count as 0 and as 1"
        ) from None
    return task, (low, high)


def _title(found: Comparison) -> str:
    return f"{', '.join(found.summary['algorithm'])}: {found.metric}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def _budget(at: Mapping[Any, Any], name: str) -> str:
    """Return a budget with its interval; infinity is one that was not enough."""
    value, low, high = (_steps(at[key]) for key in (name, f"{name}_low", f"{name}_high"))
    return value if value == low == high else f"{value} [{low}, {high}]"


def _steps(value: float) -> str:
    if value == float("inf"):
        return "never"
    return f"{value:,.0f}" if value >= 100 else cell(value)
