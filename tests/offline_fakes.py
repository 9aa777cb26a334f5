"""Recorded experience that no file holds: episodes of a space, of an environment, as a source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from trainables.core.data.layout import ObservationLayout
from trainables.runtime.offline.episode import DataError, DataSpaces, Episode
from trainables.runtime.offline.read_options import ReadOptions

CARTPOLE = DataSpaces(
    gym.make("CartPole-v1").observation_space, gym.make("CartPole-v1").action_space
)
Act = Callable[[Any], Any]


class FakeSource:
    """A source of the episodes that it is given; see `Source`.

    Args:
        episodes: What it yields, in this order.
        spaces: What it says of them.
        states_spaces: Whether its "files" state the spaces.
    """

    def __init__(
        self, episodes: Sequence[Episode], spaces: DataSpaces, *, states_spaces: bool = True
    ):
        self.name = "fake"
        self.files = list(dict.fromkeys(episode.file for episode in episodes)) or ["fake"]
        self.given = list(episodes)
        self.options = ReadOptions()
        self.reads = 0  # how often episodes were asked for
        self._spaces, self._states_spaces = spaces, states_spaces

    def digest(self) -> str:
        digest = hashlib.sha256()
        for episode in self.given:
            for part in (episode.obs, episode.actions, episode.rewards, episode.logp):
                digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
            rest = (episode.terminated, episode.truncated, episode.episode_id, episode.first_step)
            digest.update(repr(rest).encode())
        return digest.hexdigest()

    def spaces(self) -> DataSpaces | None:
        return self._spaces if self._states_spaces else None

    def infer_spaces(self) -> DataSpaces:
        if self._spaces is None:
            raise DataError(f"{self.name}: nothing says the spaces")
        return self._spaces

    def episodes(self, spaces: DataSpaces) -> Iterator[Episode]:
        self.reads += 1
        yield from self.given


def random_episodes(
    spaces: DataSpaces,
    lengths: Sequence[int],
    seed: int = 0,
    ends: Sequence[str] = ("terminated", "truncated", "cut"),
) -> list[Episode]:
    """Episodes of random observations, actions and rewards, of so many rows each.

    Args:
        spaces: What they are of.
        lengths: Rows of each.
        seed: Of all that is random.
        ends: How they end, one after another: terminated, truncated, or cut amid the episode.
    """
    rng = np.random.default_rng(seed)
    for space in spaces:
        space.seed(int(rng.integers(2**31)))
    episodes = []
    for number, length in enumerate(lengths):
        end = ends[number % len(ends)]
        episodes.append(
            Episode(
                obs=_samples(spaces.observation, spaces.obs_layout, length + 1),
                actions=_samples(spaces.action, spaces.action_layout, length),
                rewards=rng.normal(size=length).astype(np.float32),
                terminated=end == "terminated",
                truncated=end == "truncated",
                episode_id=f"{seed}-{number}",
                file="fake",
                row=sum(lengths[:number]),
            )
        )
    return episodes


def _samples(space: gym.Space, layout: ObservationLayout, count: int) -> np.ndarray:
    return np.concatenate([layout.rows(space.sample(), batched=False) for _ in range(count)])


def balancing(obs: Any) -> int:
    """What holds CartPole's pole up for some hundred steps: push to where it falls."""
    return int(obs[2] + 0.5 * obs[3] > 0)


def played_episodes(
    count: int,
    seed: int = 0,
    act: Act | None = None,
    random_share: float = 0.0,
    env: str = "CartPole-v1",
    **options: Any,
) -> list[Episode]:
    """Whole episodes of an environment, as somebody played it who acts at random in part.

    Args:
        count: Number of episodes.
        seed: Of the environment and the actions.
        act: What is done after an observation; None: all actions are random.
        random_share: How many of the actions are random.
        env: The environment's id.
        **options: Of `gymnasium.make`.
    """
    made, rng = gym.make(env, **options), np.random.default_rng(seed)
    made.action_space.seed(seed)
    spaces = DataSpaces(made.observation_space, made.action_space)
    episodes = []
    obs, _ = made.reset(seed=seed)
    for number in range(count):
        seen, actions, rewards = [obs], [], []
        terminated = truncated = False
        while not (terminated or truncated):
            at_random = act is None or rng.random() < random_share
            action = made.action_space.sample() if at_random or act is None else act(obs)
            obs, reward, terminated, truncated, _ = made.step(action)
            seen.append(obs)
            actions.append(action)
            rewards.append(reward)
        first = sum(len(episode) for episode in episodes)
        episodes.append(
            Episode(
                obs=spaces.obs_layout.rows(_batch(spaces.observation, seen)),
                actions=spaces.action_layout.rows(_batch(spaces.action, actions)),
                rewards=np.array(rewards, np.float32),
                terminated=bool(terminated),
                truncated=bool(truncated) and not terminated,
                episode_id=f"{seed}-{number}",
                file="fake",
                row=first,
            )
        )
        obs, _ = made.reset()
    made.close()
    return episodes


def _batch(space: gym.Space, items: list[Any]) -> Any:
    """Return single elements as `ObservationLayout.rows` takes them: an array, or a list."""
    return items if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)) else np.array(items)


def cartpole_source(count: int = 20, seed: int = 0, random_share: float = 0.3) -> FakeSource:
    """A source of CartPole episodes of someone who balances it in part."""
    return FakeSource(played_episodes(count, seed, balancing, random_share), CARTPOLE)
