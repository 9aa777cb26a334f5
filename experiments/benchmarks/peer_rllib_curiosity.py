"""PPO and DQN with RLlib's intrinsic curiosity; runs in the peers' environment (see README.md).

The settings are those of RLlib's own example, a FrozenLake of 12 x 12 without holes.
The last line it prints is one JSON object::

    python peer_rllib_curiosity.py --algorithm ppo --steps 60000
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from collections import deque
from typing import Any

# Before Ray starts: workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

import ray
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.learners.classes.intrinsic_curiosity_learners import (
    ICM_MODULE_ID,
    DQNTorchLearnerWithCuriosity,
    PPOTorchLearnerWithCuriosity,
)
from ray.rllib.examples.rl_modules.classes.intrinsic_curiosity_model_rlm import (
    IntrinsicCuriosityModel,
)

LAKE = {
    "desc": ["S" + "F" * 11, *["F" * 12] * 10, "F" * 11 + "G"],
    "is_slippery": False,
    # The shortest way has as many.
    "max_episode_steps": 22,
}
ICM = {
    "feature_dim": 288,
    "feature_net_hiddens": (256, 256),
    "feature_net_activation": "relu",
    "inverse_net_hiddens": (256, 256),
    "inverse_net_activation": "relu",
    "forward_net_hiddens": (256, 256),
    "forward_net_activation": "relu",
}
EPISODES = 100
POINTS = 60


def ppo() -> PPOConfig:
    """The example's PPO, without curiosity."""
    return PPOConfig().training(num_epochs=6, train_batch_size_per_learner=2000, lr=0.0003)


def dqn() -> DQNConfig:
    """The example's DQN, without curiosity."""
    return DQNConfig().training(
        train_batch_size_per_learner=128,
        lr=0.00075,
        replay_buffer_config={
            "type": "PrioritizedEpisodeReplayBuffer",
            "capacity": 500_000,
            "alpha": 0.6,
            "beta": 0.4,
        },
        epsilon=[[0, 1.0], [500_000, 0.05]],
        n_step=(3, 5),
        double_q=True,
        dueling=True,
    )


def configured(algorithm: str, curiosity: bool, seed: int) -> AlgorithmConfig:
    """The example's settings, sampled in process."""
    is_ppo = algorithm == "ppo"
    policy = RLModuleSpec(**({"model_config": {"vf_share_layers": True}} if is_ppo else {}))
    config = (
        (ppo() if is_ppo else dqn())
        .environment("FrozenLake-v1", env_config=LAKE)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=5 if is_ppo else 1,
            env_to_module_connector=lambda env, spaces, device: FlattenObservations(),
        )
        .learners(num_learners=0)
        .debugging(seed=seed, log_level="ERROR")
    )
    if not curiosity:
        return config.rl_module(rl_module_spec=policy)
    icm = RLModuleSpec(module_class=IntrinsicCuriosityModel, learner_only=True, model_config=ICM)
    return config.learners(
        learner_class=PPOTorchLearnerWithCuriosity if is_ppo else DQNTorchLearnerWithCuriosity,
        learner_config_dict={"intrinsic_reward_coeff": 0.05, "forward_loss_weight": 0.2},
    ).rl_module(
        rl_module_spec=MultiRLModuleSpec(
            rl_module_specs={DEFAULT_MODULE_ID: policy, ICM_MODULE_ID: icm}
        ),
        algorithm_config_overrides_per_module={ICM_MODULE_ID: AlgorithmConfig.overrides(lr=0.0005)},
    )


def clocks() -> tuple[float, float]:
    """Seconds of the wall and of this process."""
    return time.perf_counter(), time.process_time()


def thinned(curve: list[list[float]]) -> list[list[float]]:
    """At most `POINTS` points of a curve, evenly spaced, the last one included."""
    every = -(-len(curve) // POINTS)
    return curve[::-1][::every][::-1] if every else []


def train(
    config: AlgorithmConfig, steps: int, warmup: int, stop_return: float | None
) -> dict[str, Any]:
    """Trains for so many environment steps, or until the return is reached.

    Args:
        config: What to train.
        steps: Environment steps in all.
        warmup: The first ones, that the clock leaves out.
        stop_return: A mean return of `EPISODES` training episodes that ends it.

    Returns:
        What is printed of it; no steps per second if it ended within the warm-up.
    """
    # RLlib's own means are over the episodes of one iteration here, which may be fewer.
    returns: deque[float] = deque(maxlen=EPISODES)
    config.callbacks(on_episode_end=lambda episode, **_: returns.append(episode.get_return()))
    algo = config.build_algo()
    last, solved_at = None, None
    curve: list[list[float]] = []
    start = now = 0, *clocks()
    while now[0] < steps and solved_at is None:
        sampled = int(algo.train()["num_env_steps_sampled_lifetime"])
        now = sampled, *clocks()
        if start[0] < warmup:
            start = now
        if len(returns) == EPISODES:
            last = sum(returns) / EPISODES
            curve.append([sampled, last])
            if stop_return is not None and last >= stop_return:
                solved_at = sampled
    algo.stop()
    measured, wall, cpu = (after - before for after, before in zip(now, start, strict=True))
    return {
        "steps": now[0],
        "steps_per_second": measured / wall if measured else None,
        "cpu_steps_per_second": measured / cpu if measured else None,
        "return": last,
        "solved_at": solved_at,
        "curve": thinned(curve),
    }


def main() -> None:
    """Trains what the command line names and prints its result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--algorithm", choices=["ppo", "dqn"], default="ppo")
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps in all")
    parser.add_argument("--warmup", type=int, default=10_000, help="steps before the clock starts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-curiosity", action="store_true", help="without intrinsic rewards")
    parser.add_argument("--stop-return", type=float, help="mean return at which to stop early")
    args = parser.parse_args()
    if args.warmup >= args.steps:
        parser.error(f"--warmup {args.warmup} leaves none of --steps {args.steps} to measure")
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        config = configured(args.algorithm, not args.no_curiosity, args.seed)
        result = train(config, args.steps, args.warmup, args.stop_return)
    finally:
        ray.shutdown()
    head = {"library": "rllib", "algorithm": args.algorithm, "curiosity": not args.no_curiosity}
    print(json.dumps({**head, "seed": args.seed, **result}))


if __name__ == "__main__":
    main()
