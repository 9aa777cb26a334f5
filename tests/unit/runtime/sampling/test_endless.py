"""Environments whose episodes never end: training, evaluations and sweeps say so and go on."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import EndlessEnv

from experiments.monitor.episode_watch import EpisodeWatch, is_unknown
from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.runtime.evaluation import endless
from trainables.runtime.evaluation.endless import longest_evaluated
from trainables.runtime.evaluation.play import evaluate_policy
from trainables.runtime.sampling.endless import EndlessWatch

NAME = "fakes:EndlessEnv"
STEPS = "num_env_steps_sampled_lifetime"


def config() -> PPOConfig:
    small = PPOConfig().environment(NAME, env_config={"horizon": 10**9})
    return small.update_from_dict(
        {"num_envs_per_env_runner": 4, "train_batch_size_per_learner": 256, "num_epochs": 1}
    )


def test_training_says_once_that_no_episode_ends_and_then_gives_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    games = EndlessWatch(NAME, 100_000, num_slots=16)  # a thousand steps each are usual
    games.look(20_000)
    assert not caplog.records
    watch = EndlessWatch(NAME, 20_000)
    for steps in (1000, 4999, 5000, 6000, 19_999):
        watch.look(steps)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert NAME in caplog.text and "5000 steps" in caplog.text and "TimeLimit" in caplog.text
    with pytest.raises(RuntimeError, match=r"fakes:EndlessEnv.*no episode ended in 20000 steps"):
        watch.look(20_000)


def test_an_evaluation_gives_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `tunescape evaluate` and the evaluations of training play."""
    monkeypatch.setattr(endless, "_NOTED_EVALUATED", 1000)
    with config().build_algo() as algo:
        policy = algo.get_policy()
        told = r"fakes:EndlessEnv.*did not end within 300 steps.*--max-steps"
        with pytest.raises(ConfigError, match=told):
            evaluate_policy(policy, EndlessEnv, {"horizon": 10**9}, max_steps_per_episode=300)
        assert not caplog.records
        cut = evaluate_policy(policy, EndlessEnv, {"horizon": 10**9}, time_limit=20)
        assert cut.lengths.tolist() == [20] * 10
        with pytest.raises(ConfigError, match="did not end within 1100 steps"):
            evaluate_policy(policy, EndlessEnv, {"horizon": 10**9}, max_steps_per_episode=1100)
        assert caplog.text.count("no episode of this evaluation has ended in 1000 steps") == 1
    limited = config().update_from_dict({"max_env_steps_without_episode": 300})
    with limited.build_algo() as algo, pytest.raises(ConfigError, match="max_env_steps_without"):
        algo.evaluate()


def test_an_evaluations_episode_is_shorter_than_training_may_take() -> None:
    longest = {2000: 2000, 10**6: 10**5, 10**7: 10**6, 150_000: 100_000}
    assert {allowed: longest_evaluated(allowed) for allowed in longest} == longest


def result(steps: int, episodes: int | None = 0, **more: Any) -> dict[str, Any]:
    value = math.nan if not episodes else 1.0
    told = {} if episodes is None else {"num_episodes_lifetime": episodes}
    return {STEPS: steps, "episode_return_mean": value, **told, **more}


def test_a_sweep_names_the_environment_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = EpisodeWatch()
    trial: Any = SimpleNamespace(trial_id="abc", config={"env": NAME})
    other: Any = SimpleNamespace(trial_id="def", config={"env": "fakes:limited_walk"})
    for row in (result(100), result(9000, episodes=2), result(9000, episodes=None)):
        watch.on_trial_result(1, [trial], trial, row)
    assert not caplog.records
    for row in (result(5120), result(9000), result(9000, done=True)):
        watch.on_trial_result(2, [trial], trial, row)
    assert len(caplog.records) == 1
    assert f"env '{NAME}'" in caplog.text and "5,120 environment steps of trial abc" in caplog.text
    watch.on_trial_result(3, [other], other, result(500, done=True))  # a short budget
    assert len(caplog.records) == 2


def test_what_diverged_is_known() -> None:
    assert is_unknown(result(100), "episode_return_mean")
    assert not is_unknown(result(100, episodes=3, ret=math.nan), "ret")
    assert not is_unknown({"ret": math.nan}, "ret")  # a trainable that counts no episodes
    assert not is_unknown({**result(100), "ret": 1.0}, "ret")
    assert not is_unknown(result(100), None)
    evaluation = "evaluation/episode_return_mean"
    for played in (0, 4):  # whatever episodes training has had
        row = {**result(100, episodes=3), evaluation: math.nan, "evaluation/num_episodes": played}
        assert is_unknown(row, evaluation) == (played == 0)
