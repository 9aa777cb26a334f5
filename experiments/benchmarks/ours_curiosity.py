"""PPO with intrinsic curiosity with Tunescape, as in RLlib's example; `--plain`: without.

The same lake, networks and batches. The last line it prints is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

from trainables import PPOConfig

LAKE = {
    "desc": ["SFFFFFFFFFFF", *["FFFFFFFFFFFF"] * 10, "FFFFFFFFFFFG"],
    "is_slippery": False,
    "max_episode_steps": 22,
}
WIDTHS = [256, 256]
CURIOSITY = {
    "type": "Curiosity",
    "eta": 0.05,
    "lr": 5e-4,
    "feature_dim": 288,
    "feature_net_config": {"fcnet_hiddens": WIDTHS},
    "inverse_net_hiddens": WIDTHS,
    "forward_net_hiddens": WIDTHS,
    "minibatch_size": 128,
}


def main() -> None:
    """Trains, measures after the warm-up and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plain", action="store_true", help="without curiosity")
    parser.add_argument("--epochs", type=int, default=1, help="passes of the curiosity module")
    parser.add_argument("--warmup", type=int, default=10_000, help="environment steps before")
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps in all")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    config = (
        PPOConfig()
        .environment("FrozenLake-v1", env_config=LAKE)
        .env_runners(num_envs_per_env_runner=5)
        .training(
            train_batch_size_per_learner=2000,
            num_epochs=6,
            minibatch_size=128,
            lr=3e-4,
            model={"fcnet_hiddens": WIDTHS, "vf_share_layers": True},
        )
        .debugging(seed=args.seed)
    )
    if not args.plain:
        config.exploration(exploration_config={**CURIOSITY, "num_epochs": args.epochs})
    with config.build() as algo:
        while algo.num_env_steps_sampled < args.warmup:
            algo.train()
        first = algo.num_env_steps_sampled
        start, cpu_start = time.perf_counter(), time.process_time()
        while algo.num_env_steps_sampled < args.steps:
            algo.train()
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        steps = algo.num_env_steps_sampled - first
    rates = {
        "steps_per_second": steps / seconds,
        "cpu_steps_per_second": steps / cpu_seconds,
    }
    print(json.dumps({"library": "tunescape", "curiosity": not args.plain, **rates}))


if __name__ == "__main__":
    main()
