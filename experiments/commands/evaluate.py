"""`tunescape evaluate`: play episodes with a trained policy."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.numbers import finite_or_none
from experiments.commands import shell
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.evaluation.evaluated import HUMAN, Evaluation, LeftEarly
from experiments.errors import ExperimentError
from experiments.output_files import check_writable
from experiments.spec.paths import shown_path
from experiments.stop_signals import interrupted_status
from experiments.terminal import say

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.runtime.evaluation.watch import EpisodeRecord


TABLES = ("folded", "all", "none")
FORMS = ("table", "json")
FORMATS = (".csv", ".parquet")
TRACE_FORMAT = ".parquet"
_FIRST, _ENDS = 8, 3  # a folded table has the first episodes, the worst and the best ones


def evaluate(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A policy, a checkpoint, or a trial or sweep folder (its best policy)."
        ),
    ],
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes to play; default: 10.")
    ] = None,
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
    video: Annotated[
        Path | None, typer.Option(help="Film the first episodes: FILE.mp4 or a folder.")
    ] = None,
    video_episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes to film; default: 1.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Write every step to FILE.parquet.")] = None,
    trace_images: Annotated[
        bool, typer.Option("--trace-images", help="Include observations of over 4,096 numbers.")
    ] = False,
    open_loop: Annotated[
        Path | None,
        typer.Option(
            "--open-loop",
            help="Draw the world model's predictions of the first episode (DreamerV3): FILE.png; "
            "for images also FILE.gif or FILE.mp4.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the episodes to FILE.csv or FILE.parquet."),
    ] = None,
    as_: Annotated[str, typer.Option("--as", help="Output format: table or json.")] = "table",
    table: Annotated[str, typer.Option(help="Episodes to show: folded, all or none.")] = "folded",
    algo: Annotated[
        str | None,
        typer.Option("--algo", "--run", help="Refuse the policy unless this algorithm trained it."),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Code of the policy that may be imported, as module:name."),
    ] = None,
    policy_mapping: Annotated[
        str | None,
        typer.Option(help="Policy of each agent: agent=policy,*=policy or module:name."),
    ] = None,
    opponent: Annotated[
        str | None,
        typer.Option(
            metavar="WHO",
            help="The opponent: human, random, look_ahead, module:name, the folder of another "
            "policy, or the id of a policy in the same folder.",
        ),
    ] = None,
    seat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AGENT",
            help="Agent that the policy plays against the opponent; default: each in turn.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Policy to play against the opponent, of several."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Play nothing; estimate the return from recorded (held-out) episodes.",
        ),
    ] = None,
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="With --data: is, wis, dm or dr, or the long name; default: wis, dm."),
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="With --data: discount factor; default: that of training."),
    ] = None,
) -> None:
    """Play episodes with a trained policy; report its return, and make videos or traces."""
    if data:
        played = {
            "--episodes": episodes, "--env": env, "--env-config": env_config,
            "--num-envs": num_envs, "--max-steps": max_steps, "--video": video,
            "--video-episodes": video_episodes, "--trace": trace,
            "--trace-images": trace_images or None, "--open-loop": open_loop,
            "--output": output, "--policy-mapping": policy_mapping, "--opponent": opponent,
            "--seat": seat, "--policy": policy,
        }  # fmt: skip
        for option, value in played.items():
            if value is not None:
                raise ExperimentError(f"{option}: with --data no episode is played")
        from experiments.activity import doing, shown_activity
        from experiments.commands.evaluation.estimate import estimate_folder, show_estimates

        check_output(as_, table, None)
        with shown_activity(shell.errors()):
            doing("estimating from recorded episodes")
            estimates = estimate_folder(
                checkpoint,
                data,
                estimators=estimator or (),
                gamma=gamma,
                explore=explore,
                seed=seed,
                algo=algo,
                trust=trust or (),
            )
        show_estimates(estimates, shell.output(), as_)
        return
    for option, given in (("--estimator", estimator), ("--gamma", gamma)):
        if given is not None:
            raise ExperimentError(f"{option}: nothing is estimated; name recorded data with --data")
    episodes = 10 if episodes is None else episodes
    check_output(
        as_,
        table,
        output,
        trace=trace,
        trace_images=trace_images,
        open_loop=open_loop,
        video=video,
        video_episodes=video_episodes,
    )
    if opponent is None:
        for option, value in (("--seat", seat), ("--policy", policy)):
            if value is not None:
                raise ExperimentError(f"{option}: there is no opponent; name it with --opponent")
    changes = None
    if env_config is not None:
        from experiments.sweep.single import mapping  # which imports Ray

        changes = mapping(env_config, "--env-config")
    try:
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
            policy_mapping=policy_mapping,
            opponent=opponent,
            seats=seat or (),
            policy_id=policy,
            terminal=_terminal() if opponent == HUMAN else None,
            videos=video_paths(video, min(video_episodes or 1, episodes)),
            trace=trace,
            trace_images=trace_images,
            open_loop=open_loop,
            progress=shell.errors(),
        )
    except LeftEarly as error:
        say(shell.errors(), str(error))
        return
    show_evaluation(evaluation, shell.output(), as_, table)
    if output is not None:
        write_episodes(evaluation, output)
    show_files(evaluation, shell.errors(), output, trace, open_loop)
    if evaluation.interrupted:
        raise typer.Exit(interrupted_status())


def _terminal() -> Console:
    """Return the console that a human plays at: beside what is asked for, and undisturbed."""
    from experiments.activity import nothing_to_tell

    nothing_to_tell()
    return shell.errors()


def check_output(
    form: str,
    table: str,
    output: Path | None,
    *,
    trace: Path | None = None,
    trace_images: bool = False,
    open_loop: Path | None = None,
    video: Path | None = None,
    video_episodes: int | None = None,
) -> None:
    """Check options before anything is played.

    Raises:
        ExperimentError: An option is not allowed, or has no use without another, which is named;
            or a file cannot be written.
    """
    if trace_images and trace is None:
        raise ExperimentError("--trace-images: there is no trace; name its file with --trace")
    if video_episodes is not None and video is None:
        raise ExperimentError("--video-episodes: there is no video; name its file with --video")
    for option, value, known in (("--as", form, FORMS), ("--table", table, TABLES)):
        if value not in known:
            raise ExperimentError(f"{option} {value}: allowed: {', '.join(known)}")
    if output is not None and output.suffix not in FORMATS:
        raise ExperimentError(
            f"--output {output}: allowed: names that end in {' or '.join(FORMATS)}"
        )
    if trace is not None:
        check_trace(trace)
    if open_loop is not None:
        check_open_loop(open_loop)
    for option, path in (("--output", output), ("--trace", trace), ("--open-loop", open_loop)):
        if path is not None:
            check_writable(path, option)
    if output is not None and trace is not None and output.absolute() == trace.absolute():
        raise ExperimentError(f"--output and --trace name the same file, {output}")


def check_trace(path: Path) -> None:
    """Refuse a name under which nobody would look for parquet.

    Raises:
        ExperimentError: It does not end in `.parquet`.
    """
    if path.suffix != TRACE_FORMAT:
        raise ExperimentError(f"--trace {path}: allowed: names that end in {TRACE_FORMAT}")


def check_open_loop(path: Path) -> None:
    """Refuse a name that is of no kind that can be drawn.

    Raises:
        ExperimentError: It ends otherwise.
    """
    from experiments.running.pictures.open_loop import FILMS, PICTURES

    if path.suffix not in (*PICTURES, *FILMS):
        raise ExperimentError(
            f"--open-loop {path}: allowed: names that end in {', '.join(PICTURES)}; of images "
            f"{' and '.join(FILMS)}, too"
        )


def video_paths(target: Path | None, count: int) -> list[Path]:
    """Return the files of the first episodes: the one that is named, numbered, or in a folder.

    Raises:
        ExperimentError: It is a file of another kind.
    """
    if target is None:
        return []
    if target.suffix and target.suffix != ".mp4" and not target.is_dir():
        raise ExperimentError(f"--video {target}: allowed: FILE.mp4, or a folder")
    if target.suffix == ".mp4":
        if count == 1:
            return [target]
        return [target.with_name(f"{target.stem}-episode-{n:03d}.mp4") for n in range(count)]
    return [target / f"episode-{number:03d}.mp4" for number in range(count)]


def rows_of(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the episodes as rows of plain values, in order."""
    return [
        {
            "episode": record.episode,
            "return": record.outcome.total,
            "length": record.outcome.length,
            "terminated": record.outcome.terminated,
            "truncated": record.outcome.truncated,
            "seed": record.seed,
            "shares_seed": record.shares_seed,
            "part": record.part,
            "slot": record.slot,
            "num_slots": record.num_slots,
            "video": _video(evaluation, record),
            **_game(evaluation, record),
        }
        for record in evaluation.episodes
    ]


def show_evaluation(
    evaluation: Evaluation, console: Console, form: str = "table", table: str = "folded"
) -> None:
    """Print the statistics and the episodes, or all of it as JSON."""
    if form == "json":
        rows = [{**row, "return": finite_or_none(row["return"])} for row in rows_of(evaluation)]
        document = {**about(evaluation), "episodes": rows}
        console.file.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
        return
    versus = evaluation.versus
    if versus is None:
        lines = [*_statistics(evaluation), *_agent_lines(evaluation), *evaluation.notes]
    else:
        from experiments.commands.evaluation.standings import standing_lines, standing_table

        lines = [
            f"{evaluation.environment}: {line}" if not n else line
            for n, line in enumerate(standing_lines(versus))
        ]
        lines += evaluation.notes
    for line in lines:
        say(console, line)
    if versus is not None:
        console.print(standing_table(versus))
    if table != "none":
        _show_table(evaluation, console, whole=table == "all")


def show_files(
    evaluation: Evaluation,
    console: Console,
    output: Path | None,
    trace: Path | None,
    open_loop: Path | None = None,
) -> None:
    """Print which policy it was, how fast it played, and what was written."""
    source, steps = evaluation.source, evaluation.summary.steps
    chosen = f" ({source.chosen})" if source.chosen else ""
    speed = steps / max(evaluation.wall_s, 1e-9)
    lines = [
        f"Policy: {shown_path(source.folder)}{chosen}",
        f"Played {steps:,} steps in {evaluation.wall_s:.1f} s ({speed:,.0f} steps/s)",
    ]
    lines += [f"Video of episode {n}: {shown_path(p)}" for n, p in evaluation.videos.items()]
    lines += [f"Trace: {shown_path(trace)}"] if trace is not None else []
    lines += [f"Open loop: {shown_path(open_loop)}"] if open_loop is not None else []
    lines += [f"Episodes: {shown_path(output)}"] if output is not None else []
    for line in lines:
        say(console, line)


def about(evaluation: Evaluation) -> dict[str, Any]:
    """Return what was played and its statistics, as plain JSON."""
    return {
        "policy": str(evaluation.source.folder),
        "chosen": evaluation.source.chosen,
        "algorithm": evaluation.algorithm,
        "env": evaluation.environment,
        "env_config": evaluation.env_config,
        "seed": evaluation.seed,
        "num_envs": evaluation.num_envs,
        "explore": evaluation.explore,
        "interrupted": evaluation.interrupted,
        "notes": evaluation.notes,
        "statistics": evaluation.summary.as_json(),
        **_several(evaluation),
        **_versus(evaluation),
        "wall_s": evaluation.wall_s,
    }


def _statistics(evaluation: Evaluation) -> list[str]:
    s = evaluation.summary
    plural = "episode" if s.episodes == 1 else "episodes"
    first = (
        f"{evaluation.environment}: return {s.mean:.2f} ± {s.std:.2f} over {s.episodes} {plural}"
    )
    if s.episodes == 1:
        second = f"length {s.length_mean:.0f}; {_ended(s.terminated, s.truncated)}"
        return [first, second, s.caution]
    lines = [
        f"{first}; 95 % interval of the mean {_interval(s.mean_interval)}",
        f"IQM {s.iqm:.2f}, 95 % interval {_interval(s.iqm_interval)}; min {s.min:.2f}, "
        f"max {s.max:.2f}; mean length {s.length_mean:.1f}; {_ended(s.terminated, s.truncated)}",
    ]
    if s.min == s.max:
        lines.append("All episodes had the same return: the intervals show no spread.")
    return [*lines, s.caution] if s.caution else lines


def _several(evaluation: Evaluation) -> dict[str, Any]:
    """Return what each policy's agents, and each agent, returned; nothing of one agent."""
    return {
        kind: {
            name: {
                "return_mean": finite_or_none(fmean(returns)),
                "return_min": finite_or_none(min(returns)),
                "return_max": finite_or_none(max(returns)),
                "count": len(returns),
            }
            for name, returns in sorted(by_name.items())
        }
        for kind, by_name in (("modules", evaluation.modules), ("agents", evaluation.agents))
        if by_name
    }


def _versus(evaluation: Evaluation) -> dict[str, Any]:
    if evaluation.versus is None:
        return {}
    from experiments.commands.evaluation.standings import standings_json

    return {"against": standings_json(evaluation.versus)}


def _game(evaluation: Evaluation, record: EpisodeRecord) -> dict[str, Any]:
    """Return the seat and the result of a game against an opponent; nothing of other episodes."""
    if evaluation.versus is None:
        return {}
    game = evaluation.versus.games[record.episode]
    return {"seat": str(game.seat), "result": game.result}


def _agent_lines(evaluation: Evaluation) -> list[str]:
    return [
        f"{kind} {name}: return {fmean(returns):.2f}, from {min(returns):.2f} to {max(returns):.2f}"
        for kind, by_name in (("Policy", evaluation.modules), ("Agent", evaluation.agents))
        for name, returns in sorted(by_name.items())
    ]


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.2f} to {ends[1]:.2f}"


def _ended(terminated: int, truncated: int) -> str:
    return f"{terminated} terminated, {truncated} truncated"


def _show_table(evaluation: Evaluation, console: Console, *, whole: bool) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    marks, chosen = _chosen(evaluation.episodes, whole)
    has_videos = bool(evaluation.videos)
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("episode", "return", "length"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    table.add_column("seed", justify="right", no_wrap=True)
    table.add_column("slot", justify="right", no_wrap=True)
    if evaluation.versus is not None:
        table.add_column("seat", no_wrap=True)
        table.add_column("result", no_wrap=True)
    if has_videos:
        table.add_column("video", overflow="fold")
    if marks:
        table.add_column("", no_wrap=True)
    last: int | None = None
    for place in chosen:
        record = evaluation.episodes[place]
        if last is not None and place > last + 1:
            table.add_row("…")
        last = place
        outcome = record.outcome
        ends = [n for n in ("terminated", "truncated") if getattr(outcome, n)]
        cells = [
            str(record.episode),
            f"{outcome.total:.2f}",
            f"{outcome.length:,}",
            ", ".join(ends),
            str(record.seed),
            f"{record.slot} of {record.num_slots}" if record.shares_seed else "",
        ]
        cells += map(escape, _game(evaluation, record).values())
        if has_videos:
            cells.append(escape(_video(evaluation, record) or ""))
        if marks:
            cells.append(marks.get(place, ""))
        table.add_row(*cells)
    if last is not None and last + 1 < len(evaluation.episodes):
        table.add_row("…")
    console.print(table)


def _chosen(episodes: list[EpisodeRecord], whole: bool) -> tuple[dict[int, str], list[int]]:
    """Return marks by place, and the places of the rows that are shown."""
    places = list(range(len(episodes)))
    if whole or len(episodes) <= _FIRST + 2 * _ENDS:
        return {}, places
    ranked = sorted(places, key=lambda place: episodes[place].outcome.total)
    marks = dict.fromkeys(ranked[:_ENDS], "worst") | dict.fromkeys(ranked[-_ENDS:], "best")
    if episodes[ranked[0]].outcome.total == episodes[ranked[-1]].outcome.total:
        marks = {}
    return marks, sorted({*places[:_FIRST], *marks})


def _video(evaluation: Evaluation, record: EpisodeRecord) -> str | None:
    path = evaluation.videos.get(record.episode)
    return None if path is None else shown_path(path)


def write_episodes(evaluation: Evaluation, path: Path) -> None:
    """Write a row for each episode as CSV, or as parquet, whose `attrs` say what `about` does.

    Raises:
        ResultsError: The file cannot be written.
    """
    import pandas as pd

    from analysis.frames.write import write_frame

    frame = pd.DataFrame(rows_of(evaluation))
    frame.attrs.update(about(evaluation))
    write_frame(frame, path)
