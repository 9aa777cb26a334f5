"""Evaluation: play episodes with a frozen policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv

from trainables.core.policy import Policy
from trainables.core.recurrent_state import reset_state
from trainables.core.settings import ConfigError
from trainables.core.spaces import space_mismatch
from trainables.runtime.callbacks import CallbackSet
from trainables.runtime.custom_metrics import Logged, MetricsLogger, reduced
from trainables.runtime.env_runner import check_masks, draw_seed, reset_with_infos
from trainables.runtime.envs import EnvName, EnvOptions, env_name, make_vector_env
from trainables.runtime.episode_hooks import episode_hooks
from trainables.runtime.sub_environment import RESTARTS

_MAX_SLOTS = 32


@dataclass(frozen=True)
class EvaluationResult:
    """What the episodes gave.

    Attributes:
        returns: Undiscounted sums of rewards, `[E]`.
        lengths: Environment steps, `[E]`.
        logged: By callbacks.
        weights: What each counts in the means, `[E]`; None: the same.
    """

    returns: np.ndarray
    lengths: np.ndarray
    logged: Logged = field(default_factory=dict)
    weights: np.ndarray | None = None

    @property
    def return_mean(self) -> float:
        """Mean return."""
        return float(np.average(self.returns, weights=self.weights))

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
            "episode_len_mean": float(np.average(self.lengths, weights=self.weights)),
            "num_episodes": len(self.returns),
            "num_env_steps": int(self.lengths.sum()),
            **reduced(self.logged),
        }


def evaluate_policy(
    policy: Policy,
    env: EnvName,
    env_config: dict[str, Any] | None = None,
    *,
    num_episodes: int | None = 10,
    num_timesteps: int | None = None,
    seed: int | np.random.SeedSequence | None = 0,
    explore: bool = False,
    max_steps_per_episode: int = 1_000_000,
    options: EnvOptions | None = None,
    callbacks: CallbackSet | None = None,
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
        options: How the slots are made and stepped.
        callbacks: Their hooks of episodes are called, for the episodes that count.

    Raises:
        ConfigError: if the environment cannot be made, does not fit the policy, or never ends.
    """
    if num_episodes is not None and num_episodes < 1:
        raise ConfigError(f"num_episodes = {num_episodes} is not allowed; allowed: int, >= 1")
    num_slots = 1 if num_episodes is None else min(num_episodes, _MAX_SLOTS)
    vector_env = make_vector_env(env, env_config, num_slots, options=options)
    try:
        played = play_episodes(
            policy,
            vector_env,
            env,
            np.random.SeedSequence(_entropy(seed)),
            num_episodes=num_episodes,
            num_timesteps=num_timesteps,
            explore=explore,
            max_steps_per_episode=max_steps_per_episode,
            callbacks=callbacks,
        )
    finally:
        vector_env.close()
    assert played is not None  # nothing stops it
    return played


def play_episodes(
    policy: Policy,
    vector_env: VectorEnv,
    env: EnvName,
    seed: np.random.SeedSequence,
    *,
    num_episodes: int | None,
    num_timesteps: int | None = None,
    explore: bool = False,
    max_steps_per_episode: int = 1_000_000,
    callbacks: CallbackSet | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> EvaluationResult | None:
    """`evaluate_policy` in an environment that is there already.

    Args:
        policy: Acts.
        vector_env: Is reset first; all episodes end in it.
        env: Its name, for messages.
        seed: Of environments and exploration.
        num_episodes: See `evaluate_policy`.
        num_timesteps: See `evaluate_policy`.
        explore: See `evaluate_policy`.
        max_steps_per_episode: See `evaluate_policy`.
        callbacks: See `evaluate_policy`.
        stopped: Asked before each step, perhaps set from another thread.

    Returns:
        None if it was stopped.
    """
    num_slots = vector_env.num_envs
    env_seed, action_seed = seed.spawn(2)
    generator = torch.Generator(policy.device).manual_seed(draw_seed(action_seed))
    _check_spaces(policy, vector_env.single_observation_space, vector_env.single_action_space)
    quotas = None if num_episodes is None else dealt_evenly(num_episodes, num_slots)
    obs, infos = reset_with_infos(vector_env, env_seed)
    rows = policy.observations.layout.rows(obs)
    logger = MetricsLogger()
    hooks = episode_hooks(callbacks, logger, policy, vector_env)
    if hooks is not None:
        hooks.was_reset(obs, infos)
        hooks.begin()
    state, is_first = policy.initial_state(num_slots), np.ones(num_slots, bool)
    returns, lengths = np.zeros(num_slots), np.zeros(num_slots, np.int64)
    resets_next = np.zeros(num_slots, bool)
    kept = policy.explorer.start(num_slots)  # of exploration; training's own is not disturbed
    ended: list[list[tuple[float, int]]] = [[] for _ in range(num_slots)]
    while _goes_on(ended, quotas, num_timesteps):
        if stopped():
            return None
        check_masks(policy, rows, resets_next, lengths, env)
        acted = policy.act(rows, explore, generator, reset_state(state, is_first), kept)
        obs, rewards, terminated, truncated, infos = vector_env.step(acted.env_actions)
        if RESTARTS in infos:  # an episode whose environment was replaced counts nowhere
            replaced = infos[RESTARTS] > 0
            returns[replaced], lengths[replaced] = 0.0, 0
            resets_next = resets_next | replaced
        state, is_first = acted.state, resets_next
        rows = policy.observations.layout.rows(
            obs, policy.observations.extras(acted.actions, rewards, is_first)
        )
        returns += rewards
        lengths += ~resets_next
        if hooks is not None:
            hooks.act(acted.env_actions)
            hooks.row(obs, rewards, terminated, truncated, infos, ~resets_next)
        if kept:
            policy.explorer.restart(kept, is_first)
        resets_next = terminated | truncated
        for slot in np.flatnonzero(resets_next).tolist():
            if lengths[slot]:  # else an environment that was over when it reset
                ended[slot].append((float(returns[slot]), int(lengths[slot])))
            returns[slot], lengths[slot] = 0.0, 0
            if hooks is not None and quotas and len(ended[slot]) >= quotas[slot]:
                hooks.close(slot)  # it is stepped on only since others are not done
        if lengths.max() > max_steps_per_episode:
            raise ConfigError(
                f"env {env_name(env)!r}: an evaluation episode did not end within "
                f"{max_steps_per_episode} steps; give the environment a time limit"
            )
    played = [
        episode
        for slot, episodes in enumerate(ended)
        for episode in (episodes if quotas is None else episodes[: quotas[slot]])
    ]
    return EvaluationResult(
        np.array([e[0] for e in played]), np.array([e[1] for e in played]), logger.take()
    )


def _entropy(seed: int | np.random.SeedSequence | None) -> Any:
    return draw_seed(seed) if isinstance(seed, np.random.SeedSequence) else seed


def dealt_evenly(total: int, shares: int) -> list[int]:
    """Whole shares that add up to a total; the first ones are larger by one where need be."""
    base, rest = divmod(total, shares)
    return [base + (share < rest) for share in range(shares)]


def _goes_on(
    ended: list[list[tuple[float, int]]],
    quotas: list[int] | None,
    num_timesteps: int | None,
) -> bool:
    if quotas is not None:
        return any(len(e) < quota for e, quota in zip(ended, quotas, strict=True))
    done = sum(length for episodes in ended for _, length in episodes)
    return done < max(1, num_timesteps or 0)


def _check_spaces(policy: Policy, observation_space: gym.Space, action_space: gym.Space) -> None:
    for what, mine, theirs in (
        ("observation", policy.observation_space, observation_space),
        ("action", policy.action_space, action_space),
    ):
        problem = space_mismatch(mine, theirs)
        if problem is not None:
            raise ConfigError(
                f"the policy's {what} space {mine} does not fit the environment's {theirs}: "
                f"{problem}"
            )
