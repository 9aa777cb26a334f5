"""CQL and IQL learn from recorded data: they play better than who played in them, on average.

Half of the steps are of a player by rules who errs often, half are random.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from learning_runs import greedy_return, train_on_data
from scripted_play import mixed_play

from trainables import CQLConfig


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("spec", "num_updates", "bar"), [("cql/pendulum", 4000, -200), ("iql/pendulum", 10_000, -220)]
)
def test_pendulum(spec: str, num_updates: int, bar: float, tmp_path: Path) -> None:
    data, of_the_player = mixed_play("Pendulum-v1", tmp_path / "data", 20_000)
    with train_on_data(spec, data, num_updates, seed=0) as algo:
        found = greedy_return(algo)
    print(f"{spec} @{num_updates:,}: {found:.1f}; who played {of_the_player:.1f}")
    assert found >= bar > of_the_player


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_cql_with_discrete_actions(tmp_path: Path) -> None:
    data, of_the_player = mixed_play("CartPole-v1", tmp_path / "data", 20_000, random_share=0.6)
    config = CQLConfig().environment("CartPole-v1").debugging(seed=0)
    config.offline_data(input_=data, dataset_num_iters_per_learner=500)
    config.training(lr=1e-3, bc_iters=0, min_q_weight=1.0, model={"fcnet_hiddens": [64, 64]})
    with config.build() as algo:
        for _ in range(4):
            algo.train()
        found = greedy_return(algo)
    print(f"CQL on CartPole @2,000: {found:.1f}; who played {of_the_player:.1f}")
    assert found >= 400 > 2 * of_the_player
