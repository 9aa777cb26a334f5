"""A writer that is killed leaves whole files, and what readers pass over."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from offline_fakes import CARTPOLE, random_episodes

from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.whole_files import WholeFile
from trainables.runtime.offline.writers import make_writer

WRITES_FOREVER = """
import sys
from offline_fakes import CARTPOLE, random_episodes
from trainables.runtime.offline.writers import make_writer

writer = make_writer(sys.argv[1], CARTPOLE, max_file_size=20_000)
seed = 0
while True:
    for episode in random_episodes(CARTPOLE, [20] * 10, seed):
        writer.write(episode)
    seed += 1
"""


@pytest.mark.full("test_a_file_is_not_seen_until_it_is_whole")
def test_a_killed_writer_leaves_whole_files(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    tests = Path(__file__).parents[3]
    process = subprocess.Popen([sys.executable, "-c", WRITES_FOREVER, str(folder)], cwd=tests)
    try:
        for _ in range(1200):
            if len([*folder.glob("*.parquet")]) >= 3 and [*folder.glob(".*.part")]:
                break
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    files = sorted(folder.glob("*.parquet"))
    assert len(files) >= 3
    rows = sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    episodes = [*find_source(folder).episodes(CARTPOLE)]
    assert sum(map(len, episodes)) == rows
    # Another writer goes on beside what is left.
    writer = make_writer(folder, CARTPOLE)
    writer.write(random_episodes(CARTPOLE, [7], seed=10**6)[0])
    writer.close()
    assert sum(map(len, find_source(folder).episodes(CARTPOLE))) == rows + 7
    assert {*files} < {*folder.glob("*.parquet")}


def test_a_file_is_not_seen_until_it_is_whole(tmp_path: Path) -> None:
    file = WholeFile(tmp_path, "data", ".parquet")
    file.stream.write(b"half")
    file.stream.flush()
    assert not [*tmp_path.glob("*.parquet")]
    with pytest.raises(DataError, match="the folder has no files of data"):
        find_source(tmp_path)
    file.close()
    assert Path(file.path).read_bytes() == b"half"


def test_a_discarded_file_leaves_nothing(tmp_path: Path) -> None:
    WholeFile(tmp_path, "data", ".parquet").discard()
    assert not [*tmp_path.iterdir()]


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    files = [WholeFile(tmp_path, "data", ".parquet") for _ in range(3)]
    for file in files:
        file.close()
    assert len({file.path for file in files}) == len([*tmp_path.iterdir()]) == 3
