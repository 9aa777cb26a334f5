"""`custom_evaluation_function`: what it gets, and what it may return."""

from __future__ import annotations

import functools
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from evaluation_cases import SMALL, config_of, evaluation_of, without_ray

from trainables.core.errors import ConfigError
from trainables.runtime.evaluation.group import EvaluationGroup
from trainables.runtime.evaluation.result import EvaluationResult


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ray(monkeypatch)


def lengths_only(algorithm: Any, group: EvaluationGroup) -> dict[str, Any]:
    result = group.play()
    assert result is not None
    return {"longest": result.lengths.max(), "iteration": algorithm.iteration}


def test_a_custom_function_evaluates(tmp_path: Any) -> None:
    name = f"{__name__}:lengths_only"
    for function in (lengths_only, name):
        config = config_of(**SMALL, evaluation_interval=1, custom_evaluation_function=function)
        with config.build() as algo:
            result = evaluation_of(algo.train())
            algo.save(str(tmp_path / "c"))
        assert set(result) == {
            "longest",
            "iteration",
            "weights_version",
            "num_training_step_calls",
            "num_healthy_workers",
            "num_timeouts",
        }
        assert type(result["longest"]) is int
        with type(algo).from_checkpoint(tmp_path / "c", trust=[name]) as resumed:
            assert resumed.evaluate()["longest"] > 0


class Corridor(gym.Env):
    """Ends after as many steps as it is long, which a task may change."""

    observation_space, action_space = gym.spaces.Box(0, 99, (1,)), gym.spaces.Discrete(2)
    length = 3

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.bonus = 0, float(self.np_random.random())
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        is_over = self.steps == self.length
        reward = self.bonus if is_over else 0.0
        return np.full(1, self.steps, np.float32), reward, is_over, False, {}


def set_length(env: Any, length: int) -> None:
    env.unwrapped.length = length


def in_two_corridors(algorithm: Any, eval_workers: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for length in (4, 7):
        eval_workers.foreach_env(functools.partial(set_length, length=length))
        results = eval_workers.foreach_worker(lambda w: w.sample())
        results += eval_workers.foreach_worker(lambda w: w.sample())
        joined = EvaluationResult.joined(results)
        assert set(joined.lengths) == {length} and len({*joined.returns}) == len(joined.returns)
        found |= {f"{length}/{name}": value for name, value in joined.metrics().items()}
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_sample_in_environments_that_are_changed(workers: int) -> None:
    settings = {**SMALL, "env": Corridor, "evaluation_num_env_runners": workers}
    config = config_of(**settings, custom_evaluation_function=in_two_corridors)
    with config.build() as algo:
        first = algo.evaluate()
        assert first["4/num_episodes"] == first["7/num_episodes"] == 2 * max(1, workers)
        again = algo.evaluate()  # on the same seeds
        assert again == first
        for worker in algo.evaluation_workers.foreach_worker(lambda w: w):
            assert worker.env is None
            with pytest.raises(RuntimeError, match="plays for a custom_evaluation_function, while"):
                worker.sample()
            with pytest.raises(RuntimeError, match="there is none now"):
                worker.foreach_env(lambda env: env)
    config.evaluation(evaluation_config={"num_envs_per_env_runner": 3})
    with config.build() as algo:
        assert algo.evaluate()["4/num_episodes"] == 6 * max(1, workers)


def test_what_a_custom_function_returns_is_checked() -> None:
    given: list[Any] = []
    config = config_of(**SMALL, custom_evaluation_function=lambda algorithm, group: given[-1])
    with config.build() as algo:
        for returned, message in (
            (None, r"returned None; allowed: a dict of numbers by name"),
            ({}, r"returned \{\}"),
            ({"a": float("inf")}, r"returned 'a': inf; allowed: a finite number for each name, or"),
            ({"a": {"b": 1.0}}, r"returned 'a': \{'b': 1.0\}"),
            ({"a": "1"}, r"returned 'a': '1'"),
        ):
            given.append(returned)
            with pytest.raises(ConfigError, match=message):
                algo.evaluate()


def test_a_custom_function_may_report_what_the_group_played_without_an_end() -> None:
    config = config_of(
        **{**SMALL, "evaluation_duration": 1, "evaluation_duration_unit": "timesteps"},
        custom_evaluation_function=lambda algorithm, group: group.play().metrics(),
    )
    with config.build() as algo:
        result = algo.evaluate()
    assert math.isnan(result["episode_return_mean"]) and result["num_episodes_cut_off"] == 1
