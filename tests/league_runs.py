"""A small league, and what can be seen of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainables.algorithm import Algorithm

LEAGUE: dict[str, Any] = {
    "env": "matrix_game",
    "env_config": {"payoffs": "rock_paper_scissors", "rounds": 3},
    "policies": ["main", "hunter", "rover"],
    "league": {
        "learners": {"main": "main", "hunter": "main_exploiter", "rover": "league_exploiter"},
        "freeze_every": 2,
        "freeze_at_win_rate": 0.6,
        "win_rate_games": 10,
        "max_copies": 3,
        "reset_probability": 0.5,
    },
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 64,
    "minibatch_size": 32,
    "num_epochs": 2,
    "model": {"fcnet_hiddens": [8]},
    "lr": 0.02,
    "seed": 7,
}


def league_of(**more: Any) -> dict[str, Any]:
    """The settings of the league."""
    return {**LEAGUE, **more}


def seen_of(algo: Algorithm) -> dict[str, Any]:
    """What a league has come to, and who plays whom next: plain values, to be compared."""
    assert algo.league is not None
    book = algo.league.book
    state = book.get_state()
    return {
        "line_ups": algo.config.policy_mapping_fn,
        "ratings": book.ratings(),
        "copies": state["copies"],
        "recent": state["recent"],
        "payoffs": {n: np.asarray(table).tolist() for n, table in state["payoffs"].items()},
        "weights": {
            policy_id: {name: value.tolist() for name, value in policy.get_weights().items()}
            for policy_id, policy in algo.policies.items()
        },
    }
