"""Self-play with a league comes near an equilibrium that no learner by itself stays at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainables import PPOConfig
from trainables.runtime.league.exploitability import exploitability

# What the row's player is paid: rock, paper, scissors. Paper over rock pays 2, all else 1.
PAYOFFS = np.array([[0, -2, 1], [2, 0, -1], [-1, 1, 0]], float)


def equilibrium() -> np.ndarray:
    """The mixture whose worst pay-off is the greatest, by a linear program."""
    from scipy.optimize import linprog

    found = linprog(
        [0, 0, 0, -1],
        A_ub=np.hstack((-PAYOFFS.T, np.ones((3, 1)))),
        b_ub=np.zeros(3),
        A_eq=[[1, 1, 1, 0]],
        b_eq=[1],
        bounds=[(0, 1)] * 3 + [(None, None)],
    )
    mixture: np.ndarray = found.x[:3]
    return mixture


def with_rock(algo: Any, share: float = 0.9) -> None:
    """Let all policies play rock with a probability, whatever they see."""
    chances = np.array([share, (1 - share) / 2, (1 - share) / 2])
    weights = {m: policy.get_weights() for m, policy in algo.policies.items()}
    for own in weights.values():
        own["policy_head.0.weight"] = np.zeros_like(own["policy_head.0.weight"])
        own["policy_head.0.bias"] = np.log(chances).astype(np.float32)
    algo.set_weights(weights)


def average_of(num_iterations: int, seed: int) -> np.ndarray:
    """The average policy of a league that began with rock, as probabilities of actions."""
    config = PPOConfig().environment(
        "matrix_game", env_config={"payoffs": [PAYOFFS.tolist(), (-PAYOFFS).tolist()], "rounds": 1}
    )
    config.env_runners(num_envs_per_env_runner=512, rollout_fragment_length=4)
    # Plain gradient steps of the pay-offs as they are; the entropy keeps actions from dying out.
    # Nothing follows the only round, whose end is a truncation: hence gamma.
    config.training(
        train_batch_size_per_learner=2048,
        minibatch_size=None,
        num_epochs=1,
        optimizer={"type": "sgd"},
        lr=2.0,
        gamma=0.0,
        entropy_coeff=0.2,
        normalize_advantages=False,
        grad_clip=None,
        model={"fcnet_hiddens": []},
    )
    config.multi_agent(
        policies=["main"],
        policy_map_capacity=None,
        league={"freeze_every": 2, "self_play_share": 0.5, "opponents": "uniform"},
    )
    with config.debugging(seed=seed).build() as algo:
        with_rock(algo)
        for _ in range(num_iterations):
            algo.train()
        average: np.ndarray = algo.league.average_policy("main").action_probabilities(
            np.zeros(6, np.float32)
        )
    return average


def test_the_equilibrium_is_not_uniform() -> None:
    best = equilibrium()
    np.testing.assert_allclose(best, [0.25, 0.25, 0.5], atol=1e-9)
    assert exploitability(PAYOFFS, best, best) == pytest.approx(0, abs=1e-9)
    rock = np.array([0.9, 0.05, 0.05])
    assert exploitability(PAYOFFS, rock, rock) == pytest.approx(1.75)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_average_of_a_league_is_near_it(seed: int) -> None:
    average = average_of(200, seed)
    assert exploitability(PAYOFFS, average, average) < 0.1
