"""The seconds of trials that shared a process, shared out among them.

Such a trial's clock, `time_total_s`, runs on while the process trains others, so it looks as if
batching made trials slower: the seconds of 24 trials of one process would count 24 times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.names import HOST, SECONDS, host_of

_NEEDED = (HOST, "timestamp", "time_this_iter_s")
# Results say when they were made in whole seconds, so iterations less apart follow each other.
_RESOLUTION_S = 1.0


def shares_of_time(frames: Mapping[str, pd.DataFrame]) -> dict[str, np.ndarray]:
    """Return which part of each iteration's seconds is the trial's own, by trial id.

    While n trials of a process are under way each has 1/n of the time. So the seconds of all trials
    of a process sum up to those that it trained.

    Args:
        frames: The rows of all trials of a sweep, by trial id.

    Returns:
        `[iterations]` of each trial that shared a process in one of them, from 0 to 1; others are
        left out.
    """
    shares: dict[str, np.ndarray] = {}
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
        for (trial, row), value in zip(rows[["trial", "row"]].to_numpy(), share, strict=True):
            shares.setdefault(trial, np.ones(len(frames[trial])))[row] = value
    return shares


def _iterations(frames: Mapping[str, pd.DataFrame]) -> dict[int, pd.DataFrame]:
    """Return the iterations of each process: the `trial`, its `row`, `start` and `end`."""
    found: dict[int, list[pd.DataFrame]] = defaultdict(list)
    for trial, frame in frames.items():
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
                        "trial": trial,
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
