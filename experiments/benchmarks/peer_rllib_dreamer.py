"""DreamerV3 with RLlib; runs in the peers' environment (see README.md).

An update is its learner's, of one batch that is made before: nothing is sampled, drawn or prepared.
The last line it prints is one JSON object.
"""

from __future__ import annotations

import logging
import os

# Before Ray starts: workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

from typing import Any

import dreamer  # type: ignore[import-not-found]  # the neighbour, see there
import gymnasium as gym
import numpy as np
import ray
import torch
from ray.rllib.algorithms.dreamerv3 import DreamerV3Config
from ray.rllib.policy.sample_batch import SampleBatch


class Scaled(dreamer.Images):
    """Images as RLlib wants them, from -1 to 1."""

    observation_space = gym.spaces.Box(-1, 1, (64, 64, 3), np.float32)

    def reset(self, **options: Any) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins with the first image."""
        image, info = super().reset(**options)
        return (image / 127.5 - 1).astype(np.float32), info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Shows the next image."""
        image, *others = super().step(action)
        return ((image / 127.5 - 1).astype(np.float32), *others)


def batch(images: bool, seed: int) -> SampleBatch:
    """A batch as RLlib's replay buffer draws it."""
    shape = (dreamer.BATCH, dreamer.LENGTH)
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=shape)
    never = np.zeros(shape, bool)
    size = (64, 64, 3) if images else (4,)
    return SampleBatch(
        obs=rng.uniform(-1, 1, (*shape, *size)).astype(np.float32),
        actions=np.eye(2, dtype=np.float32)[actions],
        actions_ints=actions,
        rewards=np.ones(shape, np.float32),
        is_first=rng.random(shape) < 0.02,
        is_last=never,
        is_terminated=never,
        is_truncated=never,
    )


def main() -> None:
    """Builds the algorithm, measures its learner and prints."""
    args = dreamer.arguments(__doc__)
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    config = (
        DreamerV3Config()
        .environment(Scaled if args.images else "CartPole-v1")
        .learners(num_learners=0)
        .training(
            model_size=args.size,
            batch_size_B=dreamer.BATCH,
            batch_length_T=dreamer.LENGTH,
            horizon_H=dreamer.HORIZON,
        )
        .debugging(seed=args.seed, log_level="ERROR")
    )
    algo = config.build_algo()
    module = algo.learner_group._learner.module["default_policy"]
    count = sum(p.numel() for p in module.parameters() if p.requires_grad)
    prepared = batch(args.images, args.seed)

    def update() -> None:
        algo.learner_group.update(
            batch=prepared.copy().as_multi_agent(),
            timesteps={"num_env_steps_sampled_lifetime": 0},
        )

    dreamer.run(args, count, update)
    algo.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
