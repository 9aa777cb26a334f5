"""Play episodes with a policy, and write them as recorded experience."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.commands.evaluation.evaluate import shown_progress, stopped_by_ctrl_c
from experiments.commands.evaluation.played_policy import NUM_ENVS, PlayedPolicy, played_policy
from experiments.errors import ExperimentError
from experiments.output_files import why_not_writable

if TYPE_CHECKING:
    from rich.console import Console

    from trainables.core.policy.actable import Actable
    from trainables.runtime.evaluation.watch import EpisodeRecord

RANDOM = "random"
"""In the place of a policy: actions are uniformly random."""

FORMATS = ("parquet", "json", "minari")


@dataclass(frozen=True)
class Recording:
    """What was recorded.

    Attributes:
        folder: Where it lies.
        policy: Which policy played, in words.
        environment: The environment.
        episodes: Those that ended, in order.
        num_random: How many of them were uniformly random.
        num_asked: How many episodes were asked for.
        num_steps: Steps that were written.
        num_files: The files that were written.
        nbytes: Their size.
        wall_s: Seconds that playing took.
    """

    folder: Path
    policy: str
    environment: str
    episodes: list[EpisodeRecord]
    num_random: int
    num_asked: int
    num_steps: int
    num_files: int
    nbytes: int
    wall_s: float

    @property
    def interrupted(self) -> bool:
        """Whether episodes are missing."""
        return len(self.episodes) < self.num_asked


def record_folder(
    policy: str | Path,
    folder: Path,
    *,
    episodes: int = 100,
    format_: str = "parquet",
    epsilon: float = 0.0,
    random_share: float = 0.0,
    seed: int = 0,
    env: str | None = None,
    env_config: dict[str, Any] | None = None,
    explore: bool | None = None,
    num_envs: int | None = None,
    max_steps: int | None = None,
    trust: Collection[str] = (),
    append: bool = False,
    progress: Console | None = None,
) -> Recording:
    """Record episodes: whole files or none.

    Every slot plays one episode at a time, so that short ones are not favoured: these are the
    episodes of `tunescape evaluate` with the same seed.

    Args:
        policy: What `tunescape evaluate` plays with, see `find_policy`; or `random`: every action
            is uniformly random.
        folder: Where the files will lie.
        episodes: How many to play.
        format_: `parquet`, `json` or `minari`.
        epsilon: The probability of each action to be uniformly random instead.
        random_share: The share of episodes that are uniformly random as a whole; which ones is
            drawn by the seed.
        seed: The seed of the episodes.
        env: The environment; by default the one of the training's evaluations.
        env_config: Changes to what it is made with.
        explore: Sample actions instead of taking the most likely; by default as the training's
            evaluations did.
        num_envs: Slots that are stepped together. Another number plays other episodes.
        max_steps: Cut episodes off that are longer.
        trust: Code that the policy may name, as `module:name`.
        append: Whether the folder may hold data already, which are kept.
        progress: Where progress is shown.

    Returns:
        What was recorded. Ctrl-C ends it early: the episodes that ended are kept.

    Raises:
        ExperimentError: The folder cannot be written, or holds something already; or the policy is
            missing.
        ConfigError: The policy or the environment does not work, see `evaluate_folder`; or actions
            without bounds are to be random.
        KeyboardInterrupt: Ctrl-C came before an episode had ended.
    """
    from trainables.core.policy.behaviour import Behaviour
    from trainables.runtime.evaluation.play import evaluate_policy
    from trainables.runtime.evaluation.recorder import EpisodeRecorder
    from trainables.runtime.evaluation.watch import EpisodeLog, Watch
    from trainables.runtime.offline.episode import DataSpaces
    from trainables.runtime.offline.writers import make_writer

    check_target(folder, append=append)
    chosen = _random_episodes(episodes, random_share, seed)
    played = _uniform(env, env_config, num_envs) if str(policy) == RANDOM else None
    played = played or played_policy(Path(policy), env, env_config, trust)
    explore = played.as_trained["explore"] if explore is None else explore
    behaviour = Behaviour(played.policy, epsilon=epsilon, may_be_random=chosen is not None)
    spaces = DataSpaces(played.policy.observation_space, played.policy.action_space)
    before = _sizes(folder)
    name = _name_of(played, seed, epsilon, random_share, explore, episodes, max_steps)
    writer = make_writer(
        folder, spaces, format=format_, prefix=f"data-{name}", env_id=str(played.environment)
    )
    log = EpisodeLog()
    recorder = EpisodeRecorder(behaviour, writer, spaces, name, chosen)
    watches: list[Watch] = [log, recorder]
    with ExitStack() as stack:
        stack.callback(writer.close)
        if progress is not None:
            watches.append(stack.enter_context(shown_progress(episodes, progress)))
        stopped = stack.enter_context(stopped_by_ctrl_c())
        stack.enter_context(_one_thread())
        start = time.perf_counter()
        evaluate_policy(
            behaviour,
            played.environment,
            played.env_config,
            num_episodes=episodes,
            seed=seed,
            explore=explore,
            num_envs=num_envs or played.as_trained["num_envs_per_env_runner"],
            time_limit=max_steps,
            watches=watches,
            stopped=stopped,
        )
        wall_s = time.perf_counter() - start
    if not len(log):
        raise KeyboardInterrupt
    records = log.episodes
    after = _sizes(folder)
    written = {path: size for path, size in after.items() if before.get(path) != size}
    return Recording(
        folder,
        played.described,
        played.environment,
        records,
        0 if chosen is None else sum(bool(chosen[record.episode]) for record in records),
        episodes,
        recorder.num_steps,
        len(written),
        sum(written.values()),
        wall_s,
    )


def check_target(folder: Path, *, append: bool) -> None:
    """See that data can be written to a folder, and that none are mixed up.

    Raises:
        ExperimentError: It cannot be written, or holds something that is not to be added to.
    """
    problem = why_not_writable(folder)
    if problem is not None:
        raise ExperimentError(f"{folder}: {problem}")
    if folder.is_file():
        raise ExperimentError(f"{folder} is a file; allowed: a folder")
    if not append and folder.is_dir() and any(folder.iterdir()):
        raise ExperimentError(
            f"{folder} holds something already, and is never overwritten: --append adds to the "
            "data there, or choose another folder"
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Have torch compute on one thread: what a few slots need is over before others wake up."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _random_episodes(episodes: int, share: float, seed: int) -> np.ndarray | None:
    """Return which episodes are random, `[episodes]`; exactly the share of them, but for halves."""
    count = round(share * episodes)
    if not count:
        return None
    chosen = np.zeros(episodes, bool)
    # A stream of its own: the policy's episodes are those without random ones.
    chosen[np.random.default_rng([seed, 18]).permutation(episodes)[:count]] = True
    return chosen


def _uniform(
    env: str | None, env_config: dict[str, Any] | None, num_envs: int | None
) -> PlayedPolicy:
    """Return a policy that knows nothing, for an environment."""
    from trainables.core.policy.behaviour import UniformPolicy
    from trainables.runtime.envs.make import make_vector_env

    if env is None:
        raise ExperimentError(f"record {RANDOM}: name the environment with --env")
    made = make_vector_env(env, env_config, 1)
    try:
        spaces = made.single_observation_space, made.single_action_space
    finally:
        made.close()
    policy: Actable = UniformPolicy(*spaces)
    told = {"explore": True, "num_envs_per_env_runner": num_envs or NUM_ENVS}
    return PlayedPolicy(policy, None, env, env_config, told, "uniformly random actions")


def _name_of(played: PlayedPolicy, *what: Any) -> str:
    """Return a short name of a recording: the same one for the same episodes."""
    told = [played.described, str(played.environment), played.env_config, *what]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()[:8]


def _sizes(folder: Path) -> dict[Path, int]:
    if not folder.is_dir():
        return {}
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
