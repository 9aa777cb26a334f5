"""`custom_evaluation_function`: what it gets, and what it may return."""

from __future__ import annotations

import math
from typing import Any

import pytest
from evaluation_cases import SMALL, config_of, evaluation_of, without_ray

from trainables.core.errors import ConfigError
from trainables.runtime.evaluation.group import EvaluationGroup


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
