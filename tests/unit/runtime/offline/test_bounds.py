"""Files of few bytes that stand for many: one error, in bounded memory and time."""

from __future__ import annotations

import gzip
import json
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from episode_files import batch, written
from offline_fakes import CARTPOLE, random_episodes
from refusals import Golden, refusals
from test_packed_columns import packed

from trainables.runtime.offline import bounds, packed_columns
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.formats import arrow_values
from trainables.runtime.offline.inputs import find_source

MOST = 2**22
ROWS = 2**20


def packed_side_by_side(folder: Path) -> Path:
    """Each column is within the bound, all of them are not."""
    obs = {f"obs/{number}": packed(np.zeros((4, 2**15))) for number in range(12)}
    (folder / "a.json").write_text(json.dumps({**batch(obs=None), **obs}))
    return folder / "a.json"


def blank_lines(folder: Path) -> Path:
    (folder / "a.json.gz").write_bytes(gzip.compress(b"\n" * (3 * MOST)))
    return folder / "a.json.gz"


def many_columns(folder: Path) -> Path:
    leaves = {f"obs/{number}": [1] * 4 for number in range(5000)}
    (folder / "a.json").write_text(json.dumps({**batch(obs=None), **leaves}))
    return folder / "a.json"


def many_leaves(folder: Path) -> Path:
    leaves = {str(number): [1] * 4 for number in range(5000)}
    (folder / "a.json").write_text(json.dumps(batch(obs=leaves, new_obs=None)))
    return folder / "a.json"


def table(folder: Path, **columns: Any) -> Path:
    """A Parquet file of CartPole's columns, of which some are others."""
    count = len(next(iter(columns.values()), ()))
    plain: dict[str, Any] = {
        "obs": pa.array([[0.0] * 4] * 4, pa.list_(pa.float32())).take(np.zeros(count, int)),
        "action": np.zeros(count, np.int64),
        "reward": np.zeros(count, np.float32),
        "terminated": np.arange(count) % 8 == 7,
    }
    pq.write_table(pa.table({**plain, **columns}), folder / "a.parquet", compression="zstd")
    return folder / "a.parquet"


def many_rows(folder: Path) -> Path:
    """Equal numbers take no place in a page, however many there are."""
    return table(folder, action=np.zeros(ROWS, np.int64))


def long_lists(folder: Path) -> Path:
    return table(folder, obs=pa.array([[0.0] * ROWS] * 2, pa.list_(pa.float64())))


def lists_that_the_footer_denies(folder: Path) -> Path:
    """The same, with a footer that says there is one number."""
    path = long_lists(folder)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    many, one = b"\x80\x80\x80\x02", b"\x82\x80\x80\x00"  # integers of Thrift, zigzag
    assert many in data[footer:]
    path.write_bytes(data[:footer] + data[footer:].replace(many, one))
    return path


def long_text(count: int) -> pa.Array:
    """A text in all rows, which a page holds once."""
    return pa.array(["x" * (MOST // 8)] * count)


def text_of_episodes(folder: Path) -> Path:
    return table(folder, episode_id=long_text(40))


def text_of_observations(folder: Path) -> Path:
    return table(folder, obs=long_text(40))


def fixed_bytes(folder: Path) -> Path:
    return table(folder, obs=pa.array([bytes(MOST // 8)] * 40, pa.binary(MOST // 8)))


def wide_table(folder: Path) -> Path:
    return table(folder, **{f"obs/{number}": np.zeros(4) for number in range(5000)})


BOMBS: list[Callable[[Path], Path]] = [
    *(packed_side_by_side, blank_lines, many_columns, many_leaves),
    *(many_rows, long_lists, lists_that_the_footer_denies, fixed_bytes),
    *(text_of_episodes, text_of_observations, wide_table),
]


def test_few_bytes_that_stand_for_many_are_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    for module in (bounds, packed_columns, arrow_values):
        monkeypatch.setattr(module, "MOST_BYTES", MOST)
    pool = pa.default_memory_pool()

    def load(make: Callable[[Path], Path]) -> None:
        (tmp_path / make.__name__).mkdir()
        path = make(tmp_path / make.__name__)
        assert path.stat().st_size < 2**21
        before, start = pool.bytes_allocated(), time.process_time()
        tracemalloc.start()
        try:
            load_data_set(find_source(path), cache=tmp_path / "cache")
        finally:
            assert tracemalloc.get_traced_memory()[1] < 8 * MOST, make.__name__
            tracemalloc.stop()
            assert pool.bytes_allocated() - before < 8 * MOST, make.__name__
            assert time.process_time() - start < 5, make.__name__

    texts = refusals(load, {make.__name__: make for make in BOMBS}, DataError)
    size = re.compile(r"(of a file of )[\d,]+")
    golden(
        "bad_data/bounds",
        {
            case: size.sub(r"\1<size>", text.replace(str(tmp_path / case), "<folder>"))
            for case, text in texts.items()
        },
    )


def test_a_real_recording_is_far_below(tmp_path: Path) -> None:
    """Constant data, which compress as nothing else does."""
    frames = random_episodes(CARTPOLE, [200] * 5)
    for episode in frames:
        episode.obs[:] = 0
        episode.actions[:] = 0
    for format_ in ("parquet", "json"):
        folder = written(tmp_path / format_, frames, CARTPOLE, format=format_)
        assert load_data_set(find_source(folder), cache=tmp_path / "cache").num_steps == 1000


def test_the_line_of_a_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.runtime.offline.formats.json_file.MOST_LINE_BYTES", 100)
    (tmp_path / "a.json").write_text(json.dumps(batch()))
    with pytest.raises(DataError, match=r"a\.json, line 1: it has more than 100 bytes"):
        load_data_set(find_source(tmp_path / "a.json"), cache=tmp_path / "cache")
