"""Hooks of callbacks that follow the episodes of environment slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from trainables.core.data.episode_base import EpisodeBase
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.custom_metrics import MetricsLogger
from trainables.runtime.callbacks.episode import Episode, SlotRows
from trainables.runtime.callbacks.hooks import Hooks


class HookCalls:
    """Calls the hooks of episodes, whatever is in their slots.

    Args:
        callbacks: What is called.
        logger: The logger of what callbacks log, and of the custom metrics of episodes.
        policies: The policies that act, by module id.
        env: The slots.
        env_runner: What samples or evaluates; None where a policy is evaluated by itself.
        is_evaluation: Whether the episodes are those of an evaluation.
    """

    def __init__(
        self,
        callbacks: Hooks,
        logger: MetricsLogger,
        policies: Mapping[str, Any],
        env: Any,
        env_runner: Any,
        is_evaluation: bool,
    ):
        self._callbacks, self._logger = callbacks, logger
        self._calls_steps = callbacks.has("on_episode_step")
        self._arguments = {
            "env_runner": env_runner,
            "metrics_logger": logger,
            "env": env,
            "policies": policies,
            "is_evaluation": is_evaluation,
        }

    def _call(self, hook: str, episode: EpisodeBase, rl_module: Any) -> None:
        if self._callbacks.has(hook):
            self._callbacks(
                hook,
                episode=episode,
                env_index=episode.env_index,
                rl_module=rl_module,
                **self._arguments,
            )

    def _log(self, episode: EpisodeBase) -> None:
        """Log what an episode that ended has gathered."""
        self._logger.log_episode(episode.custom_metrics)
        self._logger.log_histograms(episode.hist_data)


class EpisodeHooks(HookCalls):
    """Calls the hooks of the episodes in all slots.

    With gymnasium's next-step autoreset the row after an episode's last one only resets: it has no
    step, and its observation is the first of the next episode. So has the row in which a failed
    environment was replaced; the episode that it ends is dropped without a word.

    Args:
        callbacks: What is called.
        logger: The logger of what callbacks log, and of the custom metrics of episodes.
        policies: The policies that act, by module id.
        slots_of: The slots of each module that acts in any, `[M]` by module id.
        env: The slots.
        env_runner: What samples or evaluates; None where a policy is evaluated by itself.
        is_evaluation: Whether the episodes are those of an evaluation.
    """

    def __init__(
        self,
        callbacks: Hooks,
        logger: MetricsLogger,
        policies: dict[str, Policy],
        slots_of: Mapping[str, np.ndarray],
        env: VectorEnv,
        env_runner: Any,
        is_evaluation: bool,
    ):
        super().__init__(callbacks, logger, policies, env, env_runner, is_evaluation)
        self._env_runner, self._is_evaluation = env_runner, is_evaluation
        self._policies = policies
        self._module_of = {
            int(slot): module_id for module_id, slots in slots_of.items() for slot in slots
        }
        self._num_slots, self._num_created = env.num_envs, 0
        self.forget()

    def forget(self) -> None:
        """Call no hook for the episodes that are running, only for their slots' next ones."""
        self._episodes: list[Episode | None] = [None] * self._num_slots
        self._closed = np.zeros(self._num_slots, bool)
        self._actions: list[Any] = [None] * self._num_slots
        self._returns = np.zeros(self._num_slots)
        self._lengths = np.zeros(self._num_slots, np.int64)
        self._reset: tuple[Any, dict[str, Any]] | None = None

    def was_reset(self, obs: Any, infos: dict[str, Any]) -> None:
        """Note that all slots were reset: episodes begin with the first row that is sampled."""
        self.forget()
        self._reset = (obs, infos)

    def begin(self) -> None:
        """Begin new episodes after a reset of all slots, before rows are sampled."""
        if self._reset is None:
            return
        (obs, infos), self._reset = self._reset, None
        none, nothing = np.zeros(self._num_slots, bool), np.zeros(self._num_slots)
        self.row(obs, nothing, none, none, infos, none)

    def close(self, slot: int) -> None:
        """Ignore the further episodes of a slot."""
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
            rewards: The rewards of the slots, `[N]`.
            terminated: Where the environment has ended an episode, `[N]`.
            truncated: Where an episode was cut off, `[N]`.
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
        now = SlotRows(
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
            episode = Episode(
                self._num_created,
                slot,
                self._env_runner,
                is_evaluation=self._is_evaluation,
                _now=now,
                policy_map=self._policies,
                module_id=self._module_of[slot],
            )
            self._num_created += 1
            self._episodes[slot] = episode
            self._of(episode, "on_episode_created")
            self._of(episode, "on_episode_start")
        for slot in np.flatnonzero(valid if self._calls_steps else done).tolist():
            running = self._episodes[slot]
            if running is not None:
                running._now = now
                self._step(running, ends=bool(done[slot]))

    def _step(self, episode: Episode, ends: bool) -> None:
        self._of(episode, "on_episode_step")
        if ends:
            self._of(episode, "on_episode_end")
            self._log(episode)
            self._episodes[episode.env_index] = None

    def _of(self, episode: Episode, hook: str) -> None:
        self._call(hook, episode, self._policies[episode.module_id].module)
