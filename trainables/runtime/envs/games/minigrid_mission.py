"""MiniGrid and BabyAI: what their observations say in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from trainables.core.errors import ConfigError
from trainables.runtime.envs.games.known import register

_MISSION = "mission"
_DROP = "drop_mission"


@dataclass(frozen=True)
class GridWorld:
    """Makes a MiniGrid environment whose observations are Dict(image, direction).

    A mission that never changes tells nothing, and is left out. One that does is part of the task;
    it is left out if `env_config` says so.

    Attributes:
        env_id: Registered with gymnasium.
    """

    env_id: str

    def __call__(self, context: dict[str, Any]) -> gym.Env:
        """Make the environment of an `env_config`.

        Raises:
            ConfigError: if the mission varies, and `env_config` does not say to leave it out.
        """
        register(self.env_id)  # where this is a process of its own
        arguments = dict(context)
        drops = bool(arguments.pop(_DROP, False))
        env = gym.make(self.env_id, disable_env_checker=True, **arguments)
        space = env.observation_space
        if not (isinstance(space, gym.spaces.Dict) and _MISSION in space.spaces):
            return env
        if not drops and getattr(space[_MISSION], "ordered_placeholders", None):
            env.close()
            raise ConfigError(
                f"env {self.env_id!r}: its observation {_MISSION!r} is a text that differs between "
                f"episodes, e.g. {space[_MISSION].sample()!r}, and texts are not supported; "
                f"env_config={{{_DROP!r}: True}} leaves it out, or an environment of your own may "
                "encode it"
            )
        return WithoutMission(env)


class WithoutMission(gym.ObservationWrapper):
    """Leaves `mission` out of the observations."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        spaces = dict(env.observation_space.spaces)  # type: ignore[attr-defined]
        del spaces[_MISSION]
        self.observation_space = gym.spaces.Dict(spaces)

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Return the other entries."""
        return {name: part for name, part in observation.items() if name != _MISSION}
