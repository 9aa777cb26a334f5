"""Train a shipped spec and rate the final policy, for tests that something is learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.sweep.load import load_spec
from trainables import Algorithm
from trainables.registry import get_algorithm
from trainables.runtime.evaluation.play import evaluate_policy


def train(spec_name: str, seed: int, num_env_steps: int, **changes: Any) -> tuple[Algorithm, dict]:
    """Train `experiments/tuned/<spec_name>.yaml` for at least some steps; the last result too."""
    spec = load_spec(f"experiments/tuned/{spec_name}.yaml")
    algo = get_algorithm(spec.trainable)(config={**spec.config, "seed": seed, **changes})
    while algo.num_env_steps_sampled < num_env_steps:
        result = algo.train()
    return algo, result


def train_on_data(spec_name: str, data: str, num_updates: int, **changes: Any) -> Algorithm:
    """Train a spec on recorded data for so many gradient steps, without evaluations between."""
    spec = load_spec(f"experiments/tuned/{spec_name}.yaml")
    settings = {**spec.config, "input_": data, "evaluation_interval": None, **changes}
    algo = get_algorithm(spec.trainable)(config=settings)
    while algo.num_updates < num_updates:
        algo.train()
    return algo


def greedy_return(algo: Algorithm) -> float:
    """Mean return of 100 greedy episodes, the same ones for every policy."""
    env, env_config = algo.config.env, algo.config.env_config
    policy = algo.get_policy()
    return evaluate_policy(policy, env, env_config, num_episodes=100, seed=12345).return_mean


def greedy_returns(spec_name: str, num_seeds: int, num_env_steps: int) -> np.ndarray:
    """`greedy_return` after training with the seeds 0, 1, …; printed as a record."""
    returns = []
    for seed in range(num_seeds):
        with train(spec_name, seed, num_env_steps)[0] as algo:
            returns.append(greedy_return(algo))
    scores = np.array(returns)
    print(f"{spec_name} @{num_env_steps:,}, greedy, 100 episodes:", np.round(scores, 1))
    return scores


def interquartile_mean(scores: np.ndarray) -> float:
    """Mean of the middle half of the seeds."""
    cut = len(scores) // 4
    return float(np.sort(scores)[cut : len(scores) - cut].mean())
