"""Environments whose episodes do not end: said after some thousand steps, given up in the end."""

from __future__ import annotations

import logging

from trainables.runtime.envs.make import EnvName, env_name

logger = logging.getLogger("trainables")

_NOTED_AFTER = 5_000  # steps of all slots without the end of an episode, and at least
_NOTED_AFTER_EACH = 2_000  # of each: a game takes a thousand

ADVICE = (
    "An episode ends where step() returns terminated or truncated; one that goes on for ever needs "
    "a time limit: env_config: {max_episode_steps: …}, or gymnasium.wrappers.TimeLimit in your own "
    "code"
)


def noted_after(num_slots: int) -> int:
    """Return the steps of all slots, none of which ended an episode, after which that is told."""
    return max(_NOTED_AFTER, _NOTED_AFTER_EACH * num_slots)


class EndlessWatch:
    """Looks at how long training waits for the end of a first episode.

    Args:
        env: The environment.
        max_steps: The setting `max_env_steps_without_episode`.
        num_slots: Environments that are stepped side by side.
    """

    def __init__(self, env: EnvName, max_steps: int, num_slots: int = 1):
        self._env, self._max_steps = env, max_steps
        self._noted_after = noted_after(num_slots)
        self._is_noted = False

    def look(self, num_steps: int) -> None:
        """Warn, once, or raise.

        Args:
            num_steps: Environment steps so far, in which no episode has ended.

        Raises:
            RuntimeError: If those are as many as are allowed.
        """
        if num_steps >= self._max_steps:
            raise RuntimeError(
                f"env {env_name(self._env)!r}: no episode ended in {num_steps} steps; give it a "
                f"time limit, or raise max_env_steps_without_episode. {ADVICE}"
            )
        if num_steps >= self._noted_after and not self._is_noted:
            self._is_noted = True
            logger.warning(
                "env %r: no episode has ended in %d steps, so episode_return_mean is NaN. %s",
                env_name(self._env),
                num_steps,
                ADVICE,
            )
