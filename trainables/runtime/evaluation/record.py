"""Episodes become recorded experience: of a policy, with random actions or episodes mixed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.core.policy.actable import Actable
from trainables.core.policy.behaviour import Behaviour, UniformPolicy
from trainables.runtime.envs.make import EnvName, make_vector_env
from trainables.runtime.evaluation.play import evaluate_policy
from trainables.runtime.evaluation.recorder import EpisodeRecorder
from trainables.runtime.evaluation.watch import EpisodeLog, EpisodeRecord, Watch
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.writers import make_writer


@dataclass(frozen=True)
class Behaves:
    """How episodes are played.

    Attributes:
        num_episodes: How many.
        seed: Their seed.
        epsilon: The probability of each action to be uniformly random instead.
        random_share: The share of episodes that are uniformly random as a whole; which ones is
            drawn by the seed.
        explore: Whether the policy samples actions instead of taking the most likely ones.
        num_envs: Slots that are stepped together. Another number plays other episodes.
        time_limit: Longer episodes are cut off.
    """

    num_episodes: int
    seed: int = 0
    epsilon: float = 0.0
    random_share: float = 0.0
    explore: bool = False
    num_envs: int = 8
    time_limit: int | None = None

    def random_episodes(self) -> np.ndarray | None:
        """Return which episodes are uniformly random, `[num_episodes]` bool; None: none is."""
        count = round(self.random_share * self.num_episodes)
        if not count:
            return None
        chosen = np.zeros(self.num_episodes, bool)
        # A stream of its own: other episodes are those that are played without random ones.
        order = np.random.default_rng([self.seed, 18]).permutation(self.num_episodes)
        chosen[order[:count]] = True
        return chosen


@dataclass(frozen=True)
class Recorded:
    """What was recorded.

    Attributes:
        episodes: Those that ended, in order.
        num_random: How many of them were uniformly random.
        num_steps: Steps that were written.
    """

    episodes: list[EpisodeRecord]
    num_random: int
    num_steps: int


def record_episodes(
    policy: Actable,
    env: EnvName,
    env_config: dict[str, Any] | None,
    folder: Path,
    behaves: Behaves,
    *,
    name: str,
    format: str = "parquet",
    watches: Sequence[Watch] = (),
    stopped: Callable[[], bool] = lambda: False,
) -> Recorded:
    """Play episodes and write them: whole files or none.

    Every slot plays one episode at a time, so that short ones are not favoured: these are the
    episodes of `evaluate_policy`.

    Args:
        policy: The policy that acts.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        folder: Where the files will lie.
        behaves: How many episodes, and how they are played.
        name: Tells the episodes and files of several recordings in a folder apart.
        format: `parquet`, `json` or `minari`.
        watches: What else looks on.
        stopped: Asked before each step, perhaps set by a signal.

    Raises:
        ConfigError: The environment does not work, or actions without bounds are to be random.
        DataError: The folder cannot be written.
    """
    chosen = behaves.random_episodes()
    behaviour = Behaviour(policy, epsilon=behaves.epsilon, may_be_random=chosen is not None)
    spaces = DataSpaces(policy.observation_space, policy.action_space)
    writer = make_writer(folder, spaces, format=format, prefix=f"data-{name}", env_id=str(env))
    log, recorder = EpisodeLog(), EpisodeRecorder(behaviour, writer, spaces, name, chosen)
    try:
        with _one_thread():
            evaluate_policy(
                behaviour,
                env,
                env_config,
                num_episodes=behaves.num_episodes,
                seed=behaves.seed,
                explore=behaves.explore,
                num_envs=behaves.num_envs,
                time_limit=behaves.time_limit,
                watches=[log, recorder, *watches],
                stopped=stopped,
            )
    finally:
        writer.close()
    random = 0 if chosen is None else sum(bool(chosen[each.episode]) for each in log.episodes)
    return Recorded(log.episodes, random, recorder.num_steps)


def uniform_policy(env: EnvName, env_config: dict[str, Any] | None) -> UniformPolicy:
    """Return a policy whose actions are uniformly random, for an environment.

    Raises:
        ConfigError: if the environment cannot be made, or its actions have no bounds.
    """
    made = make_vector_env(env, env_config, 1)
    try:
        return UniformPolicy(made.single_observation_space, made.single_action_space)
    finally:
        made.close()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Have torch compute on one thread: what a few slots need is over before others wake up."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
