"""What a resume may change: who goes on, ASHA's rungs, Optuna's ends."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from optuna.samplers import QMCSampler
from optuna.trial import TrialState
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler
from ray.tune.search import ConcurrencyLimiter, SearchGenerator

from experiments.durability.resumption import ResumedSearch, goes_on, plan_changes
from experiments.errors import SweepError
from experiments.running.tuner import _resumed_limit
from experiments.schedulers.state import extend_rungs, forget_results, take_back
from experiments.search.build import TogetherLimiter
from experiments.search.optuna_search import OptunaSearch
from experiments.sweep.load import make_spec
from experiments.sweep.sweep import Sweep
from search_spaces.space import SearchSpace

STEPS = "num_env_steps_sampled_lifetime"


@pytest.mark.parametrize(
    ("result", "before", "now", "expected"),
    [
        ({STEPS: 400}, {STEPS: 400}, {STEPS: 800}, True),
        ({STEPS: 400}, {STEPS: 400}, {STEPS: 400}, False),
        ({STEPS: 200, "pruned": True}, {STEPS: 400}, {STEPS: 800}, False),
        ({STEPS: 400, "pruned": True}, {STEPS: 400}, {STEPS: 800}, False),
        ({STEPS: 300, "done": True}, {STEPS: 400}, {STEPS: 800}, False),  # it ended itself
        ({STEPS: 400, "ret": 9}, {STEPS: 400, "ret": 9}, {STEPS: 800, "ret": 9}, False),
        ({STEPS: 400, "ret": 9}, {STEPS: 400, "ret": 9}, {STEPS: 800, "ret": 10}, True),
        ({"evaluation": {"ret": 9}}, {"evaluation/ret": 9}, {"evaluation/ret": 10}, True),
    ],
)
def test_who_goes_on(
    result: dict[str, Any], before: dict[str, float], now: dict[str, float], expected: bool
) -> None:
    assert goes_on(result, before, now) is expected


def saved_trial(name: str, status: str, checkpoint: Any = None, **result: Any) -> Any:
    return SimpleNamespace(
        trial_id=name,
        status=status,
        last_result=result,
        stopping_criterion={STEPS: 400},
        checkpoint=checkpoint,
        is_finished=lambda: status in ("TERMINATED", "ERROR"),
    )


def test_the_plan(tmp_path: Any) -> None:
    there = SimpleNamespace(path=str(tmp_path))
    trials = [
        saved_trial("ended", "TERMINATED", there, **{STEPS: 400}),
        saved_trial("pruned", "TERMINATED", there, **{STEPS: 200, "pruned": True}),
        saved_trial("failed", "ERROR", there, **{STEPS: 200}),
        saved_trial("cut off", "PENDING", there, **{STEPS: 200}),
    ]
    options: dict[str, Any] = {"num_trials": 5, "num_samples": 5, "max_concurrent": 2}
    plain = plan_changes(trials, stop={STEPS: 400}, **options)
    assert not plain.reopened and plain.unfinished == {"cut off"} and plain.at_once == 1
    longer = plan_changes(trials, stop={STEPS: 800}, errored="restart", **options)
    assert longer.longer == {"ended"} and longer.restarted == {"failed"} and not longer.retried
    trials[0].checkpoint = SimpleNamespace(path=str(tmp_path / "deleted"))
    with pytest.raises(SweepError, match="trial ended has no checkpoint"):
        plan_changes(trials, stop={STEPS: 800}, **options)


def ended_trial(name: str, value: float) -> Trial:
    trial = Trial("__fake", stub=True, trial_id=name)
    trial.run_metadata.last_result = {STEPS: 400, "ret": value}
    return trial


def test_asha_judges_at_the_old_end_as_if_it_had_always_been_a_rung() -> None:
    scheduler: Any = ASHAScheduler(
        time_attr=STEPS, metric="ret", mode="max", max_t=400, grace_period=100, reduction_factor=2
    )
    trials = [ended_trial(name, value) for name, value in zip("abcd", (1, 2, 3, 4), strict=True)]
    for trial in trials:
        scheduler.on_trial_add(None, trial)
        scheduler.on_trial_complete(None, trial, trial.last_result)
    assert [at for at, _ in scheduler._brackets[0]._rungs] == [400, 200, 100]
    assert list(scheduler._brackets[0]._rungs[0][1].values()) == [1, 2, 3, 4]

    extend_rungs(scheduler, {STEPS: 400, "other": 9})
    assert [at for at, _ in scheduler._brackets[0]._rungs] == [400, 200, 100]
    for _ in range(2):  # a second resume changes nothing
        extend_rungs(scheduler, {STEPS: 2000})
        assert [at for at, _ in scheduler._brackets[0]._rungs] == [1600, 800, 400, 200, 100]
    whole: Any = ASHAScheduler(
        time_attr=STEPS, metric="ret", mode="max", max_t=2000, grace_period=100, reduction_factor=2
    )
    assert [a for a, _ in whole._brackets[0]._rungs] == [1600, 800, 400, 200, 100]
    # Each against the median of the others.
    assert [take_back(scheduler, trial) for trial in trials] == [False, False, True, True]
    assert set(scheduler._trial_info) == {"c", "d"}
    on = {STEPS: 800, "ret": 6}
    assert scheduler.on_trial_result(None, trials[3], on) == "CONTINUE"
    assert scheduler.on_trial_result(None, trials[2], {**on, "ret": 5}) == "STOP"
    forget_results(scheduler, trials[0])
    assert "a" not in scheduler._brackets[0]._rungs[2][1]


def test_other_schedulers_let_every_trial_go_on() -> None:
    scheduler = FIFOScheduler()
    extend_rungs(scheduler, {STEPS: 2000})
    assert take_back(scheduler, ended_trial("a", 1.0))


def test_a_trial_that_goes_on_runs_again_in_optuna() -> None:
    space = SearchSpace.parse({"lr": {"uniform": [0, 1]}})
    search = OptunaSearch(space, metric="ret", mode="max", stop={STEPS: 400})
    for number in range(12):
        search.suggest(str(number))
        if number != 5:
            search.on_trial_result(str(number), {STEPS: 200, "ret": 1.0})
            search.on_trial_complete(str(number), {STEPS: 400, "ret": number, "pruned": False})
    search.on_trial_result("5", {STEPS: 200, "ret": 0.5})
    params = [trial.params for trial in search.study.trials]

    search = pickle.loads(pickle.dumps(search))  # as after a resume
    search.extend(12, {STEPS: 800})
    search.reopen({"3", "7", "unknown"})
    states = [trial.state for trial in search.study.trials]
    running = [number for number, state in enumerate(states) if state == TrialState.RUNNING]
    assert running == [3, 5, 7] and len(states) == 12
    assert [trial.params for trial in search.study.trials] == params
    assert search.study.trials[3].intermediate_values == {200: 1.0, 400: 3.0}

    search.on_trial_result("3", {STEPS: 600, "ret": 20.0})
    search.on_trial_complete("3", {STEPS: 800, "ret": 30.0, "pruned": False})
    search.on_trial_complete("5", {STEPS: 400, "ret": 2.0, "pruned": True})
    search.on_trial_complete("7", None, error=True)
    ended = search.study.trials
    assert search.study.best_trial.number == 3 and search.study.best_value == 30.0
    assert list(ended[3].intermediate_values) == [200, 400, 600, 800]
    assert [ended[n].state.name for n in (3, 5, 7)] == ["COMPLETE", "PRUNED", "FAIL"]
    assert 0 <= search.suggest("next")["lr"] <= 1  # the sampler goes on


def unit_search(sampler: Any = None) -> OptunaSearch:
    space = SearchSpace.parse({"lr": {"uniform": [0, 1]}})
    return OptunaSearch(space, metric="ret", mode="max", stop={STEPS: 400}, sampler=sampler)


def test_a_sobol_sequence_goes_on_where_it_was() -> None:
    def draws(*, reopen: bool) -> list[Any]:
        search = unit_search(QMCSampler(seed=1))
        drawn = []
        for number in range(8):
            drawn.append(search.suggest(str(number)))
            search.on_trial_complete(str(number), {STEPS: 400, "ret": 1.0, "pruned": False})
            if reopen and number == 3:
                search.reopen({"2"})
        return drawn

    assert draws(reopen=True) == draws(reopen=False)


def test_the_resumed_search_takes_over_the_cluster_and_forgets_failed_attempts(
    tmp_path: Any,
) -> None:
    search = unit_search()
    before: Any = SearchGenerator(ConcurrencyLimiter(search, max_concurrent=1))
    before._experiment = SimpleNamespace(spec={})
    for name in ("retried", "restarted"):
        before.searcher.suggest(name)
        search.on_trial_result(name, {STEPS: 200, "ret": 9.0})
        before.searcher.on_trial_complete(name, None, error=True)
    before.save_to_dir(str(tmp_path), "x")

    changes = plan_changes([], num_trials=3, num_samples=3, stop={STEPS: 400}, max_concurrent=4)
    failed = {"retried": frozenset({"retried"}), "restarted": frozenset({"restarted"})}
    limiter: Any = ConcurrencyLimiter(unit_search(), max_concurrent=1)
    ResumedSearch(limiter, replace(changes, **failed)).restore_from_dir(str(tmp_path))
    search = limiter.searcher
    for name in ("retried", "restarted"):
        search.on_trial_result(name, {STEPS: 200, "ret": 1.0})
    values = {t.user_attrs["trial_id"]: t.intermediate_values for t in search.study.trials}
    assert values == {"retried": {200: 9.0}, "restarted": {200: 1.0}}
    assert all(limiter.suggest(name) for name in "ab")  # four at a time, where it was one
    assert limiter.suggest("c") is None


def test_the_limit_is_of_the_cluster_that_there_is_now() -> None:
    keys: dict[str, Any] = {"name": "s", "trainable": "sweep_dummy:Dummy", "num_samples": 4}
    keys["search_space"] = {"lr": {"uniform": [0.1, 1]}}
    sweep = Sweep.of(make_spec({**keys, "max_concurrent": 3}))
    assert _resumed_limit(ConcurrencyLimiter(unit_search(), 1), sweep) == 3
    assert _resumed_limit(TogetherLimiter(unit_search(), 8, 8), sweep) == 8
