"""`tunescape evaluate`: play episodes with a trained policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import shell
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.evaluation.output import (
    check_output,
    show_evaluation,
    show_files,
    video_paths,
    write_episodes,
)
from experiments.stop_signals import interrupted_status

app = typer.Typer(add_completion=False)


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
        progress=shell.errors(),
    )
    show_evaluation(evaluation, shell.output(), as_, table)
    if output is not None:
        write_episodes(evaluation, output)
    show_files(evaluation, shell.errors(), output, trace)
    if evaluation.interrupted:
        raise typer.Exit(interrupted_status())
