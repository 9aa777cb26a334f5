"""Population-based training (Jaderberg et al., 2017) as a Tune scheduler.

Each time a trial has used up an interval of its budget it is compared with the population. One of
the best is saved; one of the worst goes on from the checkpoint of one of the best, with its
settings mutated. Ray's own scheduler of this kind mutates out of bounds, goes by names of files
that it may have deleted, takes no searcher, and waits for ever for a trial that has ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from experiments.internals.tune import (
    TrainingResult,
    loop_of,
    note_changed,
    save_trial,
    set_latest_checkpoint,
)
from experiments.schedulers.acting_scheduler import ActingScheduler
from experiments.schedulers.exploit_files import LineageLog, adopt_donor
from experiments.schedulers.mutation import searched_settings
from experiments.schedulers.turns import must_yield, next_in_turn
from search_spaces.space import SearchSpace

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

Explore = Callable[[Mapping[str, Any], np.random.Generator], dict[str, Any]]


@dataclass
class Member:
    """What is known of a trial of the population.

    Attributes:
        scores: The scores by number of the interval that it was at, the greater the better.
        budget: The budget that it had used at its last interval.
        has_checkpoint: Whether others can go on from that moment: it was one of the best.
        waits: Whether it waits for the others at the end of its interval (if all go in step).
    """

    scores: dict[int, float] = field(default_factory=dict)
    budget: float = 0
    has_checkpoint: bool = False
    waits: bool = False

    def score(self, at_most: float = math.inf) -> float:
        """Return the score at the last interval, or at the last one up to a number."""
        return self.scores[max(number for number in self.scores if number <= at_most)]


class PopulationTraining(ActingScheduler):
    """All trials of the sweep are the population; they may be more than run at a time.

    Args:
        space: The searched settings, which the lineage records.
        explore: A function that mutates a donor's configuration.
        time_attr: The budget, a key of results.
        interval: Budget between two comparisons.
        burn_in: Budget before the first one.
        quantile: Share of the population that is replaced, and that it is replaced by.
        synch: Whether all trials wait for each other at each interval.
        seed: The seed of mutations and of the choice of donors.
    """

    def __init__(
        self,
        space: SearchSpace,
        explore: Explore,
        *,
        time_attr: str,
        interval: float,
        burn_in: float = 0,
        quantile: float = 0.25,
        synch: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._space, self._explore = space, explore
        self._time_attr, self._interval, self._burn_in = time_attr, interval, burn_in
        self._quantile, self._synch = quantile, synch
        self._random = np.random.default_rng(seed)
        self._members: dict[Trial, Member] = {}
        self._num_exploits = 0
        self._lineage = LineageLog()

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """Take in a new trial; one that comes back after a failure is the member that it was."""
        self._members.setdefault(trial, Member())

    # ------------------------------------------------------------------ results

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        """Compare, save or exploit, once an interval."""
        if self._time_attr not in result or self._metric not in result:
            return TrialScheduler.CONTINUE
        controller = loop_of(tune_controller)
        budget, member = result[self._time_attr], self._members[trial]
        if member.waits:  # a kill came before it was saved where it waits: there again
            return TrialScheduler.CONTINUE if budget < member.budget else TrialScheduler.PAUSE
        if budget < max(self._burn_in, member.budget + self._interval):
            return TrialScheduler.CONTINUE
        score = self._sign * float(result[self._metric])
        score = score if math.isfinite(score) else -math.inf
        member.scores[int(budget // self._interval)] = score
        member.budget = budget
        self.observe(trial, budget, score)
        if self._synch:
            # The others catch up first; when all are at rest, `choose_trial_to_run` goes on.
            member.waits = True
            return TrialScheduler.PAUSE
        is_worst, is_best = self._standing(trial)
        if is_worst and not is_best and self._exploit(controller, trial, result):
            return TrialScheduler.NOOP
        yields = must_yield(controller, trial, self._budget)
        member.has_checkpoint = is_best or yields  # to pause is to save
        if is_best:
            save_trial(controller, trial, result)
        return TrialScheduler.PAUSE if yields else TrialScheduler.CONTINUE

    def is_at_rest(self, trial: Trial) -> bool:
        """Tell whether a trial waits at its interval, and is saved there."""
        member, saved = self._members[trial], trial.latest_checkpoint_result
        if not member.waits or saved is None:
            return False
        return bool(saved.metrics.get(self._time_attr, 0) >= member.budget)

    def trial_state(self, trial: Trial) -> dict[str, Any]:
        """Return the `Member`."""
        return asdict(self._members[trial])

    def set_trial_state(self, trial: Trial, state: Mapping[str, Any]) -> None:
        """Become the member that the trial was when its checkpoint was made."""
        scores = {int(number): float(score) for number, score in state["scores"].items()}
        before = self._members[trial].budget
        member = self._members[trial] = Member(**{**state, "scores": scores})
        if scores and member.budget > before:
            self.observe(trial, member.budget, member.score())

    def explore(self, trial: Trial, donor: Trial) -> dict[str, Any]:
        """Return the configuration of a trial that goes on from a donor's checkpoint."""
        return self._explore(donor.config, self._random)

    def observe(self, trial: Trial, budget: float, score: float) -> None:
        """Note that a trial has ended an interval: for those who learn from it."""

    def _standing(self, trial: Trial) -> tuple[bool, bool]:
        """Tell whether a trial is one of the worst, and whether it is one of the best."""
        others = self._others(trial)
        better = len(self._better(trial))
        num = 1 + len(others)
        count = min(math.ceil(num * self._quantile), num // 2)
        return better >= num - count, better < count

    def _others(self, trial: Trial) -> list[Trial]:
        """Return the trials that it can be compared with."""
        return [
            other
            for other, member in self._members.items()
            if other is not trial and not _has_ended(other) and self._common(trial, other)
        ]

    def _better(self, trial: Trial) -> list[Trial]:
        """Return the trials that did better with as much budget.

        Where more trials than run at a time take turns, some are an interval behind: the scores of
        the last interval that both have had are compared.
        """
        mine = self._members[trial]
        return [
            other
            for other in self._others(trial)
            if (last := self._common(trial, other))
            and self._members[other].score(last) > mine.score(last)
        ]

    def _common(self, one: Trial, other: Trial) -> int | None:
        """Return the last interval that both have had; None if there is none."""
        mine, theirs = self._members[one].scores, self._members[other].scores
        if not mine or not theirs:
            return None
        last = min(max(mine), max(theirs))
        return last if last >= max(min(mine), min(theirs)) else None

    # ------------------------------------------------------------------ exploit and explore

    def _exploit(self, controller: TuneController, trial: Trial, last: Mapping[str, Any]) -> bool:
        """Put a trial in the place of one of the best; tells whether one had a checkpoint.

        Its own last result is where its file goes on.
        """
        donors = [d for d in self._better(trial) if self._members[d].has_checkpoint]
        if not donors:
            return False
        # Of those that paused some are no better than most; and who was one of the best when it
        # was saved, of the few that had begun by then, need not be one of them any more.
        donors = [d for d in donors if self._standing(d)[1]] or donors
        donor = donors[int(self._random.integers(len(donors)))]
        checkpoint = _newest_checkpoint(donor)
        if checkpoint is None:
            return False
        adopted = adopt_donor(trial, checkpoint, self._num_exploits, last)
        self._num_exploits += 1
        if trial.status != Trial.PAUSED:
            controller.pause_trial(trial, should_checkpoint=False)
        before = searched_settings(self._space, trial.config)
        trial.set_config(self.explore(trial, donor))
        set_latest_checkpoint(trial, adopted)
        note_changed(controller, trial)
        member, theirs = self._members[trial], self._members[donor]
        donor_budget = checkpoint.metrics.get(self._time_attr, theirs.budget)
        entry = {
            "exploit": self._num_exploits,
            "time": time.time(),
            "time_attr": self._time_attr,
            "trial": trial.trial_id,
            "donor": donor.trial_id,
            "budget": member.budget,
            "donor_budget": donor_budget,
            "score": self._reported(member),
            "donor_score": self._reported(theirs),
            "before": before,
            "donor_settings": searched_settings(self._space, donor.config),
            "after": searched_settings(self._space, trial.config),
        }
        self._lineage.append(controller, entry)
        # From now on its past is its donor's.
        self._members[trial] = Member(dict(theirs.scores), donor_budget)
        self.has_acted = True
        return True

    def _reported(self, member: Member) -> float | None:
        score = member.score()
        return self._sign * score if math.isfinite(score) else None

    # ------------------------------------------------------------------ who runs next

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return the trial furthest behind of those that wait for a process."""
        controller = loop_of(tune_controller)
        if self._synch:
            self._end_round(controller)
        trials = controller.get_trials()
        going = [trial for trial in trials if not self._members[trial].waits]
        return next_in_turn(controller, going, self._budget)

    def _budget(self, trial: Trial) -> float:
        return self._members[trial].budget

    def _end_round(self, controller: TuneController) -> None:
        """When every trial that has not ended waits at its interval: exploit, and all go on."""
        alive = [trial for trial in controller.get_trials() if not trial.is_finished()]
        at_rest = all(t.status == Trial.PAUSED and self._members[t].waits for t in alive)
        if not alive or not at_rest:
            return
        standing = {trial: self._standing(trial) for trial in alive}
        for trial, (_, is_best) in standing.items():
            self._members[trial].has_checkpoint = is_best  # to pause was to save
        for trial, (is_worst, is_best) in standing.items():
            if is_worst and not is_best:
                self._exploit(controller, trial, trial.last_result)
        for trial in alive:
            self._members[trial].waits = False
        self.has_acted = True

    def debug_string(self) -> str:
        """Return a line for Tune's log."""
        return f"population-based training: {self._num_exploits} exploits"


def _has_ended(trial: Trial) -> bool:
    """Whether a trial has no more budget; the last save of one that reached its end may go on."""
    return trial.is_finished() or bool((trial.last_result or {}).get("done"))


def _newest_checkpoint(trial: Trial) -> TrainingResult | None:
    """Return the checkpoint that is being written, when it is there, else the latest."""
    saving = trial.temporary_state.saving_to
    return saving.resolve() if saving is not None else trial.latest_checkpoint_result
