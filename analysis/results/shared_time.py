"""The seconds of trials that shared a process, shared out among them.

Such a trial's clock, `time_total_s`, runs on while the process trains others, so it looks as if
batching made trials slower: the seconds of 24 trials of one process would count 24 times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.names import HOST, SECONDS, host_of

_NEEDED = (HOST, "timestamp", "time_this_iter_s")
# Results say when they were made in whole seconds, so iterations less apart follow each other.
_RESOLUTION_S = 1.0
_ALONE = 0.9  # of an iteration's seconds


def shares_of_time(frames: Sequence[pd.DataFrame]) -> list[np.ndarray | None]:
    """Return which part of each iteration's seconds is the trial's own.

    While n trials of a process are under way each has 1/n of the time. So the seconds of all trials
    of a process sum up to those that it trained.

    Args:
        frames: The rows of each trial of a sweep.

    Returns:
        For each trial `[rows]`, from 0 to 1; None of one that shared no process.
    """
    shares: list[np.ndarray | None] = [None] * len(frames)
    for rows in _iterations(frames).values():
        stays = pd.concat([_stays(of_trial) for _, of_trial in rows.groupby("trial")])
        edges = np.unique(stays.to_numpy())
        # Between two edges the number of trials that are there does not change.
        begun = np.searchsorted(np.sort(stays["start"]), edges[:-1], side="right")
        ended = np.searchsorted(np.sort(stays["end"]), edges[:-1], side="right")
        present = np.maximum(begun - ended, 1)
        own = np.concatenate([[0.0], np.cumsum(np.diff(edges) / present)])
        start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
        spent = np.interp(end, edges, own) - np.interp(start, edges, own)
        share = spent / (end - start)
        for trial in rows["trial"].unique():
            mine = (rows["trial"] == trial).to_numpy()
            of_trial = shares[trial]
            if of_trial is None:
                of_trial = shares[trial] = np.ones(len(frames[trial]))
            of_trial[rows["row"].to_numpy()[mine]] = share[mine]
    return shares


class Batching(NamedTuple):
    """What it took to train trials that shared processes, after each one's first iteration.

    That one also starts things up, which a trial alone would have to do, too.

    Attributes:
        trials: How many there were.
        processes: How many they shared.
        seconds: For which they trained: the process that trained for longest.
        num_alone: Iterations during which a trial had its process for itself.
        alone_s: Their median seconds; NaN if there are none.
        one_by_one_s: What all iterations would have taken at that pace, one trial at a time in each
            process: an estimate; NaN if there are none.
    """

    trials: int
    processes: int
    seconds: float
    num_alone: int
    alone_s: float
    one_by_one_s: float


def batching_of(frames: Sequence[pd.DataFrame]) -> Batching | None:
    """Return what trials that shared processes took; None if none did.

    How long a trial takes alone is read off iterations in which its process trained no other one:
    of trials that begin before, or go on after, the others.

    Args:
        frames: The rows of each trial of a sweep.
    """
    found = _iterations(frames)
    if not found:
        return None
    num_trials = pd.concat(found.values())["trial"].nunique()
    found = {host: part[part["row"] > 0] for host, part in found.items()}
    rows = pd.concat(found.values())
    shares = shares_of_time(frames)
    places = rows[["trial", "row"]].to_numpy()
    share = np.array([1.0 if (of := shares[trial]) is None else of[row] for trial, row in places])
    process = np.repeat(np.arange(len(found)), [len(part) for part in found.values()])
    took = (rows["end"] - rows["start"]).to_numpy()
    trained = np.bincount(process, weights=share * took, minlength=len(found))
    alone = took[share > _ALONE]
    pace = float(np.median(alone)) if len(alone) else math.nan
    return Batching(
        num_trials,
        len(found),
        float(trained.max()),
        len(alone),
        pace,
        pace * len(rows) / len(found),
    )


def _iterations(frames: Sequence[pd.DataFrame]) -> dict[int, pd.DataFrame]:
    """Return the iterations of each process: `trial` and `row` by number, `start` and `end`."""
    found: dict[int, list[pd.DataFrame]] = defaultdict(list)
    for number, frame in enumerate(frames):
        if not all(name in frame for name in _NEEDED):
            continue
        host = frame[HOST].map(lambda value: host_of({HOST: value})).to_numpy(float)
        end, took = (
            pd.to_numeric(frame[name], errors="coerce").to_numpy(float) for name in _NEEDED[1:]
        )
        known = np.isfinite(host) & np.isfinite(end) & np.isfinite(took) & (took > 0)
        for each in np.unique(host[known]):
            rows = np.flatnonzero(known & (host == each))
            found[int(each)].append(
                pd.DataFrame(
                    {
                        "trial": number,
                        "row": rows,
                        "start": end[rows] - took[rows],
                        "end": end[rows],
                    }
                )
            )
    return {host: pd.concat(parts) for host, parts in found.items()}


def _stays(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the spans in which a trial is under way: iterations that follow each other as one."""
    rows = rows.sort_values("start")
    until = rows["end"].cummax()
    first = (rows["start"] > until.shift() + _RESOLUTION_S).cumsum()
    return rows.groupby(first).agg(start=("start", "min"), end=("end", "max"))


def own_seconds(frame: pd.DataFrame, shares: np.ndarray | None) -> pd.Series:
    """Return the trial's training time at each row, its share of what it shared; NaN if unknown.

    Args:
        frame: The trial's rows.
        shares: `[rows]`, see `shares_of_time`; None: it had a process of its own.
    """
    if SECONDS not in frame:
        return pd.Series(np.nan, frame.index)
    seconds = pd.to_numeric(frame[SECONDS], errors="coerce").astype(float)
    if shares is None:
        return seconds
    known = seconds.notna().to_numpy()
    spans = np.diff(seconds[known], prepend=0.0) * shares[known]
    return pd.Series(np.cumsum(spans), seconds.index[known]).reindex(seconds.index)
