"""Sweeps that are judged by estimates from recorded data."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import load_specs, make_spec
from search_spaces.documents import SpecError

FQE = {"fqe": {"type": "DirectMethod", "num_updates": 5}}


def spec(methods: Any = FQE, metric: str = "fqe/v_target", **more: Any) -> dict[str, Any]:
    return {
        "name": "chosen",
        "trainable": "IQL",
        "config": {
            "input_": "data/mixed",
            "evaluation_interval": 1,
            "off_policy_estimation_methods": methods,
        },
        "objective": {"metric": f"evaluation/ope/{metric}", "mode": "max"},
        "stop": {"training_iteration": 1},
        **more,
    }


def test_by_an_estimate() -> None:
    made = make_spec(spec())
    assert made.objective.metric == "evaluation/ope/fqe/v_target"


def test_by_an_estimator_that_is_not_there() -> None:
    says = "no estimator 'fqs' in config.off_policy_estimation_methods; allowed: "
    with pytest.raises(SpecError, match=rf"{says}evaluation/ope/fqe/v_target.*'fqe'"):
        make_spec(spec(metric="fqs/v_target"))
    with pytest.raises(SpecError, match=r"allowed: config.off_policy_estimation_methods: \{fqe"):
        make_spec(spec(methods={}))


def test_estimates_of_different_discount_factors_are_not_compared() -> None:
    searched = {"gamma": {"uniform": [0.9, 0.99]}}
    with pytest.raises(SpecError, match="gamma is searched, and evaluation/ope/fqe/v_target"):
        make_spec(spec(search_space=searched))
    fixed = {"fqe": {**FQE["fqe"], "gamma": 0.97}}
    assert make_spec(spec(methods=fixed, search_space=searched))


def test_keywords_of_estimators_are_checked() -> None:
    with pytest.raises(SpecError, match="'fqe': unknown keyword 'num_update' of DirectMethod"):
        make_spec(spec(methods={"fqe": {"type": "dm", "num_update": 5}}))


def test_the_shipped_spec() -> None:
    specs = load_specs("offline_pendulum")
    assert [each.trainable for each in specs] == ["CQL", "IQL"]
    assert len({each.config["input_"] for each in specs}) == 1
