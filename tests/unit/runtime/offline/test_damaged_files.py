"""Files whose bytes were changed at random: a `DataError`, or data that can be learned from."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from episode_files import written
from offline_fakes import CARTPOLE, random_episodes

from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.episode_checks import EpisodeCheck
from trainables.runtime.offline.inputs import find_source

TRIES = 150
SECONDS = 20  # for one file: what a damaged size could make reading take


@pytest.mark.parametrize(
    ("format_", "options"),
    [
        ("parquet", {}),
        ("parquet", {"compress_columns": ["obs", "actions", "rewards"]}),
        ("json", {}),
        ("json", {"compress_columns": ["obs", "new_obs", "actions"]}),
    ],
)
def test_damage_is_found_or_does_no_harm(
    format_: str, options: dict[str, Any], tmp_path: Path
) -> None:
    folder = written(
        tmp_path / "good", random_episodes(CARTPOLE, [6, 9]), CARTPOLE, format=format_, **options
    )
    [file] = folder.glob(f"*.{format_}")
    good, rng = file.read_bytes(), random.Random(0)
    found: dict[str, int] = {"error": 0, "data": 0}
    for number in range(TRIES):
        file.write_bytes(damaged(good, rng))
        with limited(SECONDS, f"file {number}"):
            found[outcome(folder)] += 1
    assert found["error"] > TRIES // 10  # the damage is such that it can be found


def outcome(folder: Path) -> str:
    """What reading a folder comes to; anything but data that fit, or a DataError, is raised."""
    try:
        source = find_source(folder)
        spaces = source.spaces() or source.infer_spaces()
        check = EpisodeCheck(spaces)
        for episode in source.episodes(spaces):
            check(episode)
            assert np.isfinite(episode.rewards).all()
    except DataError as error:
        assert "\n" not in str(error)
        return "error"
    return "data"


def damaged(good: bytes, rng: random.Random) -> bytes:
    """Bytes of which some are others, are gone, or come twice."""
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(data))
        kind = rng.random()
        if kind < 0.6:
            data[at] = rng.randrange(256)
        elif kind < 0.75:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.9:
            del data[at : at + rng.choice([1, 4, 64])]
        else:
            data[at:at] = data[at : at + rng.choice([1, 8, 200])]
    if rng.random() < 0.15:
        del data[rng.randrange(1, len(data)) :]
    return bytes(data)


@contextmanager
def limited(seconds: int, what: str) -> Iterator[None]:
    """Fail after so many seconds of the processor's time."""

    def late(*_: Any) -> None:
        raise AssertionError(f"{what} takes more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
