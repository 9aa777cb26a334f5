"""`evaluate(duration_fn=…)`: who calls decides how long an evaluation goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainables import PPOConfig
from trainables.core.errors import ConfigError


def config_of(**settings: Any) -> PPOConfig:
    settings = {"env": "CartPole-v1", "seed": 0, "evaluation_duration": 3, **settings}
    return PPOConfig.from_dict(settings)


def test_episodes_are_played_until_it_says_so() -> None:
    asked: list[int] = []

    def duration(num_done: int) -> int:
        asked.append(num_done)
        return max(0, 7 - num_done) if num_done < 3 else min(2, 7 - num_done)

    def three_by_three(num_done: int) -> int:
        asked.append(num_done)
        return min(3, 8 - num_done)

    with config_of().build() as algo:
        usual = algo.evaluate()
        same = algo.evaluate(lambda num_done: 3 - num_done)
        assert same == usual  # the same episodes, and what is reported of them
        found = algo.evaluate(duration_fn=duration)
        assert (asked, found["num_episodes"]) == ([0, 7], 7)
        asked.clear()
        result = algo.eval_env_runner_group.play_until(three_by_three)
        assert asked == [0, 3, 6, 8]
        assert len(result.returns) == 8
        first, second = result.returns[:3], result.returns[3:6]
        assert first.mean() == usual["episode_return_mean"]
        assert (first != second).any()  # further episodes are others
        assert algo.evaluate() == usual  # nothing of it stays


def test_timesteps_count_in_their_unit() -> None:
    asked: list[int] = []

    def duration(num_done: int) -> int:
        asked.append(num_done)
        return 60 - num_done if len(asked) < 3 else 0

    with config_of(evaluation_duration_unit="timesteps").build() as algo:
        found = algo.evaluate(duration)
        assert asked[0] == 0 and asked[-1] >= 60
        assert found["num_env_steps"] == asked[-1]


def test_what_it_must_not_say() -> None:
    with config_of().build() as algo:
        for said in (0, -1, 2.5, None):
            message = rf"duration_fn\(0\) = {said} is not allowed; .* a whole number, >= 1 at fi"
            with pytest.raises(ConfigError, match=message):
                algo.evaluate(lambda num_done, said=said: said)
        assert algo.evaluate(lambda num_done: np.int64(2 - num_done))["num_episodes"] == 2


def test_a_function_that_evaluates_has_no_duration() -> None:
    config = config_of(custom_evaluation_function=lambda algo, group: {"a": 1.0})
    message = "duration_fn has no effect with custom_evaluation_function"
    with config.build() as algo, pytest.raises(ConfigError, match=message):
        algo.evaluate(lambda num_done: 1)
