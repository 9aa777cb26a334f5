"""A league in training: copies, who learns, exact resumption, and the average policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainables import DQN, PPO, PolicySpec, PPOConfig
from trainables.algorithm import Algorithm

ROLES = {"main": "main", "hunter": "main_exploiter", "rover": "league_exploiter"}
OF_PPO = {"train_batch_size_per_learner": 64, "minibatch_size": 32, "num_epochs": 2, "lr": 0.02}
OF_DQN = {
    "train_batch_size_per_learner": 16,
    "num_steps_sampled_before_learning_starts": 32,
    "min_sample_timesteps_per_iteration": 64,
    "store_buffer_in_checkpoints": True,
    "replay_buffer_config": {"capacity": 500},
}


def settings(learners: dict[str, str], more: dict[str, Any], **league: Any) -> dict[str, Any]:
    return {
        "env": "matrix_game",
        "env_config": {"payoffs": "rock_paper_scissors", "rounds": 3},
        "policies": [*learners],
        "league": {"learners": learners, "freeze_every": 2, "max_copies": 3, **league},
        "num_envs_per_env_runner": 4,
        "model": {"fcnet_hiddens": [8]},
        "seed": 7,
        **more,
    }


def weights_of(algorithm: Algorithm) -> dict[str, dict[str, np.ndarray]]:
    return {m: policy.get_weights() for m, policy in algorithm.policies.items()}


def same(a: dict[str, dict[str, np.ndarray]], b: dict[str, dict[str, np.ndarray]]) -> bool:
    assert a.keys() == b.keys()
    return all(np.array_equal(a[m][name], b[m][name]) for m in a for name in a[m])


def test_copies_do_not_learn_and_are_dropped() -> None:
    with PPO(settings({"main": "main"}, OF_PPO)) as algo:
        assert [*algo.policies] == ["main", "main_v0"]
        first = algo.policies["main"].get_weights()
        result = algo.train()
        assert result["league/num_policies"] == 2
        for _ in range(7):
            result = algo.train()
        assert [*algo.policies] == ["main", "main_v0", "main_v3", "main_v4"]
        assert [*algo.learner_connectors] == ["main"]
        kept = algo.policies["main_v0"].get_weights()
        assert all(np.array_equal(first[name], kept[name]) for name in first)
        latest, now = algo.policies["main_v4"].get_weights(), algo.policies["main"].get_weights()
        assert all(np.array_equal(latest[name], now[name]) for name in now)
        assert algo.league is not None
        played = algo.league.book.payoffs
        assert played.games[played.players.index("main")].sum() > 0
        assert np.isfinite(result["league/main/elo"]) and 0 <= result["league/main/win_rate"] <= 1
        assert result["league/main/num_copies"] == 3


def test_exploiters_go_back_to_their_first_weights() -> None:
    with PPO(settings(ROLES, OF_PPO, reset_probability=0.0)) as algo:
        first = weights_of(algo)
        for _ in range(2):
            algo.train()
        now = weights_of(algo)
        assert all(np.array_equal(now["hunter"][n], first["hunter"][n]) for n in now["hunter"])
        assert not np.array_equal(
            now["hunter_v1"]["encoder.0.weight"], first["hunter"]["encoder.0.weight"]
        )
        assert not np.array_equal(
            now["rover"]["encoder.0.weight"], first["rover"]["encoder.0.weight"]
        )


@pytest.mark.parametrize(
    ("kind", "more", "learners"),
    [
        (PPO, OF_PPO, ROLES),
        pytest.param(PPO, OF_PPO, {"main": "main"}, marks=pytest.mark.full),
        pytest.param(DQN, OF_DQN, {"main": "main"}, marks=pytest.mark.full),
    ],
)
def test_a_resumed_league_goes_on_exactly(
    kind: type[Algorithm], more: dict[str, Any], learners: dict[str, str], tmp_path: Path
) -> None:
    """With the same opponents, ratings and weights, by either way of resuming."""
    config = settings(learners, more, reset_probability=0.5)
    with kind(config) as algo:
        for _ in range(5):
            algo.train()
        algo.save_checkpoint(str(tmp_path))
        line_ups = algo.config.policy_mapping_fn
        results = [algo.train() for _ in range(2)]
        whole, assert_book = weights_of(algo), algo.league
        assert assert_book is not None
        ratings, state = assert_book.book.ratings(), assert_book.book.get_state()
    for way in ("restore", "from_checkpoint"):
        again = kind(config) if way == "restore" else kind.from_checkpoint(tmp_path, ["env_config"])
        with again as algo:
            if way == "restore":
                algo.load_checkpoint(str(tmp_path))
            assert algo.config.policy_mapping_fn == line_ups
            for result in results:
                after = algo.train()
                for name in result:
                    if name.startswith(("league/", "episode_return", "module/")):
                        assert after[name] == result[name], name
            assert same(weights_of(algo), whole)
            assert algo.league is not None and algo.league.book.ratings() == ratings
            now = algo.league.book.get_state()
            assert now["copies"] == state["copies"] and now["recent"] == state["recent"]
            assert np.array_equal(now["payoffs"]["wins"], state["payoffs"]["wins"])


def test_average_policy() -> None:
    with PPO(settings({"main": "main"}, OF_PPO)) as algo:
        for _ in range(4):
            algo.train()
        assert algo.league is not None
        average = algo.league.average_policy("main")
        assert [*average.members] == ["main_v0", "main_v1", "main_v2"]
        observation = np.zeros(6, np.float32)
        slow = np.zeros(3)
        for policy in average.members.values():
            logits = policy.compute_single_action(observation, full_fetch=True)[2][
                "action_dist_inputs"
            ]
            slow += np.exp(logits) / np.exp(logits).sum() / 3
        assert average.action_probabilities(observation) == pytest.approx(slow, abs=1e-6)
        drawn = [average.of_episode(i) for i in range(300)]
        counts = [sum(policy is member for policy in drawn) for member in average.members.values()]
        assert min(counts) > 70 and sum(counts) == 300
        assert [average.of_episode(i) for i in range(300)] == drawn
        with pytest.raises(KeyError, match="no learner 'mein'; there are \\['main'\\]"):
            algo.league.average_policy("mein")


def test_a_new_trial_in_the_same_process_has_a_new_league() -> None:
    with PPO(settings({"main": "main"}, OF_PPO)) as algo:
        first = weights_of(algo)
        for _ in range(4):
            algo.train()
        algo.reset_config(settings({"main": "main"}, OF_PPO))
        assert [*algo.policies] == ["main", "main_v0"] and same(weights_of(algo), first)


def test_evaluations_have_opponents_of_their_own() -> None:
    """A league writes who trains against whom; evaluations are with whom they name, all along."""
    config = PPOConfig().environment("tic_tac_toe").debugging(seed=0)
    config.training(train_batch_size_per_learner=128, minibatch_size=128)
    config.multi_agent(
        policies={"main": PolicySpec(), "random": PolicySpec(policy_class="random")},
        league={"freeze_every": 1},
    )
    seats = [
        {"policies": {"player_1": "main", "player_2": "random"}},
        {"policies": {"player_1": "random", "player_2": "main"}},
    ]
    config.evaluation(
        evaluation_interval=1,
        evaluation_duration=40,
        evaluation_config={"policy_mapping_fn": seats},
    )
    with config.build() as algo:
        for _ in range(2):
            result = algo.train()
            played = {key for key in result if key.startswith("evaluation/module/")}
            assert {key.split("/")[2] for key in played} == {"main", "random"}
            both = [
                result[f"evaluation/agent/player_{seat}/episode_return_mean"] for seat in (1, 2)
            ]
            assert sum(both) == 0  # what one wins the other loses
            means = [
                result[f"evaluation/module/{m}/episode_return_mean"] for m in ("main", "random")
            ]
            assert sum(means) == pytest.approx(0)
            assert not any(key.startswith("module/random/") for key in result)
        assert algo.config.policy_mapping_fn != seats
