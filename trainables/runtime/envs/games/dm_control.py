"""DeepMind's control suite, as Shimmy gives it to gymnasium: an action may last several steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from trainables.core.errors import ConfigError
from trainables.runtime.envs.games.known import register

_REPEAT = "action_repeat"


@dataclass(frozen=True)
class ControlTask:
    """Makes a task of the suite, whose observations are Dict of Boxes by what they measure.

    `action_repeat` of `env_config` says how many steps of the task an action lasts, 1 by default;
    the reward is their sum. What else there is goes to the task.

    Attributes:
        env_id: Registered with gymnasium, e.g. "dm_control/walker-walk-v0".
    """

    env_id: str

    def __call__(self, context: dict[str, Any]) -> gym.Env:
        """Make the environment of an `env_config`.

        Raises:
            ConfigError: if `action_repeat` is no number of steps.
        """
        register(self.env_id)  # where this is a process of its own
        arguments = dict(context)
        times = arguments.pop(_REPEAT, 1)
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            raise ConfigError(
                f"env_config: {_REPEAT} = {times!r} is not allowed; allowed: a number of steps, "
                "from 1 on"
            )
        env = gym.make(self.env_id, disable_env_checker=True, **arguments)
        return env if times == 1 else RepeatedAction(env, times)


class RepeatedAction(gym.Wrapper):
    """Steps several times with each action, or until the episode ends; rewards are added up.

    Args:
        env: The environment.
        times: Steps of it that an action lasts.
    """

    def __init__(self, env: gym.Env, times: int):
        super().__init__(env)
        self._times = times

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action for several steps."""
        total = 0.0
        for _ in range(self._times):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info
