"""ASHA and objectives that are not numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ray.tune.experiment import Trial

from experiments.durability.keeper import durable
from experiments.schedulers.asha import FiniteAsha
from experiments.schedulers.kind import build_scheduler
from experiments.schedulers.state import dump_state, extend_rungs, load_state, take_back
from experiments.sweep.load import make_spec, spec_space

BAD = [math.nan, math.inf, -math.inf, None]


def asha(mode: str = "max") -> FiniteAsha:
    return FiniteAsha(
        time_attr="t", metric="m", mode=mode, max_t=100, grace_period=10, reduction_factor=2
    )


def trial(scheduler: Any, name: str) -> Trial:
    made = Trial("__fake", stub=True, trial_id=name)
    scheduler.on_trial_add(None, made)
    return made


def report(scheduler: Any, name: str, value: Any, at: int = 10) -> str:
    known = name in scheduler._trial_info
    one = Trial("__fake", stub=True, trial_id=name) if known else trial(scheduler, name)
    result = {"t": at, "m": value}
    decision: str = scheduler.on_trial_result(None, one, result)
    assert result["m"] is value  # others see what was reported
    return decision


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("bad", BAD, ids=str)
def test_what_is_not_finite_is_stopped_at_its_next_rung(bad: Any, mode: str) -> None:
    scheduler = asha(mode)
    assert report(scheduler, "a", 1.0) == "CONTINUE"
    assert report(scheduler, "diverged", bad) == "STOP"
    assert report(scheduler, "a", 1.0, at=20) == "CONTINUE"
    assert report(scheduler, "b", 1.0) == "CONTINUE"
    assert report(scheduler, "b", bad, at=20) == "STOP"


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_rung_goes_on_judging_after_one(bad: Any) -> None:
    scheduler = asha()
    assert report(scheduler, "first", bad) == "CONTINUE"  # there is nobody to be worse than
    for name, value in (("a", 3.0), ("b", 4.0)):
        assert report(scheduler, name, value) == "CONTINUE"
    assert report(scheduler, "c", 2.0) == "STOP"


def test_an_ended_trial_counts_as_the_worst_too() -> None:
    scheduler = asha()
    scheduler.on_trial_complete(None, trial(scheduler, "first"), {"t": 10, "m": math.inf})
    report(scheduler, "a", 3.0)
    report(scheduler, "b", 4.0)
    assert report(scheduler, "c", 2.0) == "STOP"


def test_a_longer_budget_is_not_for_a_trial_that_diverged() -> None:
    scheduler = FiniteAsha(
        time_attr="t", metric="m", mode="max", max_t=40, grace_period=10, reduction_factor=2
    )
    ended = {}
    for name, value in (("a", 1.0), ("b", 2.0), ("nan", math.nan)):
        ended[name] = trial(scheduler, name)
        ended[name].run_metadata.last_result = {"t": 40, "m": value}
        scheduler.on_trial_complete(None, ended[name], ended[name].last_result)
    extend_rungs(scheduler, {"t": 100})
    assert [take_back(scheduler, one) for one in ended.values()] == [True, True, False]


@pytest.mark.parametrize("name", ["asha", "resource_changing"])
def test_a_spec_has_it_and_its_state_is_kept(name: str) -> None:
    options = {"algorithm": name, **({"base": "asha"} if name != "asha" else {})}
    spec = make_spec(
        {
            "name": "x",
            "trainable": "sweep_dummy:Dummy",
            "scheduler": options,
            "stop": {"num_env_steps_sampled_lifetime": 1000},
        }
    )

    def built() -> Any:
        scheduler, _ = durable(build_scheduler(spec, spec_space(spec), None, 4))
        scheduler.set_search_properties("episode_return_mean", "max")
        return scheduler

    scheduler, again = built(), built()
    base = getattr(scheduler, "_base_scheduler", scheduler)
    assert isinstance(base, FiniteAsha)
    at = {"num_env_steps_sampled_lifetime": 62}
    for number, value in enumerate((math.nan, 5.0)):
        one = Trial("__fake", stub=True, trial_id=str(number))
        base._trial_info[one.trial_id] = base._brackets[0]
        base.on_trial_complete(None, one, {**at, "episode_return_mean": value})
    load_state(again, dump_state(scheduler), {})
    rungs = getattr(again, "_base_scheduler", again)._brackets[0]._rungs
    assert list(rungs[-1][1].values()) == [-1e300, 5.0]
