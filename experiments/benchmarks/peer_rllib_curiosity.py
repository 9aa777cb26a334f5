"""PPO and DQN with RLlib's example of curiosity; runs in the peers' environment (see README.md).

A frozen lake of 12 x 12 fields whose goal is 22 steps away, the length of an episode. The last line
it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
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
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

LAKE = {
    "desc": ["SFFFFFFFFFFF", *["FFFFFFFFFFFF"] * 10, "FFFFFFFFFFFG"],
    "is_slippery": False,
    "max_episode_steps": 22,
}
WIDTHS = (256, 256)
POINTS = 60
"""Points of a curve that are kept at most."""


def config_of(args: argparse.Namespace) -> Any:
    """The example's config, with everything in this process."""
    is_ppo = args.algorithm == "ppo"
    config = (PPOConfig if is_ppo else DQNConfig)()
    config.environment("FrozenLake-v1", env_config=LAKE)
    config.env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=5 if is_ppo else 1,
        env_to_module_connector=lambda *given, **more: FlattenObservations(),
    )
    if is_ppo:
        config.training(num_epochs=6, train_batch_size_per_learner=2000, lr=0.0003)
    else:
        config.training(
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
    own = {"model_config": {"vf_share_layers": True}} if is_ppo else {}
    modules = {DEFAULT_MODULE_ID: RLModuleSpec(**own)}
    if not args.no_curiosity:
        modules[ICM_MODULE_ID] = RLModuleSpec(
            module_class=IntrinsicCuriosityModel,
            learner_only=True,
            model_config={
                "feature_dim": 288,
                **{f"{net}_net_hiddens": WIDTHS for net in ("feature", "inverse", "forward")},
                **{f"{net}_net_activation": "relu" for net in ("feature", "inverse", "forward")},
            },
        )
        config.training(
            learner_class=PPOTorchLearnerWithCuriosity if is_ppo else DQNTorchLearnerWithCuriosity,
            learner_config_dict={"intrinsic_reward_coeff": 0.05, "forward_loss_weight": 0.2},
        )
        config.rl_module(
            algorithm_config_overrides_per_module={
                ICM_MODULE_ID: AlgorithmConfig.overrides(lr=0.0005)
            }
        )
    config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
    return config.debugging(seed=args.seed, log_level="ERROR")


def main() -> None:
    """Trains, measures after the warm-up and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--algorithm", choices=("ppo", "dqn"), default="ppo")
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps in all")
    parser.add_argument("--warmup", type=int, default=10_000, help="environment steps before")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-curiosity", action="store_true", help="the same without it")
    parser.add_argument("--stop-return", type=float, help="stop at this mean training return")
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    algo = config_of(args).build_algo()
    curve: list[tuple[int, float]] = []
    steps = first = 0
    start, cpu_start = time.perf_counter(), time.process_time()
    solved_at = None
    while steps < args.steps and solved_at is None:
        if not first and steps >= args.warmup:
            first, start, cpu_start = steps, time.perf_counter(), time.process_time()
        found = algo.train()[ENV_RUNNER_RESULTS]
        steps = int(found[NUM_ENV_STEPS_SAMPLED_LIFETIME])
        value = found.get("episode_return_mean")
        if value is not None and value == value:
            curve.append((steps, round(float(value), 3)))
            if args.stop_return is not None and value >= args.stop_return:
                solved_at = steps
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    algo.stop()
    ray.shutdown()
    result = {
        "library": "rllib",
        "algorithm": args.algorithm,
        "curiosity": not args.no_curiosity,
        "seed": args.seed,
        "steps": steps,
        "steps_per_second": (steps - first) / seconds,
        "cpu_steps_per_second": (steps - first) / cpu_seconds,
        "return": curve[-1][1] if curve else None,
        "solved_at": solved_at,
        "curve": curve[:: max(1, -(-len(curve) // POINTS))],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
