"""IMPALA, APPO and PPO with env runners, with Tunescape itself.

The last line it prints is one JSON object::

    python ours_actors.py impala throughput --env-runners 2
"""

from __future__ import annotations

import logging
import time
from typing import Any

import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
import ray
import torch
from off_policy import ActorSettings, Mark, Result

from experiments.benchmarks.processes import cpu_seconds, env_runners
from experiments.sweep.load import load_spec
from trainables.core.config.config import AlgorithmConfig
from trainables.registry import get_algorithm

RETURN = "episode_return_mean"
TUNED = {"impala": "tuned/impala/cartpole", "appo": "tuned/appo/cartpole"}
"""The shipped specs that reach the scores."""


def equal(algorithm: str, s: ActorSettings) -> AlgorithmConfig:
    """The settings that `throughput.py` gives everyone."""
    config: AlgorithmConfig = get_algorithm(algorithm.upper()).config_class()
    config.update_from_dict(
        {
            "env": s.env,
            "num_env_runners": s.env_runners,
            "num_envs_per_env_runner": s.slots,
            "num_learners": s.learners,
            "lr": s.lr,
            "grad_clip": s.max_grad_norm,
            "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"},
        }
    )
    if algorithm == "ppo":  # waits for all env runners: as many steps of each whatever their number
        steps = s.slots * s.fragment * max(1, s.env_runners)
        config.training(train_batch_size_per_learner=steps, minibatch_size=256, num_epochs=6)
    else:
        config.env_runners(rollout_fragment_length=s.fragment)
        config.training(train_batch_size_per_learner=s.batch_size)
    return config.reporting(min_sample_timesteps_per_iteration=10_000)


def evaluating(config: AlgorithmConfig) -> AlgorithmConfig:
    """An evaluation runner of its own plays all the time, with the weights of each iteration."""
    return config.evaluation(
        evaluation_interval=1,
        evaluation_duration="auto",
        evaluation_num_env_runners=1,
        evaluation_parallel_to_training=True,
    )


def tuned(algorithm: str) -> AlgorithmConfig:
    """What the shipped spec says, reported often enough to notice the score soon."""
    config: AlgorithmConfig = get_algorithm(algorithm.upper()).config_class()
    config.update_from_dict(load_spec(TUNED[algorithm]).config)
    return config.reporting(
        metrics_num_episodes_for_smoothing=off_policy.SCORES[algorithm].episodes,
        min_sample_timesteps_per_iteration=1000,
    )


class Ours:
    """An algorithm of Tunescape; `iterate` is one `train()`."""

    def __init__(self, config: AlgorithmConfig, seed: int) -> None:
        self._enough = config.metrics_num_episodes_for_smoothing
        self._algo = config.debugging(seed=seed).build()
        self._result: dict[str, Any] = {}
        self.env_steps, self.updates, self.update_seconds = 0, 0, 0.0

    def iterate(self) -> None:
        """One training iteration."""
        self._result = self._algo.train()
        self.env_steps = self._result["num_env_steps_sampled_lifetime"]
        self.updates = self._result["num_training_step_calls_lifetime"]
        self.update_seconds += self._result["time/learn_s"]

    def mean_return(self) -> float:
        """The mean return of the last training episodes; NaN before there are enough."""
        full = self._result.get("num_episodes_lifetime", 0) >= self._enough
        return float(self._result[RETURN]) if full else float("nan")

    def mark(self) -> Mark:
        """How far it has got."""
        return Mark(self.env_steps, self.updates, self.update_seconds)

    def stop(self) -> None:
        """Ends the algorithm."""
        self._algo.stop()


def throughput(ours: Ours, steps: int, warmup: int) -> Result:
    """Rates after a warm-up, and the CPU that a step costs here and in env runners, in us."""
    while ours.env_steps < warmup:
        ours.iterate()
    before, cpu = ours.mark(), _cpu()
    while ours.env_steps - before.env_steps < steps:
        ours.iterate()
    after, (driver, runners) = ours.mark(), _cpu()
    ours.stop()
    result: Result = off_policy.rates(before, after)
    per_step = 1e6 / result["env_steps"]
    return result | {
        "driver_cpu_us": (driver - cpu[0]) * per_step,
        "env_runner_cpu_us": (runners - cpu[1]) * per_step,
        "learn_us": (after.update_seconds - before.update_seconds) * per_step,
    }


def _cpu() -> tuple[float, float]:
    return time.process_time(), sum(cpu_seconds(pid) for pid in env_runners())


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    tasks = ["throughput", "time-to-score"]
    parser = off_policy.parser(
        __doc__, ["impala", "appo", "ppo"], tasks, actors=True, evaluates=True
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=16, include_dashboard=False, log_to_driver=False)
    if args.task == "throughput":
        config = equal(args.algorithm, off_policy.actor_settings(args))
        if args.evaluate:
            evaluating(config)
        result = throughput(Ours(config, args.seed), args.steps, args.warmup)
    else:
        config = tuned(args.algorithm)
        result = off_policy.time_to_score(
            lambda: Ours(config, args.seed), off_policy.target(args), args.cap
        )
    ray.shutdown()
    off_policy.report("ours", args, result)


if __name__ == "__main__":
    main()
