"""Who is one of the worst and one of the best of a population, and who may go on from whom."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import TrialScheduler

from experiments.schedulers.population import Member, PopulationTraining
from search_spaces.space import SearchSpace


class FakeTrial(SimpleNamespace):
    __hash__ = object.__hash__

    def is_finished(self) -> bool:
        return bool(self.finished)


def population(*members: Member, quantile: float = 0.25) -> tuple[PopulationTraining, list[Any]]:
    pbt = PopulationTraining(
        SearchSpace(), lambda config, random: dict(config),
        time_attr="steps", interval=100, quantile=quantile,
    )  # fmt: skip
    trials = [FakeTrial(number=i, finished=False, last_result={}) for i in range(len(members))]
    pbt._members = dict(zip(trials, members, strict=True))  # type: ignore[arg-type]
    return pbt, trials


def standings(pbt: PopulationTraining, trials: list[Any]) -> str:
    """A letter for each: best, worst, or neither."""
    letters = {(True, False): "w", (False, True): "b", (False, False): "-"}
    return "".join(letters[pbt._standing(trial)] for trial in trials)


def test_the_quantiles_of_a_population() -> None:
    of_eight = [Member({1: float(score)}) for score in (5, 1, 7, 3, 8, 2, 6, 4)]
    assert standings(*population(*of_eight)) == "-wb-bw--"
    assert standings(*population(*of_eight, quantile=0.5)) == "bwbwbwbw"
    assert standings(*population(Member({1: 1.0}), Member({1: 2.0}))) == "wb"
    assert standings(*population(Member({1: 1.0}))) == "-"
    # A diverged trial is the worst, whatever its number is.
    assert standings(*population(Member({1: -math.inf}), Member({1: -9.0}))) == "wb"


def test_a_trial_is_compared_at_the_budget_that_both_have_had() -> None:
    """Returns grow with the budget: who is an interval behind is not the worst for that."""
    ahead, behind = Member({1: 1.0, 2: 5.0}), Member({1: 2.0})
    pbt, (one, other) = population(ahead, behind)
    assert standings(pbt, [one, other]) == "wb"
    assert pbt._better(one) == [other] and pbt._better(other) == []


def test_those_that_ended_or_have_no_score_yet_are_not_compared() -> None:
    pbt, trials = population(Member({1: 1.0}), Member({1: 2.0}), Member(), Member({3: 9.0}))
    trials[1].finished = True
    assert pbt._others(trials[0]) == []  # the last one has nothing to compare at its first interval
    assert pbt._better(trials[2]) == []
    # One at its end is saved for the last time: a clone would begin there, and train beyond.
    pbt, trials = population(Member({1: 1.0}), Member({1: 2.0}))
    assert pbt._better(trials[0]) == [trials[1]]
    trials[1].last_result = {"done": True}
    assert pbt._others(trials[0]) == []


def test_a_trial_that_waits_rests_where_it_is_saved_and_catches_up_where_it_is_not() -> None:
    """What a resumed sweep does with it: no step beyond the barrier, none that is missing."""
    pbt, (trial,) = population(Member({1: 5.0}, budget=100, waits=True))
    pbt._metric = "score"
    for saved, rests in ((None, False), (50, False), (100, True)):
        trial.latest_checkpoint_result = saved and SimpleNamespace(metrics={"steps": saved})
        assert pbt.is_at_rest(trial) is rests
    for steps, decision in ((60, TrialScheduler.CONTINUE), (100, TrialScheduler.PAUSE)):
        result = {"steps": steps, "score": 7.0}
        assert pbt.on_trial_result(SimpleNamespace(), trial, result) == decision  # type: ignore[arg-type]
    assert pbt._members[trial].scores == {1: 5.0}  # it was judged there once
    pbt._members[trial].waits = False
    assert not pbt.is_at_rest(trial)


def test_a_trial_is_the_member_that_it_was_at_its_checkpoint() -> None:
    """A kill came after the checkpoint was noted, and before the scheduler's state was saved."""
    saved = Member({1: -math.inf, 2: 7.0}, budget=200, has_checkpoint=True, waits=True)
    pbt, (trial,) = population(saved)
    noted = json.loads(json.dumps(pbt.trial_state(trial)))
    pbt, (trial,) = population(Member({1: -math.inf}, budget=100))
    seen: list[tuple[float, float]] = []
    pbt.observe = lambda trial, budget, score: seen.append((budget, score))  # type: ignore[method-assign]
    pbt.set_trial_state(trial, noted)
    assert pbt._members[trial] == saved and seen == [(200, 7.0)]
    pbt.set_trial_state(trial, noted)  # nothing that a model has not seen
    assert seen == [(200, 7.0)]
