"""EnvPool as a gymnasium vector environment (`envpool:CartPole-v1`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from trainables.core.errors import ConfigError


def make_envpool(env_id: str, env_config: dict[str, Any], num_envs: int) -> VectorEnv:
    """Make an EnvPool environment; it resets on the next step, as all of ours do.

    Raises:
        ConfigError: if EnvPool is not installed or does not know the environment.
    """
    try:
        import envpool
    except ImportError:
        raise ConfigError(
            f"env 'envpool:{env_id}' needs EnvPool, which is not installed: "
            "pip install 'tunescape[envpool]'"
        ) from None
    if env_id not in envpool.list_all_envs():
        raise ConfigError(f"env 'envpool:{env_id}' is unknown to EnvPool {envpool.__version__}")
    return EnvPoolVectorEnv(envpool, env_id, env_config, num_envs)


class EnvPoolVectorEnv(VectorEnv):
    """Adapts EnvPool's gymnasium API. A seed at reset makes a new pool: EnvPool seeds only so."""

    def __init__(self, envpool: Any, env_id: str, env_config: dict[str, Any], num_envs: int):
        self._envpool, self._env_id, self._env_config = envpool, env_id, env_config
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self._pool = self._make(seed=0)
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _make(self, seed: int) -> Any:
        return self._envpool.make_gymnasium(
            self._env_id, num_envs=self.num_envs, seed=seed, **self._env_config
        )

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes in all slots; of a list of seeds the first is the pool's."""
        first = seed[0] if isinstance(seed, list) else seed
        if first is not None:
            self._pool.close()
            self._pool = self._make(seed=int(first) % 2**31)
        return self._pool.reset()

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all slots."""
        return self._pool.step(actions)

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the pool's threads."""
        self._pool.close()
