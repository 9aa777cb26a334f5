"""A sweep with rewards for what is new draws where its best policy has been, of grids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_runs import settings_of
from tiers import rarely

from analysis.plots.visits import draw_visits
from experiments.running.pictures.source import Best
from experiments.running.pictures.visits import _counts_of, draw_visits_of_best
from trainables import PPO

LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")


def drawn(tmp_path: Path, env: str, options: dict[str, str], **more: object) -> Path | None:
    with PPO(settings_of("PPO", env, exploration_config=options, **more)) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "saved"))
        policy = algo.export_policy_checkpoint(str(tmp_path / "policy"))
    checkpoint = Path(str(getattr(saved, "path", saved)))
    return draw_visits_of_best(Best(checkpoint, policy), tmp_path / "v.png")


@pytest.mark.parametrize("env", rarely(["FrozenLake-v1", "CliffWalking-v1"], ["FrozenLake-v1"]))
def test_of_a_grid(env: str, tmp_path: Path) -> None:
    more = {"env_config": {"max_episode_steps": 20}}
    picture = drawn(tmp_path, env, {"type": "Counts"}, **more)
    assert picture is not None and picture.stat().st_size > 4_000


@pytest.mark.parametrize(
    ("env", "options"),
    [("FrozenLake-v1", {}), ("CartPole-v1", {"type": "Counts"}), ("Taxi-v4", {"type": "Counts"})],
)
def test_of_nothing_else(env: str, options: dict[str, str], tmp_path: Path) -> None:
    more = {"env_config": {"max_episode_steps": 20}}
    assert drawn(tmp_path, env, options, **more) is None


def test_of_several_seeds_all_steps_count(tmp_path: Path) -> None:
    trial = tmp_path / "trial"
    for seed in range(2):
        config = settings_of("PPO", "FrozenLake-v1", exploration_config={"type": "RND"}, seed=seed)
        with PPO(config) as algo:
            algo.train()
            algo.save(str(trial / f"seed_{seed}"))
            steps = algo.num_env_steps_sampled
    counts = _counts_of(trial)
    assert counts is not None and counts.sum() > 1.5 * steps


def test_a_checkpoint_of_ones_own_costs_no_sweep(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("{}")
    assert draw_visits_of_best(Best(tmp_path, tmp_path), tmp_path / "v.png") is None


def test_cells_without_a_visit_and_letters() -> None:
    counts = np.zeros((4, 4), np.int64)
    counts[0] = (1_000, 100, 10, 1)
    figure = draw_visits(counts, LAKE)
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == "4 of 16 cells visited"
    (image,) = axes.images
    shown = np.ma.getmaskarray(image.get_array())
    assert (~shown == (counts > 0)).all()
    letters = [text.get_text() for text in axes.texts]
    assert sorted(letters) == sorted("SHHHHG")
