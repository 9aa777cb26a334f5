"""`tunescape evaluate --data`: what a finished policy is worth by recorded episodes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from recorded_data import play, write
from typer.testing import CliRunner

from experiments.cli import app
from experiments.errors import ExperimentError
from trainables import BCConfig
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.estimates import OfflineEstimates


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that nobody has trained, as training with gamma = 0.9 would store it."""
    env = gym.make("CartPole-v1")
    played = {"env": "CartPole-v1", "env_config": {}, "explore": True, "gamma": 0.9}
    made = Policy(
        env.observation_space,
        env.action_space,
        {"fcnet_hiddens": [8]},
        seed=0,
        metadata={"algorithm": "BC", "evaluation": played},
    )
    return made.save(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Random play, with its probabilities: else they would be estimated first."""
    env = gym.make("CartPole-v1")
    spaces = DataSpaces(env.observation_space, env.action_space)
    episodes = [
        replace(episode, logp=np.full(len(episode), np.log(0.5), np.float32))
        for episode in play(env, spaces)
    ]
    return write(tmp_path_factory.mktemp("data"), episodes, spaces)


def evaluate(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["evaluate", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_policy_is_worth_what_training_would_estimate(policy: Path, data: str) -> None:
    found = json.loads(evaluate(policy, "--data", data, "--as", "json", "--estimator", "wis"))
    assert (found["gamma"], found["explore"], found["data"]) == (0.9, True, [data])
    config = BCConfig(
        input_=data,
        gamma=0.9,
        evaluation_interval=1,
        evaluation_config={"explore": True},
        off_policy_estimation_methods={"wis": {"type": "wis"}},
    )
    trained = OfflineEstimates(config, {"default_policy": Policy.load(policy)})
    expected = trained.metrics(config, np.random.SeedSequence(0))
    assert {f"ope/wis/{k}": v for k, v in found["estimates"]["wis"].items()} == expected
    assert 1 < found["estimates"]["wis"]["low"] < found["estimates"]["wis"]["v_target"] < 10
    # Discounted by 0.5, an episode of many steps with a reward of 1 each is worth 2.
    half = evaluate(policy, "--data", data, "--as", "json", "--estimator", "wis", "--gamma", 0.5)
    assert json.loads(half)["estimates"]["wis"]["v_target"] == pytest.approx(2, abs=0.01)


def test_the_table_says_what_an_estimate_rests_on(policy: Path, data: str) -> None:
    shown = evaluate(policy, "--data", data, "--estimator", "wis")
    assert "discounted by 0.9" in shown and "it draws its actions" in shown
    for name in ("wis", "95 % interval", "recorded", "effective", "Data: "):
        assert name in shown, name


MISTAKES = [
    (("--data", "DATA", "--episodes", "3"), "--episodes: with --data no episode is played"),
    (("--data", "DATA", "--trace", "t.parquet"), "--trace: with --data no episode is played"),
    (("--estimator", "wis"), "--estimator: nothing is estimated; name recorded data with --data"),
    (("--gamma", "0.5"), "--gamma: nothing is estimated"),
    (("--data", "DATA", "--algo", "PPO"), "was trained by BC, not by PPO"),
    (("--data", "DATA", "--estimator", "wiss"), "did you mean 'wis'"),
    (("--data", "no-such.parquet"), "no-such.parquet"),
]


def test_mistakes_are_one_message(policy: Path, data: str) -> None:
    for arguments, message in MISTAKES:
        given = [data if word == "DATA" else word for word in arguments]
        done = CliRunner().invoke(app, ["evaluate", str(policy), *given])
        said = str(done.exception)
        assert done.exit_code and message in said, (arguments, said)
        assert isinstance(done.exception, ExperimentError | ConfigError), done.exception
