"""Play episodes with a policy that training left in a folder."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.played_policy import played_policy
from experiments.commands.evaluation.policy_sources import PolicySource, find_policy, plays_agents
from experiments.errors import ExperimentError
from trainables.runtime.evaluation.watch import Outcome, Watch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from experiments.commands.evaluation.summary import Summary
    from trainables.core.policy.actable import Actable
    from trainables.runtime.evaluation.watch import EpisodeRecord


@dataclass(frozen=True)
class Evaluation:
    """What was played.

    Attributes:
        source: Where the policy comes from.
        algorithm: The algorithm that trained it.
        environment: The environment that it played in.
        env_config: The environment's settings.
        seed: The seed of the episodes.
        num_envs: Slots that were stepped together.
        explore: Whether actions were sampled.
        episodes: Those that ended, in order.
        num_asked: How many were asked for.
        wall_s: Seconds that playing took.
        videos: The files of the first episodes, by number.
        notes: What is to be known about the numbers.
        modules: Of several agents the returns of the agents that each policy acted for, by its id.
        agents: Their returns by agent.
    """

    source: PolicySource
    algorithm: str | None
    environment: str
    env_config: dict[str, Any] | None
    seed: int
    num_envs: int
    explore: bool
    episodes: list[EpisodeRecord]
    num_asked: int
    wall_s: float
    videos: dict[int, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    modules: dict[str, list[float]] = field(default_factory=dict)
    agents: dict[str, list[float]] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether episodes are missing."""
        return len(self.episodes) < self.num_asked

    @property
    def summary(self) -> Summary:
        """Statistics of the episodes."""
        from experiments.commands.evaluation.summary import summary_of

        return summary_of(self.episodes)


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
    videos: Sequence[Path] = (),
    trace: Path | None = None,
    trace_images: bool = False,
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
        videos: Files for the first episodes, one each; with several agents there are none.
        trace: A parquet file for every step.
        trace_images: Whether observations of more than `MAX_ELEMENTS` numbers go there, too.
        progress: Where progress is shown.

    Returns:
        The episodes, and what was done. Ctrl-C ends it early: the episodes that ended are kept.

    Raises:
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


def names_of(policy: Actable) -> set[Any]:
    """What the algorithm of a policy is called: by its class, too, where that is the user's."""
    from trainables.runtime.evaluation.needed_trust import TRAINABLE

    own = str(policy.metadata.get(TRAINABLE, ""))
    return {policy.metadata.get("algorithm"), own, own.partition(":")[2]}


def notes_of(ended: int, asked: int, filmed_apart: bool, left_out: list[str]) -> list[str]:
    """Return what is to be known about the numbers of an evaluation."""
    notes = []
    if ended < asked:
        notes.append(
            f"Interrupted: {ended} of {asked} episodes had ended. Those that were cut off are "
            "missing, long ones rather than short ones."
        )
    if filmed_apart:
        notes.append(
            "This environment steps all slots at once, where none can be filmed: the filmed "
            "episodes, and those beside them, are of separate environments, with other random "
            "streams than without a video."
        )
    if left_out:
        notes.append(
            f"Left out of the trace, because they are large: {', '.join(left_out)} "
            "(--trace-images takes them in)."
        )
    return notes


@contextmanager
def stopped_by_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; the second one interrupts as usual."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def press(signum: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class _Shown(Watch):
    def __init__(self, progress: Progress, total: int):
        self._progress = progress
        self._task = progress.add_task("episodes", total=total, mean="")
        self._num, self._sum = 0, 0.0

    def ended(self, slot: int, outcome: Outcome) -> None:
        self._num, self._sum = self._num + 1, self._sum + outcome.total
        mean = f"return {self._sum / self._num:.2f} so far"
        self._progress.update(self._task, advance=1, mean=mean)


@contextmanager
def shown_progress(total: int, console: Console) -> Iterator[Watch]:
    """Show a bar that counts episodes; nothing where there is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[mean]}"),
    )
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        yield _Shown(progress, total)
