"""`tunescape record`: play episodes and write them as recorded experience."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands import shell
from experiments.commands.recording.record import FORMATS, Recording, record_folder
from experiments.errors import ExperimentError
from experiments.spec.paths import command_line, shown_path
from experiments.stop_signals import interrupted_status
from experiments.terminal import say
from trainables.core.suggestions import suggestion

if TYPE_CHECKING:
    from rich.console import Console


def record(
    policy: Annotated[
        str,
        typer.Argument(
            help="A policy, a checkpoint, a trial or sweep folder (its best policy), or `random` "
            "for uniformly random actions."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the files.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.")] = 100,
    format_: Annotated[
        str, typer.Option("--format", help="Format of the files: parquet, json or minari.")
    ] = "parquet",
    epsilon: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Probability that an action is random."),
    ] = 0.0,
    random_share: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Share of episodes with only random actions."),
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes.")] = 0,
    env: Annotated[
        str | None, typer.Option(help="Environment; default: the one of training.")
    ] = None,
    env_config: Annotated[
        str | None, typer.Option(help="Changes to the arguments of the environment, as JSON.")
    ] = None,
    explore: Annotated[
        bool | None,
        typer.Option(
            "--explore/--no-explore",
            help="Sample actions or take the best; default: as in training's evaluations.",
        ),
    ] = None,
    num_envs: Annotated[
        int | None, typer.Option(min=1, help="Environments to step together; default: 8.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Cut episodes off after this many steps.")
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Add to the data in the folder.")
    ] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Code of the policy that may be imported, as module:name."),
    ] = None,
    policy_mapping: Annotated[
        str | None,
        typer.Option(help="Policy of each agent: agent=policy,*=policy or module:name."),
    ] = None,
) -> None:
    """Play episodes and record them for BC, MARWIL, CQL, IQL, DQN and SAC to learn from."""
    if format_ not in FORMATS:
        raise ExperimentError(
            f"--format {format_}: allowed: {', '.join(FORMATS)}{suggestion(format_, FORMATS)}"
        )
    changes = None
    if env_config is not None:
        from experiments.sweep.single import mapping  # which imports Ray

        changes = mapping(env_config, "--env-config")
    recording = record_folder(
        policy,
        output,
        episodes=episodes,
        format_=format_,
        epsilon=epsilon,
        random_share=random_share,
        seed=seed,
        env=env,
        env_config=changes,
        explore=explore,
        num_envs=num_envs,
        max_steps=max_steps,
        trust=trust or (),
        append=append,
        policy_mapping=policy_mapping,
        progress=shell.errors(),
    )
    show_recording(recording, shell.output())
    if recording.interrupted:
        raise typer.Exit(interrupted_status())


def show_recording(recording: Recording, console: Console) -> None:
    """Print what was recorded, and how to go on."""
    outcomes = [record.outcome for record in recording.episodes]
    count, steps = len(outcomes), recording.num_steps
    mean = sum(outcome.total for outcome in outcomes) / count
    of_random = f", {recording.num_random} of them uniformly random" if recording.num_random else ""
    if recording.interrupted:
        of_random += f"; interrupted, {recording.num_asked} were asked for"
    files = "1 file" if recording.num_files == 1 else f"{recording.num_files} files"
    speed = steps / max(recording.wall_s, 1e-9)
    for line in (
        f"Policy: {recording.policy}",
        f"{recording.environment}: {count:,} episodes, {steps:,} steps{of_random}",
        f"Return {mean:.2f} on average, {min(o.total for o in outcomes):.2f} to "
        f"{max(o.total for o in outcomes):.2f}; {recording.wall_s:.1f} s ({speed:,.0f} steps/s)",
        f"Recorded: {shown_path(recording.folder)} ({files}, {recording.nbytes / 1e6:.2f} MB)",
        f"Next: {command_line('data', recording.parts[0])}",
    ):
        say(console, line)
