"""What DreamerV3's contestants share: sizes, images, the measuring loop, the command line.

The contestants' scripts import it as their neighbour (`import dreamer`), since the peers'
environment knows nothing of this package.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

BATCH, LENGTH, HORIZON = 16, 64, 15
"""Sequences, rows of each and steps of a dream: the defaults of both."""
WIDTHS: dict[str, dict[str, int]] = {
    "micro": {"deter": 32, "hidden": 32, "stoch": 8, "classes": 8, "units": 32, "depth": 4},
    "XXS": {"deter": 128, "hidden": 128, "stoch": 32, "classes": 32, "units": 128, "depth": 16},
    "XS": {"deter": 256, "hidden": 256, "stoch": 32, "classes": 32, "units": 256, "depth": 24},
}
"""RLlib's widths of its model sizes, of one layer each. Ours of the name XS are the same."""


class Images(gym.Env):
    """Random images of 64 x 64 pixels, two actions, a reward of 1; an episode has 100 steps."""

    observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: Any = None, render_mode: str | None = None) -> None:
        self._images = np.random.default_rng(0).integers(256, size=(16, 64, 64, 3), dtype=np.uint8)
        self._step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins with the first image."""
        self._step = 0
        return self._images[0], {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Shows the next image, whatever the action."""
        self._step += 1
        return self._images[self._step % 16], 1.0, False, self._step == 100, {}


def arguments(description: str | None) -> argparse.Namespace:
    """The command line of every contestant."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--size", choices=list(WIDTHS), default="XS", help="model size")
    parser.add_argument("--images", action="store_true", help="64 x 64 pixels, else CartPole-v1")
    parser.add_argument("--depth", type=int, help="channels of convolutions; ours only")
    parser.add_argument("--bare", action="store_true", help="the losses in a bare loop; ours only")
    parser.add_argument("--warmup", type=int, default=1, help="updates before the measured ones")
    parser.add_argument("--updates", type=int, default=2, help="updates that are measured")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def run(args: argparse.Namespace, parameters: int, update: Callable[[], None]) -> None:
    """Measures updates and prints one JSON line.

    Args:
        args: The command line.
        parameters: How many are trained.
        update: Does one.
    """
    for _ in range(args.warmup):
        update()
    used, passed = [], []
    for _ in range(args.updates):
        start, cpu = time.perf_counter(), time.process_time()
        update()
        passed.append(time.perf_counter() - start)
        used.append(time.process_time() - cpu)
    result = {
        "parameters": parameters,
        "updates_per_second": 1 / float(np.median(passed)),
        "cpu_s": float(np.median(used)),
        "seconds": passed,
        "cpu_seconds": used,
    }
    print(json.dumps(result))
