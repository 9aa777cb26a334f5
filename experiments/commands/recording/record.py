"""Play episodes with a policy, and write them as recorded experience."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.evaluation.evaluated import shown_progress, stopped_by_ctrl_c
from experiments.commands.evaluation.played_policy import (
    NUM_ENVS,
    PlayedPolicy,
    described_policy,
    played_policy,
)
from experiments.commands.evaluation.policy_sources import PolicySource, find_policy, plays_agents
from experiments.errors import ExperimentError
from experiments.output_files import why_not_writable

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.commands.evaluation.played_agents import PlayedAgents
    from trainables.runtime.evaluation.record import Behaves
    from trainables.runtime.evaluation.watch import EpisodeRecord

RANDOM = "random"
"""In the place of a policy: actions are uniformly random."""

_UNTRAINED = {"explore": True, "num_envs_per_env_runner": NUM_ENVS}
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
        of_several: Whether several agents played.
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
    of_several: bool = False

    @property
    def parts(self) -> list[Path]:
        """Folders whose rows belong together: of several policies one each, else the folder."""
        inside = [path for path in self.folder.iterdir() if path.is_dir()]
        return sorted(inside) if self.of_several else [self.folder]

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
    policy_mapping: str | None = None,
    progress: Console | None = None,
) -> Recording:
    """Record episodes: whole files or none.

    Of several agents each one's rows are written, to a folder for each policy that acted.

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
        policy_mapping: Which of several policies acts for which agent: `agent=policy,…,*=policy`,
            or `module:name` of a function; by default as in training.
        progress: Where progress is shown.

    Returns:
        What was recorded. Ctrl-C ends it early: the episodes that ended are kept.

    Raises:
        ExperimentError: The folder cannot be written, or holds something already; or the policy is
            missing; or several agents are to mix random actions in.
        ConfigError: The policy or the environment does not work, see `evaluate_folder`; or actions
            without bounds are to be random.
        KeyboardInterrupt: Ctrl-C came before an episode had ended.
    """
    from trainables.runtime.evaluation.record import Behaves, record_episodes, uniform_policy

    check_target(folder, append=append)
    source = None if str(policy) == RANDOM else find_policy(Path(policy))
    several = _several_agents(source, env, env_config, explore, num_envs, trust, policy_mapping)
    if several is not None:
        if epsilon or random_share:
            raise ExperimentError(
                "--epsilon and --random-share are not possible with several agents; allowed: "
                "recordings of several policies in one folder (--append), also of `random`"
            )
        return _record_agents(
            several,
            folder,
            described_policy(source),
            episodes=episodes,
            seed=seed,
            max_steps=max_steps,
            format_=format_,
            progress=progress,
        )
    if policy_mapping is not None:
        raise ExperimentError("--policy-mapping: not allowed with one agent")
    if source is None:
        assert env is not None
        played = PlayedPolicy(
            uniform_policy(env, env_config),
            None,
            env,
            env_config,
            _UNTRAINED,
            described_policy(None),
        )
    else:
        played = played_policy(source, env, env_config, trust)
    behaves = Behaves(
        episodes,
        seed,
        epsilon,
        random_share,
        played.as_trained["explore"] if explore is None else explore,
        num_envs or played.as_trained["num_envs_per_env_runner"],
        max_steps,
    )
    before = _sizes(folder)
    with ExitStack() as stack:
        shown = (
            [] if progress is None else [stack.enter_context(shown_progress(episodes, progress))]
        )
        stopped = stack.enter_context(stopped_by_ctrl_c())
        start = time.perf_counter()
        recorded = record_episodes(
            played.policy,
            played.environment,
            played.env_config,
            folder,
            behaves,
            name=_name_of(played, behaves),
            format=format_,
            watches=shown,
            stopped=stopped,
        )
        wall_s = time.perf_counter() - start
    if not recorded.episodes:
        raise KeyboardInterrupt
    num_files, nbytes = _written(folder, before)
    return Recording(
        folder,
        played.described,
        played.environment,
        recorded.episodes,
        recorded.num_random,
        episodes,
        recorded.num_steps,
        num_files,
        nbytes,
        wall_s,
    )


def _several_agents(
    source: PolicySource | None,
    env: str | None,
    env_config: dict[str, Any] | None,
    explore: bool | None,
    num_envs: int | None,
    trust: Collection[str],
    policy_mapping: str | None,
) -> PlayedAgents | None:
    """Return the policies that play together; None: one agent plays.

    Args:
        source: Where they come from; None: actions are random.
        env: See `record_folder`, as the others.
        env_config: See `record_folder`.
        explore: See `record_folder`.
        num_envs: See `record_folder`.
        trust: See `record_folder`.
        policy_mapping: See `record_folder`.
    """
    from experiments.commands.evaluation.played_agents import played_agents
    from experiments.commands.recording.record_agents import random_agents

    if source is None:
        if env is None:
            raise ExperimentError(f"record {RANDOM}: name the environment with --env")
        return random_agents(env, env_config, num_envs or NUM_ENVS)
    if not plays_agents(source):
        return None
    return played_agents(
        source,
        env=env,
        env_config=env_config,
        explore=explore,
        num_envs=num_envs,
        trust=trust,
        policy_mapping=policy_mapping,
    )


def _record_agents(
    played: PlayedAgents,
    folder: Path,
    described: str,
    *,
    episodes: int,
    seed: int,
    max_steps: int | None,
    format_: str,
    progress: Console | None,
) -> Recording:
    from experiments.commands.recording.record_agents import record_played_agents

    config = played.config
    how = (episodes, seed, max_steps, config.explore, config.num_envs_per_env_runner)
    told = [described, played.environment, played.env_config, how, config.policy_mapping_fn]
    before = _sizes(folder)
    recorded = record_played_agents(
        played,
        folder,
        name=_short_name(told),
        episodes=episodes,
        seed=seed,
        max_steps=max_steps,
        format_=format_,
        progress=progress,
    )
    if not recorded.episodes:
        raise KeyboardInterrupt
    num_files, nbytes = _written(folder, before)
    return Recording(
        folder,
        described,
        played.environment,
        recorded.episodes,
        0 if played.policies else len(recorded.episodes),
        episodes,
        recorded.num_steps,
        num_files,
        nbytes,
        recorded.wall_s,
        of_several=True,
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
            f"{folder} is not empty, and is never overwritten: add to its data with --append, or "
            "choose another folder"
        )


def _name_of(played: PlayedPolicy, behaves: Behaves) -> str:
    """Return a short name of a recording: the same one for the same episodes."""
    told = [played.described, str(played.environment), played.env_config, asdict(behaves)]
    return _short_name(told)


def _short_name(told: list[Any]) -> str:
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()[:8]


def _written(folder: Path, before: dict[Path, int]) -> tuple[int, int]:
    """Return how many files are new, or longer, than they were, and their size."""
    written = [size for path, size in _sizes(folder).items() if before.get(path) != size]
    return len(written), sum(written)


def _sizes(folder: Path) -> dict[Path, int]:
    if not folder.is_dir():
        return {}
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
