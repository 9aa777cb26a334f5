"""IMPALA and APPO on CartPole with RLlib; runs in the peers' environment (see README.md).

The last line it prints is one JSON object.
"""

from __future__ import annotations

import logging
import os

# Before Ray starts: workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
import ray
import torch
from off_policy import ActorSettings
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.connectors.pipelines.mean_std_filter import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def tuned(algorithm: str) -> IMPALAConfig:
    """RLlib's own settings for CartPole-v1: its `examples/algorithms/*/cartpole_*.py`.

    They ask for 4 (IMPALA) and 5 (APPO) runners and a learner process, which starve each other
    on 2 cores. 2 runners and the learner in the driver reached the score soonest of all tried.
    """
    config = APPOConfig() if algorithm == "appo" else IMPALAConfig()
    if algorithm == "appo":
        config.training(circular_buffer_iterations_per_batch=2)
    else:
        config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
        config.training(train_batch_size_per_learner=500, lr=0.0005, grad_clip=40.0)
    return (
        config.environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=16)
        .learners(num_learners=0)
        .training(vf_loss_coeff=0.05, entropy_coeff=0.0)
        .rl_module(model_config=DefaultModelConfig(vf_share_layers=True))
    )


def equal(algorithm: str, s: ActorSettings) -> IMPALAConfig:
    """The settings that `throughput.py` gives everyone."""
    return (
        (APPOConfig() if algorithm == "appo" else IMPALAConfig())
        .environment(s.env)
        .env_runners(
            num_env_runners=s.env_runners,
            num_envs_per_env_runner=s.slots,
            rollout_fragment_length=s.fragment,
        )
        .learners(num_learners=s.learners)
        .training(train_batch_size_per_learner=s.batch_size, lr=s.lr, grad_clip=s.max_grad_norm)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False
            )
        )
    )


class RLlib:
    """An algorithm of RLlib; `iterate` is one `train()`."""

    updates, update_seconds = 0, 0.0

    def __init__(self, config: IMPALAConfig, seed: int) -> None:
        # An iteration lasts 10 s by default, and a score is seen at its end.
        config.reporting(min_time_s_per_iteration=1)
        self._algo = config.debugging(seed=seed, log_level="ERROR").build_algo()
        self._return = float("nan")
        self.env_steps = 0

    def iterate(self) -> None:
        """One training iteration."""
        result = self._algo.train()
        self.env_steps = int(result.get("num_env_steps_sampled_lifetime", self.env_steps))
        self._return = float(result["env_runners"].get("episode_return_mean", float("nan")))

    def mean_return(self) -> float:
        """As RLlib reports it; NaN if no episode ended."""
        return self._return

    def stop(self) -> None:
        """Ends the algorithm."""
        self._algo.stop()


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    tasks = ["throughput", "time-to-score"]
    args = off_policy.parser(__doc__, ["impala", "appo"], tasks, actors=True).parse_args()
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=16, include_dashboard=False, log_to_driver=False)
    if args.task == "throughput":
        config = equal(args.algorithm, off_policy.actor_settings(args))
        result = off_policy.throughput(RLlib(config, args.seed), args.steps, args.warmup)
    else:
        config = tuned(args.algorithm)
        result = off_policy.time_to_score(
            lambda: RLlib(config, args.seed), off_policy.target(args), args.cap
        )
    ray.shutdown()
    off_policy.report("rllib", args, result)


if __name__ == "__main__":
    main()
