"""A sweep with self-play leaves a picture of its league, wherever one looks."""

from __future__ import annotations

import base64
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cheap_sweeps import drawn
from mlflow_client import mlflow_client
from report_pages import parse_page
from rich.console import Console
from small_runs import settings_of

from analysis import write_report
from analysis.overview.best_pictures import LEAGUE
from analysis.results.mlflow_tags import PARENT_TAG
from experiments.commands.results.summary import show_outcome
from experiments.running.pictures.best import draw_best
from experiments.running.pictures.league import standings_in
from experiments.running.pictures.source import Best, state_of_policy
from experiments.running.runner import run_sweep
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from trainables import PPO

CONFIG: dict[str, Any] = {
    "env": "matrix_game",
    "env_config": {"payoffs": "rock_paper_scissors", "rounds": 1},
    "policies": ["main", "hunter"],
    "league": {"learners": {"main": "main", "hunter": "main_exploiter"}, "freeze_every": 1},
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 64,
    "minibatch_size": 32,
    "num_epochs": 1,
    "model": {"fcnet_hiddens": [8]},
}


@pytest.mark.usefixtures("ray_here")
def test_report_and_mlflow_show_the_league(tmp_path: Path) -> None:
    made = Sweep.of(
        make_spec(
            {
                "name": "league",
                "trainable": "PPO",
                "config": CONFIG,
                "seeds": [3, 4],
                "num_samples": 1,
                "objective": {"metric": "league/main/elo", "mode": "max"},
                "stop": {"training_iteration": 2},
                "storage": str(tmp_path),
            }
        )
    )
    with drawn():
        outcome = run_sweep(made)
    assert outcome.succeeded, outcome.note
    assert outcome.pictures == {LEAGUE: outcome.folder / "league.png"}
    picture = outcome.pictures[LEAGUE].read_bytes()
    assert outcome.report is not None and outcome.source is not None
    page = parse_page(outcome.report)
    (shown,) = [v for tag, name, v in page.attributes if (tag, name) == ("img", "src")]
    assert base64.b64decode(shown.removeprefix("data:image/png;base64,")) == picture
    again = parse_page(write_report(outcome.folder, metric="league/hunter/elo"))
    assert "s-league" in again.ids and "league/hunter/elo" in again.text  # its curve

    client = mlflow_client(made.tracking_uri)
    found = client.search_runs([e.experiment_id for e in client.search_experiments()])
    (parent,) = [run for run in found if PARENT_TAG not in run.data.tags]
    plots = {file.path for file in client.list_artifacts(parent.info.run_id, "plots")}
    assert "plots/league.png" in plots
    text = Console(file=StringIO(), width=120)
    show_outcome(outcome, made.spec, text)
    assert "League: " in text.file.getvalue()  # type: ignore[attr-defined]

    # Of two seeds it is the league of the one whose policies are in best/.
    state = state_of_policy(outcome.source)
    assert state is not None
    (its,) = [
        seed
        for seed in (3, 4)
        if (outcome.source / f"seed_{seed}/policies/main/policy.safetensors").read_bytes()
        == (outcome.best / "main" / "policy.safetensors").read_bytes()  # type: ignore[operator]
    ]
    assert state["config"]["seed"] == its


def test_what_is_drawn_is_what_the_league_knows(tmp_path: Path) -> None:
    with PPO({**CONFIG, "seed": 1}) as algo:
        for _ in range(3):
            algo.train()
        algo.save_checkpoint(str(tmp_path))
        assert algo.league is not None
        book, steps = algo.league.book, algo.num_env_steps_sampled
    state = state_of_policy(tmp_path)
    assert state is not None
    found = standings_in(state)
    assert found is not None and found.is_constant_sum
    assert found.players == (
        *("main_v0", "main_v1", "main_v2", "main_v3", "main"),
        *("hunter_v0", "hunter_v1", "hunter_v2", "hunter_v3", "hunter"),
    )
    frozen = dict((copy.policy_id, copy.num_env_steps) for copy in book.copies)
    assert found.num_env_steps.tolist() == [frozen.get(p, steps) for p in found.players]
    has_played = ~np.isnan(found.ratings)
    rated = [book.ratings()[player] for player in found.players]
    np.testing.assert_array_equal(found.ratings[has_played], np.array(rated)[has_played])
    assert has_played[found.players.index("main")]


def test_checkpoints_without_a_league_or_before_its_first_game_cost_no_sweep(
    tmp_path: Path,
) -> None:
    for config in (settings_of("PPO", "CartPole-v1"), CONFIG):
        with PPO(config) as algo:
            algo.save_checkpoint(str(tmp_path))
        assert draw_best(Best(tmp_path, tmp_path), tmp_path) == {}
    for text in ("{}", "[]", '{"state": {"league": {}}}', "no JSON"):
        (tmp_path / "checkpoint.json").write_text(text)
        assert draw_best(Best(tmp_path, tmp_path), tmp_path) == {}
