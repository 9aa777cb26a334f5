"""Hooks of callbacks that follow the episodes of slots with several agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.custom_metrics import MetricsLogger
from trainables.runtime.callbacks.episodes import HookCalls
from trainables.runtime.callbacks.hooks import EPISODE_HOOKS, Hooks
from trainables.runtime.envs.multi_agent.vector_env import AgentsStep, AgentsVectorEnv
from trainables.runtime.sampling.agents.agent_lanes import AgentLanes
from trainables.runtime.sampling.agents.episode_book import EpisodeBook


class AgentHooks(HookCalls):
    """Calls the hooks of the episodes in all slots.

    An episode is created before its first agents are mapped to policies, so that a mapping finds
    what callbacks noted in `user_data`; it starts after that. In the row that only resets a slot no
    step is made. So it is where a failed environment was replaced: the episode that this ends is
    dropped without a word.

    Args:
        callbacks: What is called.
        logger: The logger of what callbacks log, and of the custom metrics of episodes.
        book: The episodes.
        env: The slots.
        env_runner: What samples or evaluates.
        is_evaluation: Whether the episodes are those of an evaluation.
    """

    def __init__(
        self,
        callbacks: Hooks,
        logger: MetricsLogger,
        book: EpisodeBook,
        env: AgentsVectorEnv,
        env_runner: Any,
        is_evaluation: bool,
    ):
        policies = book.now.policy_map
        super().__init__(callbacks, logger, policies, env, env_runner, is_evaluation)
        self._modules = {m: p.module for m, p in policies.items() if isinstance(p, Policy)}
        self._book = book
        book.now.keep_actions()
        self._closed = np.zeros(env.num_envs, np.bool_)
        self.forget()

    def forget(self) -> None:
        """Call no hook for the episodes that are running, only for their slots' next ones."""
        self._follows = np.zeros_like(self._closed)

    def close(self, slot: int) -> None:
        """Ignore the further episodes of a slot."""
        self._closed[slot], self._follows[slot] = True, False

    def act(self, actions: list[Any]) -> None:
        """Note the actions that agents are about to make, a batch `[R, …]` for each group."""
        self._book.now.act(actions)

    def create(self, resets: np.ndarray) -> None:
        """Call what is due before the agents that begin are mapped to policies.

        Args:
            resets: Slots in which an episode begins, `[N]`, bool.
        """
        for slot in np.flatnonzero(resets & ~self._closed).tolist():
            self._follows[slot] = True
            self._of(slot, "on_episode_created")

    def start(self, resets: np.ndarray) -> None:
        """Call what is due in slots in which an episode has begun; see `create`."""
        for slot in np.flatnonzero(resets & self._follows).tolist():
            self._of(slot, "on_episode_start")

    def row(self, step: AgentsStep) -> None:
        """Call what is due after a step of the slots, whose new agents have policies."""
        self.start(step.resets)
        due = self._follows & ~step.resets
        if not self._calls_steps:
            due &= step.is_over
        for slot in np.flatnonzero(due).tolist():
            self._of(slot, "on_episode_step")
            if step.is_over[slot]:
                self._of(slot, "on_episode_end")
                self._log(self._book.episodes[slot])
                self._follows[slot] = False

    def _of(self, slot: int, hook: str) -> None:
        self._call(hook, self._book.episodes[slot], self._modules)


def agent_hooks(
    callbacks: Hooks | None,
    logger: MetricsLogger,
    book: EpisodeBook,
    env: AgentsVectorEnv,
    env_runner: Any,
    *,
    is_evaluation: bool,
) -> AgentHooks | None:
    """Return what calls the hooks of episodes; None if nobody overrides one, so nobody pays."""
    if callbacks is None or not callbacks.has(*EPISODE_HOOKS):
        return None
    return AgentHooks(callbacks, logger, book, env, env_runner, is_evaluation)


def acting_policies(policies: Mapping[str, Policy], lanes: AgentLanes) -> dict[str, Any]:
    """Return all policies that act, by id: those with networks, and those written by hand."""
    return {**policies, **{m: fixed.policy for m, fixed in lanes.fixed.items()}}
