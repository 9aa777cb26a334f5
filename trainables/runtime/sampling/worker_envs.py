"""What every kind of worker offers through the environments that it steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from trainables.runtime.envs.context import EnvContext
from trainables.runtime.envs.slot_tasks import each_env

if TYPE_CHECKING:
    from trainables.core.config.config import AlgorithmConfig

T = TypeVar("T")


class WorkerEnvs:
    """Access to the environments of a worker's slots.

    They are those that are stepped: a function may look at them and change how they go on, but
    whoever steps or resets one disturbs the episode in it.

    Attributes:
        config: The algorithm's config.
        env: All slots; None while there are none.
        worker_index: 0 in process, 1, 2, … for actors.
    """

    config: AlgorithmConfig
    worker_index: int
    env: Any

    def foreach_env(self, function: Callable[[Any], T]) -> list[T]:
        """Apply a function to the environment of each slot; see `tasks.each_env`.

        Raises:
            RuntimeError: if there is none now.
        """
        return self.foreach_env_with_context(lambda env, context: function(env))

    def foreach_env_with_context(self, function: Callable[[Any, EnvContext], T]) -> list[T]:
        """Apply a function to the environment of each slot and what it was made with.

        Raises:
            RuntimeError: if there is none now.
        """
        if self.env is None:
            raise RuntimeError(
                "an evaluation makes its environments when it begins and closes them when it ends: "
                "there is none now. Set what they are made with as evaluation_config="
                "{'env_config': …}, or reach them in on_episode_start, as `env`"
            )
        config = self.config
        context = EnvContext(config.env_config, self.worker_index, 0, config.num_env_runners)
        return each_env(self.env, function, context)
