"""Hooks of callbacks that follow the episodes of environment slots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.callbacks import CallbackSet
from trainables.runtime.callbacks.custom_metrics import EpisodeMetrics, MetricsLogger
from trainables.runtime.callbacks.episode_by_agent import EpisodeByAgent

EPISODE_HOOKS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


@dataclass(frozen=True)
class _Now:
    """What all slots' last row gave, batched as the vector environment does; others' is stale."""

    obs: Any
    actions: list[Any]  # by slot: the batch in which its action is
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]
    returns: np.ndarray
    lengths: np.ndarray


@dataclass(eq=False)
class Episode(EpisodeByAgent):
    """An episode as hooks see it: valid within the hook, but for the three dicts.

    Attributes:
        episode_id: Counts the episodes of an env runner, or of a part of an evaluation.
        env_index: Its slot.
        is_evaluation: Whether it is one of an evaluation.
        user_data: Lives as long as the episode, for whatever you put into it.
        worker: What samples or evaluates it; None where a policy is evaluated by itself.
        custom_metrics: Numbers that results tell the mean, minimum and maximum of, over episodes.
        hist_data: Lists of numbers that results tell the same of, over all of their values.
    """

    episode_id: int
    env_index: int
    is_evaluation: bool
    _now: _Now
    worker: Any = None
    user_data: dict[Any, Any] = field(default_factory=dict)
    custom_metrics: EpisodeMetrics = field(default_factory=EpisodeMetrics)
    hist_data: dict[str, list[float]] = field(default_factory=dict)

    @property
    def custom_data(self) -> dict[Any, Any]:
        """The newer name of `user_data`."""
        return self.user_data

    @property
    def length(self) -> int:
        """Steps so far."""
        return int(self._now.lengths[self.env_index])

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True  # also before the first step

    @property
    def total_reward(self) -> float:
        """Sum of the environment's rewards so far."""
        return float(self._now.returns[self.env_index])

    def get_return(self) -> float:
        """Sum of the environment's rewards so far."""
        return self.total_reward

    @property
    def last_observation(self) -> Any:
        """As the environment gave it; a copy."""
        return _of_slot(self._now.obs, self.env_index)

    @property
    def last_action(self) -> Any:
        """As the environment was given it, a copy; None before the first step."""
        if not self.length:
            return None
        return _of_slot(self._now.actions[self.env_index], self.env_index)

    @property
    def last_reward(self) -> float:
        """Of the last step; 0 before the first one."""
        return float(self._now.rewards[self.env_index]) if self.length else 0.0

    @property
    def last_info(self) -> dict[str, Any]:
        """The environment's `info`, of the last step or of the reset."""
        return _info_of_slot(self._now.infos, self.env_index)

    @property
    def is_terminated(self) -> bool:
        """Whether the environment has ended it."""
        return bool(self._now.terminated[self.env_index])

    @property
    def is_truncated(self) -> bool:
        """Whether it was cut off."""
        return bool(self._now.truncated[self.env_index])

    @property
    def is_done(self) -> bool:
        """Whether this was its last step."""
        return self.is_terminated or self.is_truncated


def _of_slot(batch: Any, slot: int) -> Any:
    if isinstance(batch, dict):
        return {key: _of_slot(part, slot) for key, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_of_slot(part, slot) for part in batch)
    return np.array(batch[slot])[()]  # a number, not an array of no dimensions


def _info_of_slot(infos: dict[str, Any], slot: int) -> dict[str, Any]:
    """Gymnasium batches infos by key, and says under `_key` which slots have it."""
    found = {}
    for key, values in infos.items():
        has = infos.get(f"_{key}")
        if has is None or not has[slot]:
            continue
        found[key] = _info_of_slot(values, slot) if isinstance(values, dict) else values[slot]
    return found


class EpisodeHooks:
    """Calls the hooks of the episodes in all slots.

    With gymnasium's next-step autoreset the row after an episode's last one only resets: it has no
    step, and its observation is the first of the next episode. So has the row in which a failed
    environment was replaced; the episode that it ends is dropped without a word.

    Args:
        callbacks: What is called.
        logger: Takes what callbacks log, and the custom metrics of episodes.
        policy: Acts.
        env: The slots.
        env_runner: What samples or evaluates; None where a policy is evaluated by itself.
        is_evaluation: Whether the episodes are those of an evaluation.
    """

    def __init__(
        self,
        callbacks: CallbackSet,
        logger: MetricsLogger,
        policy: Policy,
        env: VectorEnv,
        env_runner: Any,
        is_evaluation: bool,
    ):
        self._callbacks, self._logger = callbacks, logger
        self._is_evaluation = is_evaluation
        self._arguments = {
            "env_runner": env_runner,
            "metrics_logger": logger,
            "env": env,
            "rl_module": policy.module,
            "policies": {DEFAULT_MODULE_ID: policy},
            "is_evaluation": self._is_evaluation,
        }
        self._calls_steps = callbacks.has("on_episode_step")
        self._num_slots, self._num_created = env.num_envs, 0
        self.forget()

    def forget(self) -> None:
        """No hook is called for the episodes that are running, only for their slots' next ones."""
        self._episodes: list[Episode | None] = [None] * self._num_slots
        self._closed = np.zeros(self._num_slots, bool)
        self._actions: list[Any] = [None] * self._num_slots
        self._returns = np.zeros(self._num_slots)
        self._lengths = np.zeros(self._num_slots, np.int64)
        self._reset: tuple[Any, dict[str, Any]] | None = None

    def was_reset(self, obs: Any, infos: dict[str, Any]) -> None:
        """All slots have been reset: their episodes begin with the first row that is sampled."""
        self.forget()
        self._reset = (obs, infos)

    def begin(self) -> None:
        """Before rows are sampled: new episodes after a reset of all slots."""
        if self._reset is None:
            return
        (obs, infos), self._reset = self._reset, None
        none, nothing = np.zeros(self._num_slots, bool), np.zeros(self._num_slots)
        self.row(obs, nothing, none, none, infos, none)

    def close(self, slot: int) -> None:
        """Its further episodes are not wanted."""
        self._episodes[slot] = None
        self._closed[slot] = True

    def act(self, env_actions: Any, slots: np.ndarray | None = None) -> None:
        """Note the batch of actions that slots (None: all) are about to make."""
        for slot in range(self._num_slots) if slots is None else slots:
            self._actions[slot] = env_actions

    def row(
        self,
        obs: Any,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        infos: dict[str, Any],
        valid: np.ndarray,
        ready: np.ndarray | None = None,
    ) -> None:
        """Call what is due after a row of the slots.

        Args:
            obs: Batched, as the environment gave them.
            rewards: `[N]`.
            terminated: `[N]`.
            truncated: `[N]`.
            infos: Batched.
            valid: Where a step was made; elsewhere an episode begins, `[N]`.
            ready: Slots that have a row at all, `[N]`; None: all.
        """
        begins = ~valid & ~self._closed
        if ready is not None:
            begins &= ready
        self._returns = np.where(begins, 0.0, self._returns + np.where(valid, rewards, 0.0))
        self._lengths = np.where(begins, 0, self._lengths + valid)
        done = valid & (terminated | truncated)
        now = _Now(
            obs,
            list(self._actions),
            rewards,
            terminated,
            truncated,
            infos,
            self._returns,
            self._lengths,
        )
        for slot in np.flatnonzero(begins).tolist():
            worker = self._arguments["env_runner"]
            episode = Episode(self._num_created, slot, self._is_evaluation, now, worker)
            self._num_created += 1
            self._episodes[slot] = episode
            self._call("on_episode_created", episode)
            self._call("on_episode_start", episode)
        for slot in np.flatnonzero(valid if self._calls_steps else done).tolist():
            running = self._episodes[slot]
            if running is not None:
                running._now = now
                self._step(running, ends=bool(done[slot]))

    def _step(self, episode: Episode, ends: bool) -> None:
        self._call("on_episode_step", episode)
        if ends:
            self._call("on_episode_end", episode)
            self._logger.log_episode(episode.custom_metrics)
            self._logger.log_histograms(episode.hist_data)
            self._episodes[episode.env_index] = None

    def _call(self, hook: str, episode: Episode) -> None:
        if self._callbacks.has(hook):
            self._callbacks(hook, episode=episode, env_index=episode.env_index, **self._arguments)


def episode_hooks(
    callbacks: CallbackSet | None,
    logger: MetricsLogger,
    policy: Policy,
    env: VectorEnv,
    env_runner: Any,
    *,
    is_evaluation: bool,
) -> EpisodeHooks | None:
    """What calls the hooks of episodes; None if nobody overrides one, so that nobody pays."""
    if callbacks is None or not callbacks.has(*EPISODE_HOOKS):
        return None
    return EpisodeHooks(callbacks, logger, policy, env, env_runner, is_evaluation)
