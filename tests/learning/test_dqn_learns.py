"""DQN learns: published scores on small environments. Those marked slow take minutes."""

import pytest
from learning_runs import greedy_return, greedy_returns, interquartile_mean, train


@pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")
def test_cartpole() -> None:
    """Half way, where a policy's score swings from update to update: not of one seed."""
    assert greedy_returns("dqn/cartpole", 3, 25_000).mean() >= 300


@pytest.mark.full("learning/test_ppo_learns.py::test_cartpole")
def test_without_gradients_nothing_is_learned() -> None:
    algo, _ = train("dqn/cartpole", seed=0, num_env_steps=5_000, lr=0.0)
    assert greedy_return(algo) < 150


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("spec", "num_env_steps", "bar", "lowest"),
    [
        ("dqn/cartpole", 50_000, 475, 400),
        ("dqn/cartpole_rainbow", 50_000, 475, 400),
        ("dqn/mountaincar", 120_000, -115, -130),
        ("dqn/lunarlander", 300_000, 200, None),
    ],
)
def test_score_over_five_seeds(
    spec: str, num_env_steps: int, bar: float, lowest: float | None
) -> None:
    if spec == "dqn/lunarlander":
        pytest.importorskip("Box2D", reason="needs the extra box2d")
    scores = greedy_returns(spec, 5, num_env_steps)
    assert interquartile_mean(scores) >= bar
    assert lowest is None or scores.min() >= lowest
