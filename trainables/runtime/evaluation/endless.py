"""Episodes of an evaluation that do not end: said after a while, given up in the end."""

from __future__ import annotations

import logging

from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import EnvName, env_name
from trainables.runtime.sampling.endless import ADVICE

logger = logging.getLogger("trainables")

LONGEST_EVALUATED = 100_000
"""Steps of an evaluation's episode after which it is given up; see `longest_evaluated`."""

_NOTED_EVALUATED = 10_000  # steps of each of an evaluation's episodes, while none has ended


class EvaluationWatch:
    """Looks at how long an evaluation waits for the ends of its episodes.

    Args:
        env: The environment.
        max_steps: How many steps an episode may have.
        instead: What else there is to do about it.
    """

    def __init__(self, env: EnvName, max_steps: int, instead: str):
        self._env, self._max_steps, self._instead = env, max_steps, instead
        self._is_noted = False

    def look(self, longest: int, any_ended: bool) -> None:
        """Warn, once, or raise.

        Args:
            longest: Steps of the longest episode that is still played.
            any_ended: Whether another one has ended.

        Raises:
            ConfigError: If it is longer than allowed: it would be in another attempt, too.
        """
        if longest > self._max_steps:
            raise ConfigError(
                f"env {env_name(self._env)!r}: an evaluation episode did not end within "
                f"{self._max_steps} steps. {ADVICE}; {self._instead}"
            )
        if longest >= _NOTED_EVALUATED and not any_ended and not self._is_noted:
            self._is_noted = True
            logger.warning(
                "env %r: no episode of this evaluation has ended in %d steps; it is given up after "
                "%d. %s",
                env_name(self._env),
                longest,
                self._max_steps,
                ADVICE,
            )


def longest_evaluated(max_env_steps_without_episode: int) -> int:
    """Return the steps that an episode of a training's evaluations may have.

    Slots are stepped together, so that as many as training may take would be hours.
    """
    limit = max(LONGEST_EVALUATED, max_env_steps_without_episode // 10)
    return min(max_env_steps_without_episode, limit)
