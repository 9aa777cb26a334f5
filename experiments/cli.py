"""The command `tunescape`.

Nothing heavy is imported here: `tunescape --help` answers at once. Each command imports what it
needs, and every error that its user can mend is one message on stderr and exit status 2.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from experiments.activity import activity_console, doing, nothing_to_tell, shown_activity
from experiments.stop_signals import interrupted_status, received, stop_signals

EXIT_FAILED = 1
EXIT_USAGE = 2
# What is wrong with a path that somebody gave, rather than with the machine.
_OF_PATHS = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM),
    *(errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP),
)


_until_end = ExitStack()  # what a command shows while it runs


class _Commands(TyperGroup):
    """The commands; one that is cut off says how it goes on, and by what it was cut off."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _until_end:
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as stop:
                _end(str(stop))


app = typer.Typer(
    cls=_Commands,
    help="Hyperparameter experiments in reinforcement learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
train_app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(train_app, name="train")
_verbosity = 0

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the spec: config.lr=3e-4."),
]
NameOption = Annotated[str | None, typer.Option(help="Name of the sweep and of its folder.")]
StorageOption = Annotated[str | None, typer.Option(help="Folder that holds the sweep's folder.")]
AddressOption = Annotated[
    str | None, typer.Option(help="Ray cluster to join (ip:port); by default one is started here.")
]
SpecArgument = Annotated[
    str,
    typer.Argument(
        help="A YAML file, its URL, the name of a spec (see `list`), or your own FILE.py."
    ),
]
StopOption = Annotated[
    str, typer.Option(help="Stop criteria: '{\"num_env_steps_sampled_lifetime\": 100000}'.")
]
FrameworkOption = Annotated[str | None, typer.Option(help="torch; there is no other.")]
CheckpointOption = Annotated[
    int | None, typer.Option(help="Iterations between checkpoints; 0 saves at the end only.")
]
SamplesOption = Annotated[int | None, typer.Option(help="Number of trials.")]
ExperimentOption = Annotated[
    str | None, typer.Option(help="Which experiment of a file that holds several.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check the spec and show what would run.")
]


def _show_version(asked: bool) -> None:
    """Of what is installed: nothing is imported for it."""
    if not asked:
        return
    from importlib import metadata

    for name in ("tunescape", "ray", "torch"):
        try:
            typer.echo(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:  # run from a source tree that is not installed
            typer.echo(f"{name} not installed")
    typer.echo(f"Python {sys.version.partition(' ')[0]}")
    raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[
        int,
        typer.Option(
            "-v",
            "--verbose",
            count=True,
            help="Tune's log, trials' log (INFO), a dry run's defaults; -vv: DEBUG, tracebacks.",
        ),
    ] = 0,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show versions and exit."
        ),
    ] = False,
) -> None:
    global _verbosity
    _verbosity = max(_verbosity, verbose)


@app.command()
def run(
    spec: SpecArgument,
    set_: SetOption = None,
    num_samples: SamplesOption = None,
    storage: StorageOption = None,
    address: AddressOption = None,
    name: NameOption = None,
    experiment: ExperimentOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Run a sweep."""
    options = {
        "num_samples": num_samples,
        "storage": storage,
        "resources.address": address,
        "name": name,
    }
    _run_specs(_load(spec, set_, options, experiment), dry_run)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of a sweep or matrix: runs/<name>.")],
    num_samples: Annotated[
        int | None, typer.Option(min=1, help="Give it more samples: the number of all of them.")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=VALUE",
            help="Give it a longer budget; finished trials go on from their last checkpoints.",
        ),
    ] = None,
    retry_errored: Annotated[
        bool, typer.Option("--retry-errored", help="Failed trials go on from their checkpoints.")
    ] = False,
    restart_errored: Annotated[
        bool, typer.Option("--restart-errored", help="Failed trials start anew.")
    ] = False,
    address: AddressOption = None,
) -> None:
    """Continue a sweep that was cut off, or extend one. Finished trials are kept."""
    _begin(f"reading {folder}")
    from experiments.errors import SweepError
    from experiments.running.extension import parse_stop
    from experiments.running.matrix import resume_matrix
    from experiments.running.matrix_state import is_matrix
    from experiments.running.runner import resume_sweep
    from experiments.spec.paths import command_line
    from experiments.sweep.folder import load_sweep_spec

    if is_matrix(folder):
        if num_samples is not None or stop or restart_errored:
            raise SweepError(
                f"{folder} is a matrix, whose sweeps are extended one by one: "
                f"`{command_line('resume', folder / 'SWEEP')} …`"
            )
        _finish_matrix(
            resume_matrix(
                folder,
                retry_errored=retry_errored,
                address=address,
                console=_errors(),
                verbosity=_verbosity,
                after=_show_outcome,
            )
        )
        return
    outcome = resume_sweep(
        folder,
        num_samples=num_samples,
        stop=parse_stop(stop or []),
        retry_errored=retry_errored,
        restart_errored=restart_errored,
        address=address,
        console=_errors(),
        verbosity=_verbosity,
    )
    _finish(outcome, load_sweep_spec(outcome.folder))


@train_app.callback(invoke_without_command=True)
def train(
    context: typer.Context,
    algo: Annotated[
        str | None, typer.Option("--algo", "--run", help="Algorithm, e.g. PPO.")
    ] = None,
    env: Annotated[str | None, typer.Option(help="Environment, e.g. CartPole-v1.")] = None,
    stop: StopOption = "{}",
    config: Annotated[str, typer.Option(help="Settings: '{\"lr\": 3e-4}'.")] = "{}",
    framework: FrameworkOption = None,
    name: NameOption = None,
    storage: StorageOption = None,
    address: AddressOption = None,
    checkpoint_freq: CheckpointOption = None,
    set_: SetOption = None,
) -> None:
    """Train one algorithm on one environment, or what a file says: `train file`."""
    from experiments.errors import SpecError
    from experiments.sweep.single import single_trial_spec

    if context.invoked_subcommand is not None:
        given = [key for key, value in context.params.items() if value and value != "{}"]
        if given:
            option = given[0].strip("_").replace("_", "-")
            raise SpecError(f"write --{option} after `train {context.invoked_subcommand} SPEC`")
        return
    if algo is None:
        raise SpecError("--algo is missing; to train what a file says: train file SPEC")
    _begin(f"checking {algo}")
    _run(
        single_trial_spec(
            algo,
            env,
            stop=stop,
            config=config,
            framework=framework,
            name=name,
            storage=storage,
            address=address,
            checkpoint_freq=checkpoint_freq,
            overrides=set_ or [],
        )
    )


@train_app.command("file")
def train_file(
    spec: SpecArgument,
    stop: StopOption = "{}",
    framework: FrameworkOption = None,
    set_: SetOption = None,
    num_samples: SamplesOption = None,
    checkpoint_freq: CheckpointOption = None,
    storage: StorageOption = None,
    address: AddressOption = None,
    name: NameOption = None,
    experiment: ExperimentOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Train what a YAML file says, RLlib's among them, or the `config` of your own Python file."""
    from experiments.sweep.single import mapping, require_end

    options = {
        "stop": mapping(stop, "--stop") or None,
        "config.framework": framework,
        "num_samples": num_samples,
        "checkpoint.frequency": checkpoint_freq,
        "storage": storage,
        "resources.address": address,
        "name": name,
    }
    sweeps = _load(spec, set_, options, experiment)
    for sweep in sweeps:
        require_end(sweep)
    _run_specs(sweeps, dry_run)


@app.command()
def evaluate(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A policy, a checkpoint, or the folder of a trial or sweep (its best)."
        ),
    ],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes.")] = 0,
    env: Annotated[
        str | None, typer.Option(help="Environment; by default the one it was trained on.")
    ] = None,
    env_config: Annotated[
        str | None, typer.Option(help="Changes to what it is made with, as JSON.")
    ] = None,
    explore: Annotated[
        bool | None,
        typer.Option(
            "--explore/--no-explore",
            help="Sample actions or take the best; by default as in training's evaluations.",
        ),
    ] = None,
    num_envs: Annotated[
        int | None, typer.Option(min=1, help="Environments stepped together; by default 8.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Cut longer episodes off.")] = None,
    video: Annotated[
        Path | None, typer.Option(help="Film the first episodes: FILE.mp4, or a folder.")
    ] = None,
    video_episodes: Annotated[
        int | None, typer.Option(min=1, help="How many are filmed; by default 1.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Write every step to FILE.parquet.")] = None,
    trace_images: Annotated[
        bool, typer.Option("--trace-images", help="Also observations of over 4,096 numbers.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the episodes to FILE.csv or FILE.parquet."),
    ] = None,
    as_: Annotated[str, typer.Option("--as", help="table or json.")] = "table",
    table: Annotated[str, typer.Option(help="Episodes shown: folded, all or none.")] = "folded",
    algo: Annotated[
        str | None,
        typer.Option("--algo", "--run", help="The algorithm that must have trained the policy."),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Code that the policy names and that may be imported, as module:name."),
    ] = None,
) -> None:
    """Play episodes with a trained policy: its return with an interval, videos, traces."""
    from experiments.commands.evaluation.evaluate import evaluate_folder
    from experiments.commands.evaluation.output import (
        check_output,
        show_evaluation,
        show_files,
        video_paths,
        write_episodes,
    )

    check_output(
        as_,
        table,
        output,
        trace=trace,
        trace_images=trace_images,
        video=video,
        video_episodes=video_episodes,
    )
    changes = None
    if env_config is not None:
        from experiments.sweep.single import mapping  # which imports Ray

        changes = mapping(env_config, "--env-config")
    evaluation = evaluate_folder(
        checkpoint,
        episodes=episodes,
        seed=seed,
        env=env,
        env_config=changes,
        explore=explore,
        num_envs=num_envs,
        max_steps=max_steps,
        algo=algo,
        trust=trust or (),
        videos=video_paths(video, min(video_episodes or 1, episodes)),
        trace=trace,
        trace_images=trace_images,
        progress=_errors(),
    )
    show_evaluation(evaluation, _output(), as_, table)
    if output is not None:
        write_episodes(evaluation, output)
    show_files(evaluation, _errors(), output, trace)
    if evaluation.interrupted:
        raise typer.Exit(interrupted_status())


@app.command()
def export(
    folder: Annotated[
        Path,
        typer.Argument(help="A sweep (its best/, as evaluate), a trial, a checkpoint or a policy."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder; by default best/ or best-FORMAT in it."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="policy (a folder for Policy.load), torch or onnx (a graph from observations to "
            "actions), or mlflow (a model to serve)."
        ),
    ] = "policy",
    metric: Annotated[
        str | None, typer.Option(help="Choose by this among the sweep's checkpoints; needs -o.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="max or min; needs -o.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Of the sweep, instead: TRIAL/checkpoint_000001; needs -o."),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="Version of ONNX's operators.")] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Of torch and onnx: code that may be imported, as module:name."),
    ] = None,
) -> None:
    """Export the best policy of a sweep, or another one."""
    from experiments.commands.evaluation.export_policy import export_policy, show_export

    target = export_policy(
        folder,
        output,
        format=format,
        metric=metric,
        mode=mode,
        checkpoint=checkpoint,
        opset=opset,
        trust=trust or (),
    )
    show_export(target, _output())


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of sweeps: runs/<name> …")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File; by default report.html in the sweep's folder."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="By default the sweep's objective.")] = None,
    mode: Annotated[str | None, typer.Option(help="max or min.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for figures as PNG and PDF, for a paper.")
    ] = None,
    log_to_mlflow: Annotated[
        bool, typer.Option("--log-to-mlflow", help="Keep it with the sweep's MLflow run, too.")
    ] = False,
) -> None:
    """Write the report of one or several sweeps: an HTML page that works offline."""
    from experiments.commands.results.report import make_report

    make_report(
        folders,
        output,
        metric=metric,
        mode=mode,
        title=title,
        figures=figures,
        log_to_mlflow=log_to_mlflow,
        console=_output(),
    )


@app.command()
def frames(
    sources: Annotated[
        list[str],
        typer.Argument(help="Folders of sweeps (runs/<name> …), or mlflow:<experiment>/<sweep>."),
    ],
    what: Annotated[
        str, typer.Option(help="trials, curves, seeds, lineage (of a population), or cost.")
    ] = "trials",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File: .parquet or .csv; by default CSV to stdout."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Of curves: which to keep, by default all; of seeds: which one."),
    ] = None,
) -> None:
    """Write a sweep's results as a table, for your own analysis."""
    from experiments.commands.results.frames import make_frame, output_frame

    told = output_frame(make_frame(what, sources, metric or ()), output)
    if told:
        _output().print(told, highlight=False, soft_wrap=True, markup=False)


@app.command()
def compare(
    folders: Annotated[
        list[str],
        typer.Argument(help="Two or more sweeps: FOLDER or LABEL=FOLDER; a matrix's is several."),
    ],
    metric: Annotated[str | None, typer.Option(help="By default the sweeps' objective.")] = None,
    mode: Annotated[str | None, typer.Option(help="max or min.")] = None,
    budget: Annotated[
        float | None, typer.Option(help="By default the largest that all runs reached.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="What a budget counts: a metric such as time_total_s.")
    ] = "num_env_steps_sampled_lifetime",
    threshold: Annotated[
        float | None, typer.Option(help="Also: the budget at which runs reach this value.")
    ] = None,
    unit: Annotated[
        str, typer.Option(help="What a run is: held-out, best, trials, or the fairest (auto).")
    ] = "auto",
    reference: Annotated[
        list[str] | None,
        typer.Option(metavar="ENV=LOW,HIGH", help="Scores that count as 0 and 1 on a task."),
    ] = None,
    as_: Annotated[str, typer.Option("--as", help="table, markdown or json.")] = "table",
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="File: .png, .pdf, .svg, .csv, .json or .md."),
    ] = None,
) -> None:
    """Compare sweeps: which is better over a shared budget, and how sure that is."""
    from experiments.commands.results.comparison import (
        check_files,
        compare_folders,
        show_comparison,
        write_comparison,
    )
    from experiments.spec.metrics import canonical_metric
    from experiments.spec.paths import shown_path

    check_files(as_, output or ())
    found = compare_folders(
        folders,
        metric=metric,
        mode=mode,
        budget=budget,
        x=canonical_metric(by),
        threshold=threshold,
        unit=unit,
        reference=reference or (),
    )
    show_comparison(found, as_, _output())
    for path in write_comparison(found, output or ()):
        _errors().print(f"Wrote {shown_path(path)}", highlight=False, soft_wrap=True, markup=False)


@app.command("list")
def list_() -> None:
    """List the algorithms, search spaces and specs that there are."""
    from experiments.commands.show.listing import show_list

    show_list(_output())


@app.command()
def space(
    name: Annotated[
        str, typer.Argument(help="An algorithm's space (PPO), its preset (PPO/zoo), or a file.")
    ],
    form: Annotated[
        str, typer.Option("--as", help="table, yaml (for a spec), or python (for plain Tune).")
    ] = "table",
) -> None:
    """Show a search space."""
    from experiments.commands.show.space import show_space
    from search_spaces.loader import load_preset

    show_space(load_preset(name), form, _output())


@app.command()
def show(
    spec: SpecArgument,
    as_: Annotated[
        str, typer.Option("--as", help="yaml: the complete checked spec; python: a script.")
    ] = "yaml",
    set_: SetOption = None,
    experiment: ExperimentOption = None,
) -> None:
    """Show a spec with all that it extends and every default, or as a Python script."""
    from experiments.errors import SpecError
    from experiments.sweep.load import dump_spec, load_specs

    if as_ not in ("yaml", "python"):
        raise SpecError(f"--as {as_}: allowed: yaml, python")
    sweeps = load_specs(spec, set_ or [], experiment=experiment)
    if as_ == "yaml":
        typer.echo("---\n".join(dump_spec(sweep) for sweep in sweeps), nl=False)
        return
    if len(sweeps) > 1:
        names = ", ".join(sweep.name for sweep in sweeps)
        raise SpecError(
            f"{spec} is a matrix of {len(sweeps)} sweeps ({names}): choose one, e.g. with "
            "--set matrix.env=[CartPole-v1]"
        )
    from experiments.commands.show.python import python_source

    typer.echo(python_source(sweeps[0]), nl=False)


@app.command()
def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; by default stdout.")
    ] = None,
) -> None:
    """Print the JSON schema of specs, with which editors complete and check them."""
    from analysis.home import expanded
    from experiments.spec.json_schema import schema_text

    if output is None:
        typer.echo(schema_text(), nl=False)
    else:
        expanded(output).write_text(schema_text(), encoding="utf-8")


@app.command()
def ui(
    folder: Annotated[
        Path, typer.Argument(help="A sweep's folder, or the folder that holds sweeps.")
    ] = Path("runs"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> None:
    """Start the MLflow UI, on this machine only."""
    from experiments.commands.results.tracking_ui import serve

    raise typer.Exit(serve(folder, port, _output()))


def main() -> None:
    """Run the command line; the entry point `tunescape`."""
    arguments = _take_verbosity(sys.argv[1:])
    warnings.showwarning = _show_warning
    # Specs may name environments and trainables in modules of the current folder.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        with stop_signals():
            app(args=arguments, prog_name="tunescape")
    except Exception as error:
        if _verbosity >= 2:
            traceback.print_exc()
        if _is_users(error):
            _fail(str(error), getattr(error, "exit_status", EXIT_USAGE))
        if isinstance(error, OSError) and error.filename is not None and error.errno in _OF_PATHS:
            _fail(f"{os.fsdecode(error.filename)}: {error.strerror}", EXIT_USAGE)
        _fail(f"{type(error).__name__}: {error} (-vv shows the traceback)", EXIT_FAILED)


def _is_users(error: Exception) -> bool:
    """Whether the error is about what the user gave us, and says so by itself."""
    from analysis.errors import ResultsError
    from experiments.errors import ExperimentError, SpecError
    from trainables.core.errors import ConfigError

    return isinstance(error, (ExperimentError, SpecError, ConfigError, ResultsError))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """What a spec's reader leaves out is a note; other warnings look as they do in Python."""
    from experiments.errors import SpecWarning

    if issubclass(category, SpecWarning):
        _errors().print(f"Note: {message}", highlight=False, markup=False, soft_wrap=True)
    else:
        (file or sys.stderr).write(
            warnings.formatwarning(message, category, filename, lineno, line)
        )


def _take_verbosity(arguments: list[str]) -> list[str]:
    """Take `-v` and `-vv` out, wherever they stand."""
    global _verbosity
    _verbosity = 0
    rest = []
    for argument in arguments:
        if argument in ("-v", "-vv", "-vvv", "--verbose"):
            _verbosity += argument.count("v") if not argument.startswith("--") else 1
        else:
            rest.append(argument)
    return rest


def _end(message: str) -> NoReturn:
    """End a command that was cut off."""
    signal = received()
    cause = f"Interrupted by {signal.name}" if signal else "Interrupted"
    text = f"{cause}: {message}" if message else cause
    _errors().print(text, highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(interrupted_status())


def _end_kept(folder: Path) -> NoReturn:
    """End a sweep or matrix that was cut off, and saved."""
    from experiments.spec.paths import saved_line

    if received():
        _end(saved_line(folder))
    raise SystemExit(interrupted_status())  # after Ctrl-C what came out was shown


def _fail(message: str, status: int) -> NoReturn:
    from rich.console import Console

    console = Console(stderr=True, soft_wrap=True)
    console.print("Error:", style="bold red", end=" ")
    console.print(message, highlight=False, markup=False)
    raise SystemExit(status)


def _load(
    spec: str, assignments: list[str] | None, options: dict[str, Any], experiment: str | None
) -> Any:
    """The sweeps of a spec, with `--set` and the options that stand for keys of it."""
    _begin(f"reading {spec}")
    from experiments.sweep.load import load_specs

    overrides = list(assignments or [])
    overrides += [f"{key}={_quoted(value)}" for key, value in options.items() if value is not None]
    return load_specs(spec, overrides, experiment=experiment)


def _begin(what: str) -> None:
    """Show what the command is doing from here on; until it ends, or has something to show."""
    _until_end.enter_context(shown_activity(_errors()))
    doing(what)


def _run_specs(sweeps: Any, dry_run: bool) -> None:
    if dry_run:
        _show_plan(sweeps)
    elif len(sweeps) == 1:
        _run(sweeps[0])
    else:
        _run_matrix(sweeps)


def _run(spec: Any) -> None:
    from experiments.running.runner import run_sweep
    from experiments.sweep.sweep import Sweep

    _finish(run_sweep(Sweep.of(spec), console=_errors(), verbosity=_verbosity), spec)


def _finish(outcome: Any, spec: Any) -> None:
    _show_outcome(outcome, spec)
    if outcome.interrupted:
        _end_kept(outcome.folder)
    if not outcome.succeeded:
        raise typer.Exit(EXIT_FAILED)


def _run_matrix(specs: list[Any]) -> None:
    from experiments.running.matrix import run_matrix
    from experiments.sweep.sweep import Sweep

    sweeps = [Sweep.of(spec) for spec in specs]
    _finish_matrix(run_matrix(sweeps, console=_errors(), verbosity=_verbosity, after=_show_outcome))


def _finish_matrix(matrix: Any) -> None:
    from experiments.commands.results.matrix_table import show_comparison

    if not (matrix.interrupted and received()):
        show_comparison(matrix, _output())
    if matrix.interrupted:
        _end_kept(matrix.folder)
    if matrix.any_failed:
        raise typer.Exit(EXIT_FAILED)


def _show_outcome(outcome: Any, spec: Any) -> None:
    from experiments.commands.results.summary import show_outcome

    show_outcome(outcome, spec, _output())


def _show_plan(specs: list[Any]) -> None:
    from experiments.commands.show.plan import show_plan, show_plans
    from experiments.sweep.sweep import Sweep

    sweeps = [Sweep.of(spec) for spec in specs]
    if len(sweeps) == 1:
        show_plan(sweeps[0], _output(), whole=_verbosity > 0)
    else:
        show_plans(sweeps, _output())


def _output() -> Any:
    from experiments.terminal import make_console

    nothing_to_tell()
    return make_console()


def _errors() -> Any:
    from experiments.terminal import make_console

    return activity_console() or make_console(stderr=True)


def _quoted(value: object) -> str:
    """A command-line value as YAML: text stays text, whatever it looks like."""
    import json

    return json.dumps(value)


if __name__ == "__main__":
    main()
