"""Leagues in other processes: env runners in actors, trials of Tune, and processes that die."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from cheap_sweeps import drawn
from forked_drivers import Driver
from league_runs import league_of, seen_of
from telling_agents import killed_amid_a_sample
from tiers import rarely

from experiments.running.runner import resume_sweep
from trainables import PPO
from trainables.algorithm import Algorithm

pytestmark = pytest.mark.usefixtures("ray_here")
SEEDS = [3, 4]


@pytest.mark.parametrize("num_env_runners", rarely([1, 2], [2]))
def test_env_runners_in_actors_play_the_league(num_env_runners: int, tmp_path: Path) -> None:
    config = league_of(num_env_runners=num_env_runners, num_cpus_per_env_runner=0.5)
    with PPO(config) as algo:
        for number in range(5):
            result = algo.train()
            assert algo.league is not None
            if number == 3:
                algo.save_checkpoint(str(tmp_path))
        book, whole = algo.league.book, seen_of(algo)
        played = dict(zip(book.payoffs.players, book.payoffs.games.sum(1), strict=True))
        frozen = {copy.policy_id for copy in book.copies}
        assert {"main_v0", "hunter_v0", "rover_v0"} < frozen and result["league/main/elo"]
        assert min(played[name] for name in ("main", "rover", "main_v0")) > 0
        assert_all_play_it(algo, num_env_runners)
    with PPO(config) as again:
        again.load_checkpoint(str(tmp_path))
        again.train()
        assert seen_of(again) == whole


def assert_all_play_it(algo: Algorithm, num_env_runners: int) -> None:
    """Every env runner has all policies, with the weights of copies, and knows who plays whom."""
    assert algo.league is not None
    theirs = algo.env_runners.foreach_env_runner(
        lambda runner: (
            runner.config.policy_mapping_fn,
            {m: policy.get_weights() for m, policy in runner.policies.items()},
        )
    )
    assert len(theirs) == num_env_runners
    for line_ups, weights in theirs:
        assert line_ups == algo.config.policy_mapping_fn
        assert weights.keys() == algo.policies.keys()
        for copy in algo.league.book.copies:
            own, its = algo.policies[copy.policy_id].get_weights(), weights[copy.policy_id]
            assert all(np.array_equal(own[name], its[name]) for name in own)


@pytest.mark.full("test_env_runners_in_actors_play_the_league")
def test_an_env_runner_that_dies_amid_a_sample_costs_its_games_alone() -> None:
    """The league counts the games that arrived, and who replaces the dead one plays all of it."""
    more = {"num_env_runners": 2, "num_cpus_per_env_runner": 0.5}
    with PPO(league_of(restart_failed_env_runners=True, **more)) as algo:
        assert algo.league is not None
        arrived: list[int] = []
        counted: list[int] = []
        sample, add_games = algo.env_runners.sample, algo.league.book.add_games

        def watched_sample(**options: Any) -> Any:
            rollouts, episodes = sample(**options)
            assert len(episodes.matches) == len(episodes.returns)
            arrived.append(len(episodes.matches))
            return rollouts, episodes

        def watched_games(matches: Any) -> None:
            counted.append(len(matches))
            add_games(matches)

        algo.env_runners.sample = watched_sample  # type: ignore[method-assign]
        algo.league.book.add_games = watched_games  # type: ignore[method-assign]
        algo.train()
        algo.env_runners.foreach_env_runner(killed_amid_a_sample, env_runner_ids=[1])
        algo.train()
        assert 0 < arrived[1] < arrived[0]
        for _ in range(3):
            result = algo.train()
        assert algo.env_runners.restore() or result["num_env_runner_restarts"] == 1
        for _ in range(2):
            algo.train()
        assert counted == arrived
        assert_all_play_it(algo, 2)


def spec(folder: Path) -> dict[str, Any]:
    """Two trials of a league, of two seeds; a checkpoint after each iteration."""
    return {
        "name": "killed",
        "trainable": "PPO",
        "config": {key: value for key, value in league_of().items() if key != "seed"},
        "search_space": {"seed": {"grid": SEEDS}},
        "search": "grid",
        "objective": {"metric": "league/main/elo", "mode": "max"},
        "stop": {"training_iteration": 5},
        "checkpoint": {"frequency": 1, "num_to_keep": 3},
        "storage": str(folder),
        "mlflow": {"enabled": False},
    }


def rows(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """What the trials have reported of the league, by seed."""
    found = {}
    for file in folder.glob("*/result.json"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        found[lines[0]["config"]["seed"]] = [of_league(line) for line in lines]
    return found


def of_league(result: dict[str, Any]) -> dict[str, Any]:
    """The part of a result that says how its players fared."""
    return {n: value for n, value in result.items() if n.startswith(("league/", "module/"))}


@pytest.mark.full("test_env_runners_in_actors_play_the_league")
def test_a_killed_sweep_of_leagues_goes_on_as_if_it_had_not_been_killed(tmp_path: Path) -> None:
    """Two trials of one driver, which dies as the third checkpoint is noted, amid one of them.

    What it then reports is what the algorithm does in a process that nothing happens to.
    """
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(spec(tmp_path), sort_keys=False))
    driver = Driver("3", str(file), cwd=tmp_path, module="killed_sweep")
    output = driver.communicate(timeout=300)
    assert driver.returncode == -signal.SIGKILL, output
    begun = [file.read_text() for file in (tmp_path / "killed").glob("*/result.json")]
    assert 0 < sum(text.count("\n") for text in begun) < 5

    with drawn():
        resumed = resume_sweep(tmp_path / "killed")
    assert not resumed.failures and resumed.pictures
    expected = {}
    for seed in SEEDS:
        with PPO(config=league_of(seed=seed)) as whole:
            expected[seed] = [of_league(whole.train()) for _ in range(5)]
    assert expected[3][-1]["league/main/elo"] != expected[4][-1]["league/main/elo"]
    assert rows(resumed.folder) == expected
