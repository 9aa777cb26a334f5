"""What the contestants on MinAtar share: equal settings, the environment, the command line.

Their scripts import it as their neighbour (`import minatar_ppo`), since the peers' environment
knows nothing of this package.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import minatar.gym
import torch

minatar.gym.register_envs()


@dataclass(frozen=True)
class Settings:
    """PPO on MinAtar, for everyone.

    One network for policy and value: 16 convolutions of 3x3, then 128 units, as in Young and Tian
    (2019), all with relu.
    """

    env: str = "MinAtar/Breakout-v1"
    slots: int = 8
    rollout_length: int = 128
    epochs: int = 4
    minibatch_size: int = 256
    lr: float = 1e-3
    gamma: float = 0.99
    lambda_: float = 0.95
    clip: float = 0.2
    vf_coeff: float = 0.5
    entropy_coeff: float = 0.01
    max_grad_norm: float = 0.5
    channels: int = 16
    hidden: int = 128


class Recorder:
    """Returns of the episodes of all slots, each with the environment step at which it ended."""

    def __init__(self, env_id: str) -> None:
        self.env_id = env_id
        self.steps = 0
        self.episodes: list[tuple[int, float]] = []

    def make(self, *_: Any) -> gym.Env[Any, Any]:
        """A new slot's environment."""
        return _Recorded(gym.make(self.env_id, disable_env_checker=True), self)


class _Recorded(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gym.Env[Any, Any], recorder: Recorder) -> None:
        super().__init__(env)
        self._recorder, self._return = recorder, 0.0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._return = 0.0
        return super().reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        out = super().step(action)
        self._recorder.steps += 1
        self._return += float(out[1])
        if out[2] or out[3]:
            self._recorder.episodes.append((self._recorder.steps, self._return))
        return out


def trained(recorder: Recorder, train: Callable[[], object]) -> dict[str, Any]:
    """Train and tell: seconds, all episodes, and the mean return of the last 100."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    train()
    seconds = time.perf_counter() - start
    last = [total for _, total in recorder.episodes[-100:]]
    return {
        "seconds": seconds,
        "env_steps": recorder.steps,
        "env_steps_per_second": recorder.steps / seconds,
        "final_return": sum(last) / len(last),
        "episodes": recorder.episodes,
    }


def main(contestant: str, run: Callable[[Settings, int, int], dict[str, Any]]) -> None:
    """Run a contestant as the command line says, and print its result as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500_000, help="environment steps")
    parser.add_argument("--env", default=Settings.env, help="of MinAtar")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    result = run(Settings(env=args.env), args.steps, args.seed)
    print(json.dumps({"contestant": contestant, "seed": args.seed, **result}))
