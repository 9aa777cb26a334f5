"""Fragments of several env runners side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from replay_cases import Stream

from trainables.core.data.batch import Rollout
from trainables.runtime.sampling.group import Sample
from trainables.runtime.sampling.remote_group import RemoteEnvRunnerGroup
from trainables.runtime.sampling.sampling_worker import Episodes


class Samples(RemoteEnvRunnerGroup):
    """Two env runners with one agent each, of which one may have nothing to tell."""

    num_env_runners = 2

    def __init__(self) -> None:
        self._policies: Any = {"m": None}
        self._widths, self.streams = {}, [Stream(1, np.random.default_rng(i)) for i in range(2)]
        for stream in self.streams:
            stream.length[:] = 100

    def _sample_each(self) -> list[Sample]:
        parts: list[dict[str, Rollout]] = [
            {"m": stream.rollout(length)} if length else {}
            for stream, length in zip(self.streams, self.lengths, strict=True)
        ]
        return [Sample(i, 1, Episodes(), 0, part) for i, part in enumerate(parts, 1)]

    def next(self, *lengths: int) -> Rollout:
        self.lengths = lengths
        return self.sample(all_columns=True)[0]["m"]


def test_env_runners_whose_agents_all_wait_keep_their_place() -> None:
    group = Samples()
    group.next(1, 1)
    for lengths in ((0, 1), (1, 0)):
        rollout = group.next(*lengths)
        assert rollout.lengths is not None and rollout.lengths.tolist() == [*lengths]
        assert rollout.follows.all() and rollout.valid[0].tolist() == [*map(bool, lengths)]
    assert group.next(1, 1).lengths is None
