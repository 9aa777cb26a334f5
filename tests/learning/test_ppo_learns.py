"""PPO learns: published scores on small environments. Those marked slow take minutes."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learning_runs import greedy_return, greedy_returns, interquartile_mean, train

from trainables import PPO
from trainables.core.data.batch import Batch
from trainables.core.learning.advantages import with_advantages

ON_AND_ON = {"gamma": 0.99, "lr": 1e-3}
"""Of a run that goes on past the score: values of 100, a rate that does not fall."""


def test_cartpole() -> None:
    algo, result = train("ppo/cartpole", seed=0, num_env_steps=60_000)
    assert result["episode_return_mean"] >= 200
    assert greedy_return(algo) >= 450


@pytest.mark.full("test_cartpole")
def test_a_policy_that_cannot_learn_fails_this_test() -> None:
    """The same run without gradients stays where a random policy is."""
    _, result = train("ppo/cartpole", seed=0, num_env_steps=20_000, lr=0.0)
    assert result["episode_return_mean"] < 50


@pytest.mark.slow
def test_cartpole_over_ten_seeds() -> None:
    scores = greedy_returns("ppo/cartpole", 10, 100_000)
    assert interquartile_mean(scores) >= 475
    assert scores.min() >= 400


@pytest.mark.slow
def test_cartpole_stays_solved() -> None:
    """Twice as long as it takes, at a rate that does not fall: values are 100 everywhere."""
    for seed in range(3):
        algo, result = train("ppo/cartpole", seed, 200_000, **ON_AND_ON)
        assert result["learner/default_policy/advantage_std"] < 1  # the floor holds
        assert result["episode_return_mean"] >= 475
        assert greedy_return(algo) >= 475


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_noise_unlearns_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a task is solved, advantages are a small noise; without the floor it is a signal."""
    solved, _ = train("ppo/cartpole", 0, 140_000, **ON_AND_ON)
    solved.save(str(tmp_path))
    settings = solved.config.to_dict()
    generator = torch.Generator()

    def noise(*args: Any, **kwargs: Any) -> Batch:
        batch = with_advantages(*args, **kwargs)
        advantages = 0.01 * torch.randn(batch["values"].shape, generator=generator)
        return batch | {"advantages": advantages, "value_targets": batch["values"] + advantages}

    monkeypatch.setattr("trainables.on_policy.with_advantages", noise)
    returns: dict[float, list[float]] = {0.01: [], 0.0: []}
    for floor, seed in itertools.product(returns, range(3)):
        generator.manual_seed(seed)
        with PPO(config={**settings, "advantage_std_floor": floor}) as algo:
            algo.restore(str(tmp_path))
            for _ in range(60):
                result = algo.train()
        returns[floor].append(result["episode_return_mean"])
    print("training return after 60 iterations of noise, by floor:", returns)
    assert min(returns[0.01]) >= 490 > min(returns[0.0])


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "bar"), [("pendulum", -200.0), ("acrobot", -95.0)])
def test_training_return_over_five_seeds(spec: str, bar: float) -> None:
    returns = [train(f"ppo/{spec}", s, 150_000)[1]["episode_return_mean"] for s in range(5)]
    print(f"{spec} @150k, training return of the last 100 episodes:", np.round(returns, 1))
    assert np.mean(returns) >= bar
