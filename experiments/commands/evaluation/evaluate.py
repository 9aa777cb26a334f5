"""Play episodes with a policy that training left in a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.evaluated import (
    Evaluation,
    names_of,
    notes_of,
    shown_progress,
    stopped_by_ctrl_c,
)
from experiments.commands.evaluation.played_policy import played_policy
from experiments.commands.evaluation.policy_sources import find_policy, plays_agents
from experiments.errors import ExperimentError
from trainables.runtime.evaluation.watch import Watch

if TYPE_CHECKING:
    from rich.console import Console


def evaluate_folder(
    folder: Path,
    *,
    episodes: int = 10,
    seed: int = 0,
    env: str | None = None,
    env_config: dict[str, Any] | None = None,
    explore: bool | None = None,
    num_envs: int | None = None,
    max_steps: int | None = None,
    algo: str | None = None,
    trust: Collection[str] = (),
    policy_mapping: str | None = None,
    opponent: str | None = None,
    seats: Sequence[str] = (),
    policy_id: str | None = None,
    terminal: Console | None = None,
    videos: Sequence[Path] = (),
    trace: Path | None = None,
    trace_images: bool = False,
    open_loop: Path | None = None,
    progress: Console | None = None,
) -> Evaluation:
    """Evaluate the policy that a folder stands for.

    By default as its training evaluated it: these are the episodes that `Algorithm.evaluate` plays
    with `evaluation_duration` = `episodes` and the setting `seed` = `seed`.

    Args:
        folder: An exported policy of any format, a checkpoint, a trial or a sweep, see
            `find_policy`.
        episodes: How many to play.
        seed: The seed of the episodes.
        env: The environment; by default the one of the training's evaluations.
        env_config: Changes to what the environment is made with in the training's evaluations; of
            another environment, all of it.
        explore: Sample actions instead of taking the most likely; by default as the training's
            evaluations did.
        num_envs: Slots that are stepped together. Another number plays other episodes.
        max_steps: Cut episodes off that are longer.
        algo: The algorithm that must have trained the policy; None: whichever it was.
        trust: Code that the policy may name, as `module:name`: connectors, a custom model, the
            environment; and `torch.export`, for a `model.pt2`.
        policy_mapping: Which policy acts for an agent, of several: `agent=policy,…,*=policy`, or
            `module:name` of a function; None: as trained.
        opponent: Who plays against it, in an environment of several agents: `human`, `random`,
            `look_ahead`, `module:name` of a class with `compute_actions` or of a function, the
            folder of another policy, or the id of one in the same folder; None: all agents as
            trained.
        seats: The agents that the policy acts for in turn, against an opponent; by default all
            that it was trained for.
        policy_id: Which policy plays against an opponent, of several.
        terminal: Where a human plays.
        videos: Files for the first episodes, one each; against an opponent there are none.
        trace: A parquet file for every step.
        trace_images: Whether observations of more than `MAX_ELEMENTS` numbers go there, too.
        open_loop: A picture, or a film, of what a world model expects of the first episode.
        progress: Where progress is shown.

    Returns:
        The episodes, and what was done. Ctrl-C ends it early: the episodes that ended are kept.

    Raises:
        LeftEarly: A human left before a game had ended.
        ExperimentError: The folder is missing, another algorithm trained the policy, or no
            environment is known.
        ResultsError: The folder holds no policy.
        ConfigError: The policy is damaged or names code that is not trusted, or the environment is
            unknown, does not fit or cannot be filmed.
        KeyboardInterrupt: Ctrl-C came before an episode had ended.
    """
    from trainables.runtime.envs.make import is_filmed_apart
    from trainables.runtime.envs.video import check_encoder
    from trainables.runtime.evaluation.play import evaluate_policy
    from trainables.runtime.evaluation.watch import EpisodeLog

    if videos:
        check_encoder("--video")
        # Frames are drawn in memory: no display is to be looked for.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    source = find_policy(folder)
    if plays_agents(source):
        if open_loop is not None:
            raise ExperimentError("--open-loop: no policy of several agents has a world model")
        if opponent is not None:
            if policy_mapping is not None:
                raise ExperimentError(
                    "--policy-mapping: not allowed with --opponent; choose the agent with --seat"
                )
            if videos:
                raise ExperimentError("--video: games against an --opponent are not filmed")
            from experiments.commands.evaluation.against import evaluate_against

            return evaluate_against(
                source,
                opponent,
                seats=seats,
                policy_id=policy_id,
                episodes=episodes,
                seed=seed,
                env=env,
                env_config=env_config,
                explore=explore,
                num_envs=num_envs,
                max_steps=max_steps,
                algo=algo,
                trust=trust,
                trace=trace,
                progress=progress,
                terminal=terminal,
            )
        from experiments.commands.evaluation.agents import evaluate_agents_of

        return evaluate_agents_of(
            source,
            episodes=episodes,
            seed=seed,
            env=env,
            env_config=env_config,
            explore=explore,
            num_envs=num_envs,
            max_steps=max_steps,
            algo=algo,
            trust=trust,
            policy_mapping=policy_mapping,
            videos=videos,
            trace=trace,
            progress=progress,
        )
    if policy_mapping is not None:
        raise ExperimentError(f"--policy-mapping: {source.folder} is a policy of one agent")
    if opponent is not None:
        raise ExperimentError(f"--opponent: {source.folder} is a policy of one agent, or of a team")
    played = played_policy(source, env, env_config, trust)
    policy, environment = played.policy, played.environment
    env_config, as_trained = played.env_config, played.as_trained
    trained_by = policy.metadata.get("algorithm")
    if algo is not None and algo not in names_of(policy):
        raise ExperimentError(f"{source.folder} was trained by {trained_by}, not by {algo}")
    explore = as_trained["explore"] if explore is None else explore
    num_envs = num_envs or as_trained["num_envs_per_env_runner"]
    log = EpisodeLog()
    watches: list[Watch] = [log]
    first = None
    if open_loop is not None:
        from experiments.running.pictures.open_loop import first_episode_of

        first = first_episode_of(policy, open_loop)
        watches.append(first)
    left_out: list[str] = []
    with ExitStack() as stack:
        if trace is not None:
            from experiments.commands.evaluation.episode_trace import TraceWriter

            about = {
                "policy": str(source.folder),
                "algorithm": trained_by,
                "env": environment,
                "env_config": env_config,
                "seed": seed,
                "num_envs": num_envs,
                "explore": explore,
                "episodes": episodes,
            }
            spaces = policy.observation_space, policy.action_space
            writer = TraceWriter(trace, *spaces, about, with_images=trace_images)
            watches.append(stack.enter_context(writer))
            left_out = writer.left_out
        if progress is not None:
            watches.append(stack.enter_context(shown_progress(episodes, progress)))
        stopped = stack.enter_context(stopped_by_ctrl_c())
        start = time.perf_counter()
        evaluate_policy(
            policy,
            environment,
            env_config,
            num_episodes=episodes,
            seed=seed,
            explore=explore,
            num_envs=num_envs,
            time_limit=max_steps,
            watches=watches,
            videos=videos[:episodes],
            stopped=stopped,
        )
        wall_s = time.perf_counter() - start
    if not len(log):
        raise KeyboardInterrupt
    if first is not None and open_loop is not None:
        from experiments.running.pictures.open_loop import draw_open_loop_of

        draw_open_loop_of(first, open_loop)
    return Evaluation(
        source,
        trained_by,
        environment,
        env_config,
        seed,
        num_envs,
        explore,
        log.episodes,
        episodes,
        wall_s,
        {number: path for number, path in enumerate(videos[:episodes]) if path.is_file()},
        notes_of(len(log), episodes, bool(videos) and is_filmed_apart(environment), left_out),
    )
