"""The order of a sweep's trials, best first: one rule, for every table, line, picture and export.

1. The better last finite value of the objective comes first.
2. Of equal values the one that was reached in fewer environment steps: those of the first result
   that was at least as good as the trial's last value. (So an episode that was lucky on the way to
   a lower end counts, and going on for longer at the same value does not.)
3. Then the higher mean of all values that the trial reported (the lower one, if less is better).
4. Then the trial with the lower number, which is the one that was made earlier.

Iterations stand in for environment steps where a trial does not report them. Of trials that run
what they have reported so far counts.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from analysis.names import ENV_STEPS, ITERATION, sign_of

RULE = (
    "Equal values rank by fewer env steps to reach them, then by the better mean of the curve, "
    "then by the lower trial number."
)
"""The rule for ties in a sentence."""

T = TypeVar("T")


class Course:
    """The finite values of one metric that a trial has reported, oldest first.

    Args:
        values: `[N]`.
        env_steps: The env steps at each of them `[N]`; NaN where they were not reported.
        iterations: The iteration at each of them `[N]`.
    """

    def __init__(
        self,
        values: Iterable[float] = (),
        env_steps: Iterable[float] = (),
        iterations: Iterable[float] = (),
    ) -> None:
        self._values = array("d", values)
        self._env_steps = array("d", env_steps)
        self._iterations = array("d", iterations)
        self._reached: dict[float, float] = {}  # what a live table asks for each second

    def note(self, result: Mapping[str, Any], metric: str) -> None:
        """Add a result; it replaces those of a run that was cut off or given up after that point.

        A trial that goes on from a checkpoint repeats iterations, and a clone of PBT steps.
        """
        at = number(result.get(ITERATION))
        iteration = at if math.isfinite(at) else len(self._values) + 1.0
        steps, value = number(result.get(ENV_STEPS)), number(result.get(metric))
        self._reached.clear()
        while self._iterations and (
            self._iterations[-1] >= iteration or self._env_steps[-1] > steps
        ):
            for column in (self._values, self._env_steps, self._iterations):
                column.pop()
        if math.isfinite(value):
            self._values.append(value)
            self._env_steps.append(steps)
            self._iterations.append(iteration)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def last(self) -> float:
        """The last value; NaN if there is none."""
        return self._values[-1] if self._values else math.nan

    @property
    def mean(self) -> float:
        """The mean of all values; NaN if there is none."""
        return math.fsum(self._values) / len(self) if self._values else math.nan

    def reached(self, sign: float) -> float:
        """Return the env steps at which a result was first as good as the last; NaN if none was."""
        if sign not in self._reached:
            missing = any(map(math.isnan, self._env_steps))
            steps = self._iterations if missing else self._env_steps
            goal = sign * self.last
            pairs = zip(steps, self._values, strict=True)
            self._reached[sign] = next((at for at, v in pairs if sign * v >= goal), math.nan)
        return self._reached[sign]


def number(value: Any) -> float:
    """Return a value as a number; NaN if it is none. A truth value is none."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def best_first(
    trials: Sequence[T],
    mode: str,
    *,
    last: Callable[[T], float],
    course: Callable[[T], Course],
) -> list[T]:
    """Return trials in the order that the module describes; those without a finite value come last.

    Args:
        trials: The trials in the order of their numbers.
        mode: "max" or "min".
        last: A trial's last finite value; NaN if it has none.
        course: What it has reported. Asked for only of trials with equal values.
    """
    sign = sign_of(mode)
    values = [sign * last(trial) for trial in trials]
    times = Counter(values)

    def key(place: int) -> tuple[float, ...]:
        value = values[place]
        if not math.isfinite(value):
            return (math.inf,)
        if times[value] == 1:
            return (-value,)
        own = course(trials[place])
        return (-value, own.reached(sign), -sign * own.mean)

    return [trials[place] for place in sorted(range(len(trials)), key=key)]


def of_runs(courses: Sequence[Course], mode: str) -> tuple[float, float]:
    """Return what breaks ties between configurations of several runs: the lower comes first.

    The mean over the runs of the env steps to the value, then that of the curves' means.
    """
    if not courses:
        return math.inf, math.inf
    sign, count = sign_of(mode), len(courses)
    reached = math.fsum(course.reached(sign) for course in courses) / count
    return reached, -sign * math.fsum(course.mean for course in courses) / count
