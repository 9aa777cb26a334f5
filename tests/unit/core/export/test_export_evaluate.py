"""An exported graph plays the episodes that its algorithm evaluates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import settings_of

from trainables.core.export.exported_policy import load_player
from trainables.registry import get_algorithm
from trainables.runtime.evaluation.play import evaluate_policy

SMALL = {"fcnet_hiddens": [16]}
LSTM = SMALL | {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo_lstm": (
        "PPO",
        "tunescape/StatelessCartPole-v0",
        {"model": LSTM, "observation_filter": "MeanStdFilter"},
    ),
    "dqn": ("DQN", "CartPole-v1", {"model": SMALL, "noisy": True, "num_atoms": 11}),
    "sac": ("SAC", "Pendulum-v1", {"model": SMALL}),
}


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("ppo_lstm", ["torch"]),
        *(
            pytest.param(name, forms, marks=pytest.mark.full)
            for name, forms in [
                ("ppo_lstm", ["onnx"]),  # which takes as long again
                ("dqn", ["torch", "onnx"]),
                ("sac", ["torch", "onnx"]),
            ]
        ),
    ],
)
def test_a_graph_plays_what_its_algorithm_evaluates(
    tmp_path: Path, name: str, forms: list[str]
) -> None:
    algorithm, env, settings = CASES[name]
    config = settings_of(algorithm, env, evaluation_duration=3, seed=5, **settings)
    with get_algorithm(algorithm)(config=config) as algo:
        algo.train()
        expected = algo.evaluate()
        if "torch" in forms:
            algo.export_policy_model(str(tmp_path / "torch"))
        if "onnx" in forms:
            algo.export_model(["onnx"], str(tmp_path / "onnx"))
        own = evaluate_policy(algo.get_policy(), env, num_episodes=3, seed=5)
    assert own.return_mean == expected["episode_return_mean"]
    for form in forms:
        player = load_player(tmp_path / form, trust=["torch.export"])
        played = evaluate_policy(player, env, num_episodes=3, seed=5)
        assert played.lengths.tolist() == own.lengths.tolist()
        if (name, form) == ("sac", "onnx"):  # torques are rounded otherwise, by 1e-7 of them
            assert played.returns == pytest.approx(own.returns, rel=1e-5)
        else:
            assert played.returns.tolist() == own.returns.tolist()
            assert played.return_mean == expected["episode_return_mean"]
