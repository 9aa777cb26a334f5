"""`tunescape evaluate --opponent`: who plays whom, what is told of it, and a human who types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import Golden, refusals
from typer.testing import CliRunner, Result

from experiments.cli import app
from experiments.commands.evaluation.evaluate import evaluate_folder
from experiments.commands.evaluation.evaluated import Evaluation
from experiments.commands.evaluation.standings import standing_lines
from experiments.commands.evaluation.summary import rate_interval
from experiments.errors import ExperimentError
from trainables import PPO, FixedPolicy, MultiAgentEnv, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError

GAME = {"payoffs": "rock_paper_scissors", "rounds": 1}


class Rock(FixedPolicy):
    def compute_actions(self, observations: Any, rng: Any, masks: Any = None) -> Any:
        return np.zeros(len(observations), np.int64)


def scissors(observations: Any, rng: Any, masks: Any) -> Any:
    return np.full(len(observations), 2)


class Drawn(MultiAgentEnv):
    """Each names a number; the greater wins. It draws itself as text."""

    def __init__(self, env_config: Any = None):
        import gymnasium as gym

        self.possible_agents = ["left", "right"]
        box = gym.spaces.Box(0, 1, (1,), np.float32)
        self.observation_spaces = dict.fromkeys(self.possible_agents, box)
        self.action_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Discrete(3, start=1))
        super().__init__()
        self.render_mode = "ansi"

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return dict.fromkeys(self.possible_agents, np.zeros(1, np.float32)), {}

    def step(self, actions: Any) -> Any:
        lead = float(np.sign(actions["left"] - actions["right"]))
        obs = dict.fromkeys(self.possible_agents, np.ones(1, np.float32))
        return obs, {"left": lead, "right": -lead}, {"__all__": True}, {"__all__": False}, {}

    def render(self) -> str:
        return "<a drawing of two hands>"


def config(env: Any = "matrix_game", **multi_agent: Any) -> PPOConfig:
    made = PPOConfig(
        seed=1,
        num_envs_per_env_runner=4,
        train_batch_size_per_learner=40,
        minibatch_size=40,
        num_epochs=1,
        model={"fcnet_hiddens": [4]},
    )
    made.environment(env, env_config=GAME if env == "matrix_game" else {})
    return made.multi_agent(**multi_agent)


def saved(folder: Path, made: PPOConfig) -> Path:
    with PPO(config=made) as algo:
        algo.train()
        algo.save_checkpoint(str(folder))
    return folder


@pytest.fixture(scope="module")
def league(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The learners `hunter` and `main`, of which `main` is the main one, and their copies."""
    learners = {"hunter": "main_exploiter", "main": "main"}
    made = config(policies=["hunter", "main"], league={"learners": learners, "freeze_every": 1})
    yield saved(tmp_path_factory.mktemp("league") / "checkpoint", made)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`a` and `b`, each with a part of its own."""
    mapping = {"player_0": "a", "player_1": "b"}
    made = config(policies=["a", "b"], policy_mapping_fn=mapping)
    yield saved(tmp_path_factory.mktemp("two") / "checkpoint", made)


def play(folder: Path, trust: Sequence[str] = (), **options: Any) -> Evaluation:
    """Texts in an `env_config` want trust: here the name of the table of pay-offs."""
    return evaluate_folder(folder, trust=[*trust, "env_config"], **options)


def run(*words: Any, typed: str | None = None) -> Result:
    given = ["evaluate", *map(str, words), "--trust", "env_config"]
    return CliRunner().invoke(app, given, input=typed)


# ---------------------------------------------------------------------- who plays whom


def test_the_main_learner_of_a_league_takes_both_seats(league: Path) -> None:
    played = play(league, episodes=40, opponent="random", explore=True)
    assert played.versus is not None and played.versus.policy_id == "main"
    tally = played.versus.matches.tally
    assert tally("player_0").games == tally("player_1").games == 20
    # Episodes are told by what the policy's own agent returned: the sum of both is always 0.
    assert {record.outcome.total for record in played.episodes} == {-1.0, 0.0, 1.0}
    assert {*played.modules} == {"main", "opponent"}
    assert len(played.modules["main"]) == 40


@pytest.mark.parametrize("who", ["main_v0", "hunter", f"{__name__}:Rock", f"{__name__}:scissors"])
def test_a_policy_beside_it_and_code_are_opponents(league: Path, who: str) -> None:
    played = play(league, episodes=4, opponent=who)
    assert played.versus is not None and played.versus.opponent == who
    assert played.versus.matches.tally().games == 4


def test_other_checkpoints_are_opponents(league: Path, two: Path) -> None:
    for who in (league, two / "policies" / "a"):
        played = play(league, episodes=2, opponent=str(who), policy_id="hunter")
        assert played.versus is not None and played.versus.policy_id == "hunter"
    with pytest.raises(ExperimentError, match=r"policies a, b; say which.*--opponent \S+/a$"):
        play(league, episodes=2, opponent=str(two))


def test_a_policy_plays_the_part_that_it_was_trained_for(two: Path) -> None:
    with pytest.raises(ExperimentError, match=r"holds the policies a, b; say.*--policy ID"):
        play(two, opponent="random")
    played = play(two, episodes=3, opponent="random", policy_id="b")
    assert played.versus is not None and played.versus.matches.seats == ["player_1"]
    assert played.notes == [
        "b was trained as player_1 and plays only there; --seat player_0 chooses another agent."
    ]
    asked = play(two, episodes=4, opponent="b", policy_id="a", seats=["player_1", "player_0"])
    assert asked.versus is not None and not asked.notes
    assert [game.seat for game in asked.versus.matches.games][:2] == ["player_1", "player_0"]


def test_the_folder_of_one_policy_plays_too(two: Path) -> None:
    played = play(two / "policies" / "a", episodes=2, opponent="random")
    assert played.versus is not None and played.versus.policy_id == "a"
    assert played.versus.matches.seats == ["player_0"]


def test_another_environment_has_other_agents(league: Path) -> None:
    """The same table; of each episode three rounds are played."""
    played = play(league, episodes=2, opponent="random", env_config={"rounds": 3})
    assert [record.outcome.length for record in played.episodes] == [3, 3]
    cut = play(league, episodes=2, opponent="random", env_config={"rounds": 3}, max_steps=2)
    assert [record.outcome.truncated for record in cut.episodes] == [True, True]
    assert [record.outcome.length for record in cut.episodes] == [2, 2]


# ---------------------------------------------------------------------- what is told


def test_the_command_tells_each_seat_and_all(league: Path, tmp_path: Path) -> None:
    file, trace = tmp_path / "games.csv", tmp_path / "trace.parquet"
    words = [league, "--opponent", "random", "--episodes", 30, "--explore"]
    shown = run(*words, "-o", file, "--trace", trace)
    assert shown.exit_code == 0, shown.output
    frame = pd.read_csv(file)
    counts = frame.result.value_counts()
    assert (
        f"matrix_game: main against random: {counts['won']} won, {counts['drawn']} drawn, "
        f"{counts['lost']} lost of 30 games"
    ) in shown.output
    rows = {
        line.split()[0]: line.split()[1:5] for line in shown.output.splitlines() if line.split()
    }
    assert rows["all"] == ["30", *(str(counts[r]) for r in ("won", "drawn", "lost"))]
    first = frame[frame.seat == "player_0"]
    assert rows["player_0"][:2] == ["15", str((first.result == "won").sum())]
    assert (frame["return"] == frame.result.map({"won": 1, "drawn": 0, "lost": -1})).all()
    steps = pd.read_parquet(trace)
    assert {*steps.policy} == {"main", "opponent"} and len(steps) == 60


def test_json_has_the_standings(league: Path) -> None:
    words = [league, "--opponent", f"{__name__}:Rock", "--episodes", 6, "--as", "json"]
    told = json.loads(run(*words).stdout)
    against = told["against"]
    assert (against["policy_id"], against["opponent"]) == ("main", f"{__name__}:Rock")
    assert {*against["standings"]} == {"player_0", "player_1", "all"}
    both = against["standings"]["all"]
    assert both["games"] == 6 == both["wins"] + both["draws"] + both["losses"]
    assert told["statistics"]["return_mean"] == both["return_mean"]
    assert {"seat", "result"} < told["episodes"][0].keys()


def test_games_without_chance_are_called_so(league: Path) -> None:
    def lines(**how: Any) -> str:
        played = play(league, opponent=f"{__name__}:Rock", **how)
        assert played.versus is not None
        return " ".join(standing_lines(played.versus))

    assert "All games were the same" in lines(episodes=10)
    assert "same course" not in lines(episodes=40, explore=True)
    assert "Seats had different numbers of games" in lines(episodes=5)
    assert "Seats had" not in lines(episodes=4)


def test_agents_that_share_rewards_are_no_opponents(league: Path) -> None:
    def lines(payoffs: Any) -> str:
        changes = {"payoffs": payoffs}
        played = play(league, episodes=4, opponent=f"{__name__}:Rock", env_config=changes)
        assert played.versus is not None and played.versus.matches.tally().draws == 4
        return " ".join(standing_lines(played.versus))

    ones, zeros = np.ones((2, 3, 3)).tolist(), np.zeros((2, 3, 3)).tolist()
    assert "All agents had the same return" in lines(ones)
    assert "All agents had the same return" not in lines(zeros)


def test_a_rate_has_the_interval_of_wilson() -> None:
    z = NormalDist().inv_cdf(0.975)
    for wins, games in ((0, 5), (3, 10), (10, 10), (700, 1000)):
        rate = wins / games
        centre = (rate + z**2 / (2 * games)) / (1 + z**2 / games)
        half = (rate * (1 - rate) / games + z**2 / (4 * games**2)) ** 0.5
        ends = centre - z / (1 + z**2 / games) * half, centre + z / (1 + z**2 / games) * half
        assert rate_interval(wins, games) == pytest.approx(ends, abs=1e-12)


# ---------------------------------------------------------------------- what is refused


BAD_INPUT: list[dict[str, Any]] = [
    {"opponent": "main_v7"},
    {"opponent": "humn"},
    {"opponent": "runs/none"},
    {"policy_id": "x"},
    {"seats": ["player_3"]},
    {"policy_mapping": "*=main"},
    {"videos": [Path("v.mp4")]},
    {"opponent": "human", "num_envs": 2},
    {"algo": "DQN"},
    {"env": "CartPole-v1"},
]


def test_bad_input_is_refused(league: Path, golden: Golden) -> None:
    def refuse(given: dict[str, Any]) -> None:
        play(league, **{"opponent": "random", "episodes": 2, **given})

    names = {str(league): "<checkpoint>"}
    errors = (ExperimentError, ConfigError)
    golden("sweeps/evaluate_against", refusals(refuse, BAD_INPUT, *errors, replace=names))


def test_one_agent_has_no_opponent(tmp_path: Path) -> None:
    with PPO(config=PPOConfig(model={"fcnet_hiddens": [4]}).environment("CartPole-v1")) as algo:
        algo.export_policy_checkpoint(str(tmp_path / "policy"))
    with pytest.raises(ExperimentError, match=r"--opponent: .* is a policy of one agent"):
        play(tmp_path / "policy", opponent="random")


def test_options_without_an_opponent_are_refused(league: Path) -> None:
    for option in ("--seat", "--policy"):
        shown = run(league, option, "main")
        assert shown.exit_code and f"{option}: there is no opponent" in str(shown.exception)


def test_code_of_a_checkpoint_is_not_trusted_for_an_opponent(league: Path, tmp_path: Path) -> None:
    """What the command line names is; what another's checkpoint names is not."""
    made = config(policies=["main"])
    made.update_from_dict({"env_to_module_connector": _Unchanged})
    other = saved(tmp_path / "other", made)
    with pytest.raises(CheckpointError, match=r"_Unchanged.*--trust"):
        play(league, episodes=2, opponent=str(other))
    trust = [f"{__name__}:_Unchanged"]
    assert play(league, episodes=2, opponent=str(other), trust=trust).versus


# ---------------------------------------------------------------------- a human


def test_a_human_types_until_it_is_over(league: Path) -> None:
    shown = run(league, "--opponent", "human", "--episodes", 2, typed="7\nrock\n1\n\n0 1\n2\n")
    assert shown.exit_code == 0, shown.output
    assert "Game 1 of 2" in shown.stderr and "You are player_1." in shown.stderr
    for refused in ("'7'", "'rock'", "''", "'0 1'"):
        assert f"{refused} is not allowed; allowed: 0-2" in shown.stderr
    assert shown.stderr.count("main, player_0: ") == 1  # what it did is told after it was typed
    assert "lost of 2 games" in shown.stdout and "Game 1" not in shown.stdout


def test_a_human_wins_by_what_beats_the_policy(league: Path) -> None:
    """Greedily it does the same in each game: one of the three answers wins them all."""
    said = [
        run(league, "--opponent", "human", "--episodes", 2, typed=f"{a}\n{a}\n").stderr
        for a in range(3)
    ]
    for words in ("You have won. ", "You have lost. ", "It is a draw. "):
        assert [text.count(words) for text in said].count(2) == 1
    won = next(text for text in said if "You have won" in text)
    assert "Returns: player_0 -1, player_1 1." in won


@pytest.mark.parametrize("end", ["q\n", "Q\n", ""])
def test_a_human_leaves_with_the_games_so_far(league: Path, end: str) -> None:
    shown = run(league, "--opponent", "human", typed="0\n" + end)
    assert shown.exit_code == 0 and "of 1 game;" in shown.stdout
    assert "You left after 1 of 10 games." in shown.stdout
    told = run(league, "--opponent", "human", "--as", "json", typed="0\n" + end)
    assert json.loads(told.stdout)["interrupted"] is False


def test_a_human_leaves_at_once(league: Path) -> None:
    shown = run(league, "--opponent", "human", "--as", "json", typed="q\n")
    assert shown.exit_code == 0 and not shown.stdout
    assert "You left before a game had ended." in shown.stderr


def test_what_an_environment_draws_as_text_is_shown(tmp_path: Path) -> None:
    folder = saved(tmp_path / "drawn", config(Drawn, policies=["main"]))
    words = [folder, "--opponent", "human", "--episodes", 1, "--trust", f"{__name__}:Drawn"]
    shown = run(*words, typed="0\n3\n")
    assert shown.exit_code == 0, shown.output
    # As it is asked for the action, and at the end.
    assert shown.stderr.count("<a drawing of two hands>") == 2
    assert "'0' is not allowed; allowed: 1-3" in shown.stderr


class _Unchanged:
    """A connector that does nothing."""

    def __init__(self, *args: Any, **more: Any):
        pass

    def __call__(self, batch: Any, *args: Any, **more: Any) -> Any:
        return batch
