"""HyperBand (Li et al., 2018) as a Tune scheduler, with budgets in any unit.

Ray's own derives the number of brackets from `log(max_t)`: budgets in environment steps would give
a dozen brackets whose first ones stop nobody. Here a bracket's first rung is a budget that is
given, and the sizes of brackets are scaled to the sweep's trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler

from analysis.results.rows import flatten
from experiments.schedulers.acting_scheduler import ActingScheduler
from experiments.schedulers.halving import HalvingKind
from experiments.schedulers.kind import Parts
from experiments.spec.scheduler_schema import HyperBandScheduler
from experiments.trial_info import PRUNED

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController


class HyperBandKind(HalvingKind[HyperBandScheduler]):
    """Synchronous HyperBand: trials pause at each rung until all of their bracket are there."""

    pauses = True
    needs_all = True
    fixed_size = "its brackets are laid out for the number of trials"
    fixed_budget = (
        "a longer budget makes other brackets, and the existing trials do not fit into them"
    )

    def build(self, parts: Parts) -> HyperBand:
        return self._build(parts.num_trials)

    def alive(self, num_trials: int, max_concurrent: int) -> int | None:
        return self._build(num_trials).largest_bracket

    def _build(self, num_trials: int) -> HyperBand:
        return HyperBand(num_trials, **self.options.model_dump(exclude={"algorithm"}))


def bracket_sizes(num_trials: int, halvings: int, reduction_factor: float) -> list[tuple[int, int]]:
    """Return the brackets of a sweep: how often each halves, and how many trials it begins with.

    The first one halves most. All of them repeat as often as the trials fill them with the paper's
    sizes; then the sizes are scaled, so that each has its share of the trials.
    """
    steps = range(halvings, -1, -1)
    sizes = [math.ceil((halvings + 1) / (s + 1) * reduction_factor**s) for s in steps]
    rounds = max(1, num_trials // sum(sizes))
    brackets = []
    for number in range(rounds):
        count = num_trials // rounds + (number < num_trials % rounds)
        shares = _shares(count, sizes)
        brackets += [(s, share) for s, share in zip(steps, shares, strict=True) if share]
    return brackets


def _shares(count: int, sizes: Sequence[int]) -> list[int]:
    """`count` in proportion to `sizes` (Sainte-Laguë's method), at least one each.

    If there are fewer than sizes all go to the first, where they are at least compared.
    """
    if count < len(sizes):
        return [count, *[0] * (len(sizes) - 1)]
    shares = [1] * len(sizes)
    for _ in range(count - len(sizes)):
        shares[max(range(len(sizes)), key=lambda i: sizes[i] / (2 * shares[i] + 1))] += 1
    return shares


def num_kept(alive: int, reduction_factor: float) -> int:
    """Return how many of those that are left at a rung go on."""
    return max(1, int(alive / reduction_factor))


def num_halvings(max_t: float, grace_period: float, reduction_factor: float) -> int:
    """Return how many rungs lie between the first budget and the last."""
    return int(math.log(max_t / grace_period) / math.log(reduction_factor) + 1e-9)


@dataclass
class Bracket:
    """Trials that are compared with each other.

    Attributes:
        size: Trials that it begins with.
        halvings: Rungs that are left before the last one.
        rung: Budget at which those that are left wait for each other.
        scores: The scores of the trials that wait at the rung.
        members: All that are or were in it.
    """

    size: int
    halvings: int
    rung: float
    members: list[Trial] = field(default_factory=list)
    scores: dict[Trial, float] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether all trials that it waits for have been made."""
        return len(self.members) >= self.size

    def alive(self) -> list[Trial]:
        """Return the trials that have not ended."""
        return [trial for trial in self.members if not trial.is_finished()]


class HyperBand(ActingScheduler):
    """Trials pause at each rung until all of their bracket are there; the best go on.

    Args:
        num_trials: The number of trials of the sweep.
        time_attr: The budget, a key of results.
        max_t: Budget of a trial that is never stopped early.
        grace_period: Budget of the first rung of the bracket that halves most.
        reduction_factor: One in so many trials goes on at each rung.
    """

    def __init__(
        self,
        num_trials: int,
        *,
        time_attr: str,
        max_t: float,
        grace_period: float,
        reduction_factor: float = 3,
    ) -> None:
        super().__init__()
        self._time_attr, self._max_t, self._factor = time_attr, max_t, reduction_factor
        halvings = num_halvings(max_t, grace_period, reduction_factor)
        self._brackets = [
            Bracket(size, s, max_t / reduction_factor**s)
            for s, size in bracket_sizes(num_trials, halvings, reduction_factor)
        ]
        self._bracket_of: dict[Trial, Bracket] = {}

    @property
    def largest_bracket(self) -> int:
        """How many trials have to be alive at a time."""
        return max(bracket.size for bracket in self._brackets)

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """Put a new trial into the first bracket with room; one that failed keeps its place."""
        if trial in self._bracket_of:
            return
        bracket = next((b for b in self._brackets if not b.is_full), None)
        if bracket is None:  # a sweep that was extended: one more, like the first
            first = self._brackets[0]
            bracket = Bracket(first.size, 0, self._max_t)
            self._brackets.append(bracket)
        bracket.members.append(trial)
        self._bracket_of[trial] = bracket

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        """Pause at the bracket's rung, stop at the full budget."""
        if self._time_attr not in result or self._metric not in result:
            return TrialScheduler.CONTINUE
        budget, bracket = result[self._time_attr], self._bracket_of[trial]
        if budget >= self._max_t:
            return TrialScheduler.STOP
        if bracket.halvings == 0 or budget < bracket.rung:
            return TrialScheduler.CONTINUE
        score = self._sign * float(result[self._metric])
        bracket.scores[trial] = -math.inf if math.isnan(score) else score
        return TrialScheduler.PAUSE

    def is_at_rest(self, trial: Trial) -> bool:
        """Tell whether a trial waits at its rung, and is saved there."""
        bracket, saved = self._bracket_of[trial], trial.latest_checkpoint_result
        if trial not in bracket.scores or saved is None:
            return False
        return bool(saved.metrics.get(self._time_attr, 0) >= bracket.rung)

    def trial_state(self, trial: Trial) -> dict[str, Any]:
        """Return the score with which it waits, and at which rung."""
        bracket = self._bracket_of[trial]
        return {"rung": bracket.rung, "score": bracket.scores.get(trial)}

    def set_trial_state(self, trial: Trial, state: Mapping[str, Any]) -> None:
        """Let it wait at the rung where its checkpoint was made."""
        bracket = self._bracket_of[trial]
        if state["score"] is not None and state["rung"] == bracket.rung:
            bracket.scores[trial] = float(state["score"])

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Halve the brackets that are complete; then the first trial that does not wait."""
        for bracket in self._brackets:
            self._halve(tune_controller, bracket)
        for trial in tune_controller.get_trials():
            waits = trial in self._bracket_of[trial].scores
            if trial.status in (Trial.PENDING, Trial.PAUSED) and not waits:
                return trial
        return None

    def _halve(self, controller: TuneController, bracket: Bracket) -> None:
        """When all that are left have stopped training at the rung: keep the best."""
        alive = bracket.alive()
        if not bracket.is_full or not alive or bracket.halvings == 0:
            return
        if not all(t.status == Trial.PAUSED and t in bracket.scores for t in alive):
            return
        ranked = sorted(alive, key=lambda trial: bracket.scores[trial])
        keep = num_kept(len(alive), self._factor)
        bracket.halvings -= 1
        bracket.rung = self._max_t / self._factor**bracket.halvings
        bracket.scores = {}
        self.has_acted = True
        for trial in ranked[: len(ranked) - keep]:
            _stop_paused(controller, trial)

    def debug_string(self) -> str:
        """Return a line for Tune's log."""
        return "HyperBand: " + ", ".join(
            f"{len(b.alive())} of {b.size} trials up to {b.rung:g}" for b in self._brackets
        )


def _stop_paused(controller: TuneController, trial: Trial) -> None:
    """Stop a trial that is paused, and tell the search how far it came: Tune would not."""
    result = {**trial.last_result, PRUNED: True}
    trial.run_metadata.last_result = result
    controller.search_alg.on_trial_complete(trial.trial_id, result=flatten(result))
    controller.stop_trial(trial)
