"""Videos of gymnasium's native vector CartPole, which does not render by itself."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import VectorEnv, VectorWrapper

from trainables.runtime.envs.video import Video, VideoRecorder


class FilmedCartPole(VectorWrapper):
    """Films the first slots: a single CartPole draws the state that each of them is in.

    So what is filmed are the very episodes that are played without a video.

    Args:
        env: The native vector environment.
        spec: Of gymnasium's registry, makes the ones that draw.
        env_config: See the setting.
        video: Has a file for each slot that is filmed.
        name: The environment's, for messages.

    Attributes:
        recorders: Of the first slots.
    """

    def __init__(
        self, env: VectorEnv, spec: EnvSpec, env_config: dict[str, Any], video: Video, name: str
    ):
        super().__init__(env)
        self.recorders = []
        for slot in range(min(video.num_slots, env.num_envs)):
            single = gym.make(spec, render_mode="rgb_array", disable_env_checker=True, **env_config)
            single.metadata.setdefault("render_fps", env.metadata.get("render_fps"))
            drawn = _Drawn(single, env.unwrapped, slot)
            self.recorders.append(VideoRecorder(drawn, video.of_slot(slot), name))
        self._resets = np.ones(env.num_envs, bool)

    def reset(self, **options: Any) -> Any:
        result = self.env.reset(**options)
        for recorder in self.recorders:
            recorder.reset()
        self._resets[:] = False
        return result

    def step(self, actions: Any) -> Any:
        result = self.env.step(actions)
        done = result[2] | result[3]
        for slot, recorder in enumerate(self.recorders):
            if self._resets[slot]:
                recorder.reset()
            else:
                recorder.step(bool(done[slot]))
        self._resets = done
        return result

    def close(self, **options: Any) -> None:
        for recorder in self.recorders:
            recorder.close()
        super().close(**options)


class _Drawn(gym.Wrapper):
    """A CartPole that is not stepped: it shows a slot of the native one."""

    def __init__(self, env: gym.Env, vector: Any, slot: int):
        super().__init__(env)
        self._vector, self._slot = vector, slot
        env.reset()  # gymnasium draws nothing before

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return None, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return None, 0.0, bool(action), False, {}  # the action says whether the episode is over

    def render(self) -> Any:
        single: Any = self.env.unwrapped
        single.state = self._vector.state[:, self._slot]
        return self.env.render()


def can_film(spec: EnvSpec) -> bool:
    """Tell whether a native vector environment can be filmed as it is."""
    entry: Any = spec.vector_entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    return isinstance(creator, type) and issubclass(creator, CartPoleVectorEnv)
