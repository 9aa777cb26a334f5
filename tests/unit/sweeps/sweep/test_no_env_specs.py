"""Specs of an algorithm whose training steps no environment."""

from __future__ import annotations

from typing import Any

import pytest
from cloning import SMALL
from refusals import Golden, refusals

from experiments.sweep.load import make_spec
from search_spaces.documents import SpecError

EVALUATED = {"evaluation_interval": 1, "evaluation_config": {"env": "CartPole-v1"}}
RETURN, TRAINED = "evaluation/episode_return_mean", "num_env_steps_trained_lifetime"


def spec_of(config: dict[str, Any], **more: Any) -> Any:
    data = {"name": "x", "trainable": "cloning:Cloning", "stop": {"training_iteration": 2}}
    return make_spec({**data, "config": {**SMALL, **config}, **more})


def test_trials_are_judged_by_their_evaluations() -> None:
    assert spec_of(EVALUATED).objective.metric == RETURN
    assert spec_of(EVALUATED, objective={"mode": "min"}).objective.metric == RETURN
    searched = {"search": "nsga2", "search_space": {"lr": {"uniform": [0.001, 0.01]}}}
    several = [{"metric": TRAINED, "mode": "min"}, {"mode": "max"}]
    spec = spec_of(EVALUATED, objectives=several, **searched)
    assert [objective.metric for objective in spec.objectives] == [TRAINED, RETURN]
    loss = {"metric": "learner/default_policy/policy_loss", "mode": "min"}
    assert spec_of({}, objective=loss).objective.metric == loss["metric"]


UNKNOWN: list[dict[str, Any]] = [
    {},
    {"objective": {"metric": RETURN}},
    {"objective": {"metric": "episode_return_mean"}},
    {"stop": {"timesteps_total": 9}},
    {"scheduler": {"algorithm": "asha", "time_attr": "num_env_steps_sampled_lifetime"}},
]


def test_what_no_result_would_have_is_refused(golden: Golden) -> None:
    golden("sweeps/no_env_specs", refusals(lambda given: spec_of({}, **given), UNKNOWN, SpecError))


def test_schedulers_count_steps_that_are_trained_on() -> None:
    spec = spec_of(EVALUATED, scheduler="asha", stop={TRAINED: 4096})
    assert (spec.scheduler.time_attr, spec.scheduler.max_t) == (TRAINED, 4096)
    spec = spec_of(EVALUATED, scheduler={"algorithm": "asha", "time_attr": "training_iteration"})
    assert (spec.scheduler.time_attr, spec.scheduler.max_t) == ("training_iteration", 2)


def test_an_evaluation_without_an_environment_is_refused_and_a_wrong_one_named() -> None:
    with pytest.raises(SpecError, match="evaluation_interval = 1 needs an environment"):
        spec_of({"evaluation_interval": 1})
    with pytest.raises(SpecError, match=r"config\.evaluation_config: env 'CartPole-v9' is unknown"):
        spec_of({**EVALUATED, "evaluation_config": {"env": "CartPole-v9"}})
    with pytest.raises(SpecError, match=r"config\.env: env 'CartPole-v9' is unknown"):
        spec_of({"env": "CartPole-v9", "evaluation_interval": 1})


def test_a_scheduler_that_pauses_needs_no_stored_buffer() -> None:
    """Checkpoints of a source that does not grow say where its draws are."""
    data = {
        "name": "x",
        "trainable": "fixed_source:OfflineDQN",
        "config": EVALUATED,
        "search_space": {"lr": {"uniform": [1e-4, 1e-3]}},
        "num_samples": 4,
        "stop": {TRAINED: 1000},
        "scheduler": {"algorithm": "pbt", "mutations": ["lr"]},
    }
    assert make_spec(data).scheduler.time_attr == TRAINED  # type: ignore[union-attr]
