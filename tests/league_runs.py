"""A small league; `python -m league_runs KIND FOLDER LAST` trains it until it is killed.

It saves a checkpoint after every second iteration, and is killed by SIGKILL amid the sampling of
the iteration after the `LAST`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from telling_agents import die_in_step

from trainables.algorithm import Algorithm
from trainables.registry import get_algorithm

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
    "model": {"fcnet_hiddens": [8]},
    "lr": 0.02,
    "seed": 7,
}
_OWN: dict[str, dict[str, Any]] = {
    "PPO": {"minibatch_size": 32, "num_epochs": 2},
    "DQN": {
        "train_batch_size_per_learner": 16,
        "num_steps_sampled_before_learning_starts": 32,
        "min_sample_timesteps_per_iteration": 64,
        "store_buffer_in_checkpoints": True,
        "replay_buffer_config": {"capacity": 500},
    },
}


def league_of(kind: str, **more: Any) -> dict[str, Any]:
    """The settings of a league of an algorithm."""
    return {**LEAGUE, **_OWN[kind], **more}


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


def _main(kind: str, folder: Path, last: int) -> None:
    with get_algorithm(kind)(config=league_of(kind)) as algo:
        while True:
            if algo.iteration == last:
                die_in_step(5, algo.env_runners.local_env_runner.env)
            algo.train()
            if algo.iteration % 2 == 0:
                algo.save_checkpoint(str(folder / f"checkpoint_{algo.iteration}"))


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
