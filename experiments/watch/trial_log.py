"""A trial's `result.json`, read as it grows: no row is parsed twice."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis.curves.thinning import thin
from analysis.names import ENV_STEPS, ITERATION, SECONDS, TRAINED
from analysis.ranking.order import Course, number
from analysis.results.rows import as_config, flatten, parse_row

_HUGE = 2**63  # a whole number that no counter reaches, and a float may not hold


class Point(NamedTuple):
    """What a curve has of one result.

    Attributes:
        iteration: The training iteration.
        steps: Env steps; steps trained on where none are sampled; else the iteration.
        seconds: Training time, in seconds; None where it is not reported.
        values: The value of each objective; None where it is missing or not finite.
    """

    iteration: float
    steps: float
    seconds: float | None
    values: tuple[float | None, ...]


class TrialLog:
    """What a trial has reported so far.

    Args:
        folder: The trial's folder.
        metrics: The objectives, flat names such as `evaluation/episode_return_mean`.

    Attributes:
        points: The curve, thinned where it is long.
        version: Changes whenever `points` did not merely grow.
        course: All finite values of the first objective.
        last: The last result, flat, without the config; {}: there is none.
        first_config: The nested config of the first result.
        config: The nested config of the last result.
        began: When the trial began, in seconds since 1970; None where results do not say.
    """

    def __init__(self, folder: Path, metrics: Sequence[str]) -> None:
        self._path = folder / "result.json"
        self._metrics = tuple(metrics)
        self.version = 0
        self._begin(None)

    def _begin(self, inode: int | None) -> None:
        self._inode, self._offset = inode, 0
        self._counts_steps = False
        self.points: list[Point] = []
        self.version += 1
        self.course = Course()
        self.last: dict[str, Any] = {}
        self.first_config: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.began: float | None = None

    def read(self, most_points: int) -> bool:
        """Read the rows that were added since the last call.

        Args:
            most_points: Above twice as many the curve is thinned to so many.

        Returns:
            Whether anything changed.
        """
        try:
            found = os.stat(self._path)
        except OSError:  # not written yet; or moved away, as the trial starts anew
            if self._inode is not None:
                self._begin(None)
                return True
            return False
        is_new = found.st_ino != self._inode or found.st_size < self._offset
        if is_new:  # rows were taken back by a resume: see `experiments.result_rows`
            self._begin(found.st_ino)
        if found.st_size == self._offset:
            return is_new
        before = self._offset
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._offset += len(line)
                row = parse_row(line.decode("utf-8", errors="replace"))
                if row is not None:
                    self._note(row)
        if len(self.points) > 2 * most_points:
            self._thin(most_points)
        return is_new or self._offset > before

    def _note(self, row: dict[str, Any]) -> None:
        config = as_config(row.pop("config", None))
        if config != self.config:
            self.config = config
        if not self.last:
            self.first_config = config
            ends, took = (_finite(row.get(key)) for key in ("timestamp", SECONDS))
            self.began = None if ends is None else ends - (took or 0.0)
        nested = any(isinstance(value, dict) for value in row.values())
        row = flatten(row) if nested else row
        self.last = row = {k: v for k, v in row.items() if not _is_huge(v)}
        point = self._point(row)
        # As `Course` does: a trial that goes on from a checkpoint repeats what came after it.
        while self.points and (
            self.points[-1].iteration >= point.iteration or self.points[-1].steps > point.steps
        ):
            self.points.pop()
            self.version += 1
        self.points.append(point)
        self.course.note(row, self._metrics[0])

    def _point(self, row: dict[str, Any]) -> Point:
        at = number(row.get(ITERATION))
        iteration = at if math.isfinite(at) else len(self.points) + 1.0
        counts = (_finite(row.get(key)) for key in (ENV_STEPS, TRAINED))
        steps = next((count for count in counts if count is not None), None)
        self._counts_steps |= steps is not None
        if steps is None:  # a single result may lack them
            steps = self.points[-1].steps if self._counts_steps and self.points else iteration
        values = tuple(_finite(row.get(metric)) for metric in self._metrics)
        return Point(iteration, steps, _finite(row.get(SECONDS)), values)

    def _thin(self, most_points: int) -> None:
        values = np.array([point.values[0] for point in self.points], dtype=float)
        known = np.where(np.isfinite(values), values, 0.0)
        kept, _ = thin(np.arange(len(known)), known, most_points)
        self.points = [self.points[int(place)] for place in kept]
        self.version += 1


def _finite(value: Any) -> float | None:
    """Return a number; None for text, truth values, NaN and infinities."""
    found = number(value) if isinstance(value, int | float) else math.nan
    return found if math.isfinite(found) else None


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and not -_HUGE < value < _HUGE
