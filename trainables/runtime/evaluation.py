"""Evaluation: play episodes with a frozen policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from trainables.core.policy import Policy
from trainables.core.settings import ConfigError
from trainables.runtime.env_runner import draw_seed, reset_vector_env
from trainables.runtime.envs import EnvSpec, env_name, make_vector_env

_MAX_SLOTS = 32


@dataclass(frozen=True)
class EvaluationResult:
    """What the episodes gave.

    Attributes:
        returns: Undiscounted sums of rewards, `[E]`.
        lengths: Environment steps, `[E]`.
    """

    returns: np.ndarray
    lengths: np.ndarray

    @property
    def return_mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def return_std(self) -> float:
        """Standard deviation of the returns."""
        return float(self.returns.std(ddof=1)) if len(self.returns) > 1 else 0.0

    def metrics(self) -> dict[str, float]:
        """Flat metrics, as training results name them."""
        return {
            "episode_return_mean": self.return_mean,
            "episode_return_min": float(self.returns.min()),
            "episode_return_max": float(self.returns.max()),
            "episode_len_mean": float(self.lengths.mean()),
            "num_episodes": len(self.returns),
            "num_env_steps": int(self.lengths.sum()),
        }


def evaluate_policy(
    policy: Policy,
    env: EnvSpec,
    env_config: dict[str, Any] | None = None,
    *,
    num_episodes: int | None = 10,
    num_timesteps: int | None = None,
    seed: int | np.random.SeedSequence | None = 0,
    explore: bool = False,
    max_steps_per_episode: int = 1_000_000,
) -> EvaluationResult:
    """Play episodes; neither the policy nor its filter statistics change.

    Every slot plays the same number of episodes, so that short episodes are not favoured as they
    would be if the first to end were taken.

    Args:
        policy: Acts.
        env: See the setting `env`.
        env_config: See the setting `env_config`.
        num_episodes: How many episodes; None if `num_timesteps` is given.
        num_timesteps: Play whole episodes until they have this many steps together.
        seed: Of environments and exploration: the same seed plays the same episodes.
        explore: Sample actions instead of taking the most likely ones.
        max_steps_per_episode: An episode longer than this raises.

    Raises:
        ConfigError: if the environment cannot be made, does not fit the policy, or never ends.
    """
    num_slots = 1 if num_episodes is None else min(num_episodes, _MAX_SLOTS)
    if num_episodes is not None and num_episodes < 1:
        raise ConfigError(f"num_episodes = {num_episodes} is not allowed; allowed: int, >= 1")
    env_seed, action_seed = np.random.SeedSequence(_entropy(seed)).spawn(2)
    generator = torch.Generator(policy.device).manual_seed(draw_seed(action_seed))
    vector_env = make_vector_env(env, env_config, num_slots)
    try:
        _check_spaces(policy, vector_env.single_observation_space, vector_env.single_action_space)
        quotas = _quotas(num_episodes, num_slots)
        obs = reset_vector_env(vector_env, env_seed)
        returns, lengths = np.zeros(num_slots), np.zeros(num_slots, np.int64)
        resets_next = np.zeros(num_slots, bool)
        ended: list[list[tuple[float, int]]] = [[] for _ in range(num_slots)]
        while _goes_on(ended, quotas, num_timesteps):
            _, actions, _ = policy.act(np.asarray(obs), explore, generator)
            obs, rewards, terminated, truncated, _ = vector_env.step(actions)
            returns += rewards
            lengths += ~resets_next
            resets_next = terminated | truncated
            for slot in np.flatnonzero(resets_next):
                ended[slot].append((float(returns[slot]), int(lengths[slot])))
                returns[slot], lengths[slot] = 0.0, 0
            if lengths.max() > max_steps_per_episode:
                raise ConfigError(
                    f"env {env_name(env)!r}: an evaluation episode did not end within "
                    f"{max_steps_per_episode} steps; give the environment a time limit"
                )
    finally:
        vector_env.close()
    kept = [
        episode
        for slot, episodes in enumerate(ended)
        for episode in (episodes if quotas is None else episodes[: quotas[slot]])
    ]
    return EvaluationResult(np.array([e[0] for e in kept]), np.array([e[1] for e in kept]))


def _entropy(seed: int | np.random.SeedSequence | None) -> Any:
    return draw_seed(seed) if isinstance(seed, np.random.SeedSequence) else seed


def _quotas(num_episodes: int | None, num_slots: int) -> list[int] | None:
    if num_episodes is None:
        return None
    base, rest = divmod(num_episodes, num_slots)
    return [base + (slot < rest) for slot in range(num_slots)]


def _goes_on(
    ended: list[list[tuple[float, int]]],
    quotas: list[int] | None,
    num_timesteps: int | None,
) -> bool:
    if quotas is not None:
        return any(len(e) < quota for e, quota in zip(ended, quotas, strict=True))
    done = sum(length for episodes in ended for _, length in episodes)
    return done < max(1, num_timesteps or 0)


def _check_spaces(policy: Policy, observation_space: Any, action_space: Any) -> None:
    for what, mine, theirs in (
        ("observation", policy.observation_space, observation_space),
        ("action", policy.action_space, action_space),
    ):
        fits = type(mine) is type(theirs) and mine.shape == theirs.shape
        if not fits or (not isinstance(mine, gym.spaces.Box) and mine != theirs):
            raise ConfigError(
                f"the policy's {what} space {mine} does not fit the environment's {theirs}"
            )
