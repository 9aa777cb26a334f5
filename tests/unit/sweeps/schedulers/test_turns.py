"""Whose turn it is in a population of more trials than run at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiments.schedulers import turns
from experiments.schedulers.population import Member, PopulationTraining
from experiments.schedulers.turns import must_yield, needs_process, next_in_turn
from search_spaces.space import SearchSpace


class Trial(SimpleNamespace):
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def is_finished(self) -> bool:
        return self.status in ("TERMINATED", "ERROR")


ONE_CPU = SimpleNamespace(bundles=[{"CPU": 1}], strategy="PACK")


def trial(name: str, status: str, budget: float) -> Any:
    return Trial(trial_id=name, status=status, budget=budget, placement_group_factory=ONE_CPU)


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What is free: nothing, at first."""
    free = {"CPU": 0.0}
    monkeypatch.setattr(turns, "free_on_nodes", lambda: [free])
    return free


def budget(trial: Any) -> float:
    return float(trial.budget)


class Controller:
    """What is looked at of Tune's. `asked` have asked for a process, `granted` one begins."""

    def __init__(self, trials: list[Any], asked: Any = (), granted: Any = ()) -> None:
        self.trials = trials
        self._trial_to_actor = {trial: f"actor of {trial.trial_id}" for trial in (*asked, *granted)}
        started = {self._trial_to_actor[trial] for trial in granted}
        self._resetting_trials: set[Any] = set()
        self._stopping_actors: dict[str, float] = {}
        self._cached_trial_decisions: dict[str, str] = {}
        self._actor_cache = SimpleNamespace(num_cached_objects=0)
        is_started = {*started, "stops"}.__contains__
        self.reserved: list[Any] = []
        resources = SimpleNamespace(has_resources_ready=self.reserved.__contains__)
        self._actor_manager = SimpleNamespace(
            is_actor_started=is_started, _resource_manager=resources
        )

    def get_trials(self) -> list[Any]:
        return self.trials


def test_to_have_asked_for_a_process_is_not_to_have_one() -> None:
    """Tune asks for all of a population at once, and those that cannot have one keep asking."""
    waiting, paused = trial("w", "PENDING", 0), trial("p", "PAUSED", 100)
    starting, running = trial("s", "PENDING", 0), trial("r", "RUNNING", 50)
    controller: Any = Controller([paused, waiting, starting, running], [waiting], [starting])
    found = [needs_process(controller, trial) for trial in controller.trials]
    assert found == [True, True, False, False]
    assert next_in_turn(controller, controller.trials, budget) is waiting
    controller._resetting_trials.add(waiting)  # another's process is being prepared for it
    assert next_in_turn(controller, controller.trials, budget) is paused
    assert next_in_turn(controller, [running], budget) is None


def test_a_trial_yields_to_those_behind_it_only() -> None:
    mine, behind = trial("m", "RUNNING", 200), trial("b", "PAUSED", 100)
    level, ended = trial("l", "PAUSED", 200), trial("e", "TERMINATED", 100)
    yields = {
        "behind": must_yield(Controller([mine, behind]), mine, budget),  # type: ignore[arg-type]
        "level": must_yield(Controller([mine, level]), mine, budget),  # type: ignore[arg-type]
        "ended": must_yield(Controller([mine, ended]), mine, budget),  # type: ignore[arg-type]
        "alone": must_yield(Controller([mine]), mine, budget),  # type: ignore[arg-type]
    }
    assert yields == {"behind": True, "level": False, "ended": False, "alone": False}


@pytest.mark.parametrize("free", ["idle", "stops", "pauses"])
def test_nobody_yields_where_a_process_is_free_anyway(free: str) -> None:
    """As after an exploit in a population that fits: the clone's process is about to be its own."""
    mine, behind, other = trial("m", "RUNNING", 200), trial("b", "PAUSED", 100), trial("o", "", 0)
    controller: Any = Controller([mine, behind, other])
    if free == "idle":
        controller._actor_cache.num_cached_objects = 1
    elif free == "stops":
        controller._stopping_actors = {"stops": 0.0, "stopped long ago": 0.0}
    else:
        controller._cached_trial_decisions = {"o": "PAUSE"}
    assert not must_yield(controller, mine, budget)
    controller.trials.append(trial("b2", "PENDING", 0))
    assert must_yield(controller, mine, budget)


@pytest.mark.parametrize("room", ["free", "reserved"])
def test_nobody_yields_to_one_whose_process_is_only_slow_to_come(
    room: str, nodes: dict[str, float]
) -> None:
    mine, behind = trial("m", "RUNNING", 200), trial("b", "PENDING", 0)
    controller: Any = Controller([mine, behind], asked=[behind])
    assert must_yield(controller, mine, budget)
    if room == "free":
        nodes["CPU"] = 1.0
    else:
        controller.reserved.append(ONE_CPU)
    assert not must_yield(controller, mine, budget)


def test_a_population_starts_the_one_furthest_behind() -> None:
    pbt = PopulationTraining(
        SearchSpace(), lambda config, random: dict(config), time_attr="steps", interval=100
    )
    first, second, third = (trial(name, "PENDING", 0) for name in "abc")
    first.status = "PAUSED"
    pbt._members = {
        first: Member({1: 5.0}, budget=100),
        second: Member(),
        third: Member(waits=True),
    }
    controller: Any = Controller([first, second, third], asked=[second, third])
    assert pbt.choose_trial_to_run(controller) is second
    pbt._members[second].budget = 200
    assert pbt.choose_trial_to_run(controller) is first
