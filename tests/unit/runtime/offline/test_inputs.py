"""What `input_` may name: files, folders, globs, lists, URLs; and what their digests say."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow.fs as pa_fs
import pytest
from offline_fakes import CARTPOLE, random_episodes

from trainables.core.errors import ConfigError
from trainables.runtime.offline import filesystems
from trainables.runtime.offline.digests import digest_of
from trainables.runtime.offline.episode import DataError
from trainables.runtime.offline.file_set import FileSet
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.locating import located
from trainables.runtime.offline.writers import make_writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of data, of something else, and of what is not whole."""
    for name in (
        "b/data-1.parquet",
        "a.parquet",
        "b/.data-2.parquet.part",
        "b/_SUCCESS",
        ".hidden/c.parquet",
        "README.md",
    ):
        file = tmp_path / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    return tmp_path / "data"


def names(item: Any, folder: Path, **config: Any) -> list[str]:
    """The files of a source, as seen from a folder."""
    return [os.path.relpath(file, folder) for file in find_source(item, config).files]


def test_a_folder_stands_for_all_data_in_it(folder: Path) -> None:
    assert names(str(folder), folder) == ["a.parquet", "b/data-1.parquet"]
    assert names(folder, folder) == ["a.parquet", "b/data-1.parquet"]


def test_globs_files_and_lists(folder: Path) -> None:
    assert names(f"{folder}/*.parquet", folder) == ["a.parquet"]
    assert names(f"{folder}/**/*.parquet", folder) == ["a.parquet", "b/data-1.parquet"]
    assert names(str(folder / "a.parquet"), folder) == ["a.parquet"]
    both = [str(folder / "b"), str(folder / "a.parquet")]
    assert names(both, folder) == ["b/data-1.parquet", "a.parquet"]


def test_links_that_lead_in_a_circle(folder: Path) -> None:
    """Two of them: with each level twice as many paths lead to the same file."""
    for name in ("one", "other"):
        (folder / name).symlink_to(".")
    assert names(f"{folder}/**/*.parquet", folder) == ["a.parquet", "b/data-1.parquet"]
    assert names(f"{folder}/**/data-?.parquet", folder) == ["b/data-1.parquet"]
    assert names(folder, folder) == ["a.parquet", "b/data-1.parquet"]
    (folder / "self.parquet").symlink_to("self.parquet")
    with pytest.raises(DataError, match=r"self\.parquet: there is no such file or folder"):
        find_source(folder / "self.parquet")
    with pytest.raises(
        DataError, match=r"self\.parquet: is no regular file, but .* a link to noth"
    ):
        find_source(folder)


def test_a_name_that_is_no_text(folder: Path) -> None:
    (folder / os.fsdecode(b"\xff.parquet")).write_bytes(b"")
    with pytest.raises(DataError, match=r"\\udcff\.parquet': the name is no UTF-8"):
        find_source(folder)


def test_a_file_whose_name_has_the_signs_of_a_glob(folder: Path) -> None:
    (folder / "run[1].parquet").write_bytes(b"")
    assert names(str(folder / "run[1].parquet"), folder) == ["run[1].parquet"]


def test_urls_of_local_files(folder: Path) -> None:
    assert names(f"file://{folder}", folder) == ["a.parquet", "b/data-1.parquet"]
    spaced = folder / "with space"
    spaced.mkdir()
    (spaced / "x.parquet").write_bytes(b"")
    assert names(f"file://{folder}/with%20space", folder) == ["with space/x.parquet"]
    mixed = [f"file://{folder}/b", str(folder / "a.parquet")]
    assert names(mixed, folder) == ["b/data-1.parquet", "a.parquet"]


def test_paths_are_absolute_and_know_the_home_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    [file] = find_source("data/*.parquet").files
    assert file == str(folder / "a.parquet")
    monkeypatch.chdir(folder)  # as Tune has a trial work in a folder of its own
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(folder.parent))
    [file] = find_source("data/*.parquet").files
    assert file == str(folder / "a.parquet")
    monkeypatch.setenv("HOME", str(folder.parent))
    assert names("~/data/b", folder) == ["b/data-1.parquet"]


def test_the_reference_names_files_in_input_config(folder: Path) -> None:
    assert names("dataset", folder, path=str(folder / "b")) == ["b/data-1.parquet"]
    assert names("dataset", folder, paths=[str(folder / "b")]) == ["b/data-1.parquet"]
    with pytest.raises(ConfigError, match="'dataset' needs input_config"):
        find_source("dataset")


def test_a_format_that_names_do_not_tell(folder: Path) -> None:
    (folder / "b" / "steps.dat").write_bytes(b"")
    dat = str(folder / "b" / "steps.dat")
    assert names(dat, folder, format="parquet") == ["b/steps.dat"]


def test_of_files_of_several_formats_those_of_one_are_chosen(folder: Path) -> None:
    (folder / "b" / "more.json").write_bytes(b"")
    assert names(folder, folder, format="json") == ["b/more.json"]


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_named_and_not_read(folder: Path, put: Any) -> None:
    put(folder / "b" / "endless.parquet")
    with pytest.raises(DataError, match=r"b/endless\.parquet: is no regular file"):
        find_source(str(folder))


def test_a_folder_of_too_many_files_is_no_data(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainables.runtime.offline.locating._MOST_FILES", 1)
    with pytest.raises(DataError, match="the folder has more than 1 files; allowed: a folder of"):
        find_source(str(folder))


def test_an_unreachable_store_is_given_up_and_named() -> None:
    config = {"filesystem": {"endpoint_override": "127.0.0.1:1", "scheme": "http"}}
    with pytest.raises(DataError, match="s3://bucket/data cannot be reached"):
        find_source("s3://bucket/data", config)


def test_a_store_that_does_not_answer_is_given_up_in_time() -> None:
    start = time.monotonic()
    with pytest.raises(DataError, match=r"x cannot be reached: no answer within 0.1 s"):
        filesystems.within(0.1, "x", lambda: time.sleep(5))
    assert time.monotonic() - start < 4


def test_keys_of_other_sources_pass_where_there_are_some(folder: Path) -> None:
    assert find_source(folder, {"mine": 3}, other_keys=True).files


# ---------------------------------------------------------------------- filesystems


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of objects, reached by URL, that has the folder as its bucket."""
    made = pa_fs.SubTreeFileSystem(str(folder.parent), pa_fs.LocalFileSystem())

    def reach(url: str, options: Any = None, limit: float = 1) -> tuple[Any, str]:
        return made, url.partition("://")[2]

    monkeypatch.setattr("trainables.runtime.offline.locating.filesystem_of", reach)
    monkeypatch.setattr("trainables.runtime.offline.writers.filesystem_of", reach)
    return folder


def test_remote_files(store: Path) -> None:
    first, second = "s3://data/a.parquet", "s3://data/b/data-1.parquet"
    for item, expected in {
        "s3://data": [first, second],
        "s3://data/": [first, second],
        "s3://data/a.parquet": [first],
        "s3://data/*.parquet": [first],
        "s3://data/**/*.parquet": [first, second],
        "s3://data/b/data-[0-9].parquet": [second],
        "s3://data/?.parquet": [first],
    }.items():
        files, found = located([item], None, {})
        assert (list(files.files), found) == (expected, "parquet"), item
    with pytest.raises(DataError, match="no file matches"):
        located(["s3://data/b/data-[!0-9].parquet"], None, {})
    with pytest.raises(DataError, match="s3://data/no cannot be reached: there is no such file"):
        located(["s3://data/no"], None, {})


def test_remote_files_are_written_whole_and_read(store: Path) -> None:
    episodes = random_episodes(CARTPOLE, [5, 6])
    writer = make_writer("s3://data/new", CARTPOLE, max_file_size=1)
    for episode in episodes:
        writer.write(episode)
    writer.close()
    assert sorted(file.name for file in (store / "new").iterdir()) == [
        "data-000000.parquet",
        "data-000001.parquet",
    ]
    source = find_source("s3://data/new")
    assert source.files[0] == "s3://data/new/data-000000.parquet"
    found = list(source.episodes(CARTPOLE))
    assert [one.obs.tobytes() for one in found] == [one.obs.tobytes() for one in episodes]
    before = source.digest()
    assert find_source("s3://data/new").digest() == before
    later = make_writer("s3://data/new", CARTPOLE)
    later.write(episodes[0])
    later.close()
    assert find_source("s3://data/new").digest() != before


# ---------------------------------------------------------------------- digests


PAST = time.time() - 100


@pytest.fixture
def a_while_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files were written a while ago: nobody can set back when they changed."""
    now = time.time
    monkeypatch.setattr("trainables.runtime.offline.digests.time.time", lambda: now() + 100)


def old_file(path: Path, text: str) -> FileSet:
    """A file that says it was modified at a certain time in the past."""
    path.write_text(text)
    os.utime(path, (PAST, PAST))
    return FileSet(str(path), [str(path)])


@pytest.mark.usefixtures("a_while_later")
def test_a_digest_is_of_the_contents(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    first = digest_of(old_file(tmp_path / "x", "some"), memory)
    assert digest_of(old_file(tmp_path / "y", "some"), memory) == first
    assert digest_of(old_file(tmp_path / "x", "same"), memory) != first
    os.utime(tmp_path / "y")  # touched, not changed
    assert digest_of(FileSet("y", [str(tmp_path / "y")]), memory) == first
    both = [str(tmp_path / "x"), str(tmp_path / "y")]
    assert digest_of(FileSet("", both), memory) != digest_of(FileSet("", both[::-1]), memory)


@pytest.mark.usefixtures("a_while_later")
def test_a_digest_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, memory = old_file(tmp_path / "x", "some"), tmp_path / "memory"
    first = digest_of(files, memory)
    monkeypatch.setattr("hashlib.file_digest", None)
    assert digest_of(files, memory) == first


def test_a_file_that_was_just_written_is_read_again(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    (tmp_path / "x").write_text("some")
    digest_of(FileSet("x", [str(tmp_path / "x")]), memory)
    assert not memory.exists()


@pytest.mark.usefixtures("a_while_later")
def test_a_file_rewritten_in_place_with_its_size_and_times_is_read_again(tmp_path: Path) -> None:
    memory, path = tmp_path / "memory", tmp_path / "x"
    first = digest_of(old_file(path, "some"), memory)
    before = path.stat()
    again = digest_of(old_file(path, "same"), memory)
    after = path.stat()
    for name in ("st_ino", "st_size", "st_mtime_ns"):
        assert getattr(after, name) == getattr(before, name)
    assert again != first


@pytest.mark.usefixtures("a_while_later")
def test_damaged_memory_is_passed_over(tmp_path: Path) -> None:
    files, memory = old_file(tmp_path / "x", "some"), tmp_path / "memory"
    first = digest_of(files, memory)
    [note] = memory.iterdir()
    note.write_text("{")
    assert digest_of(files, memory) == first
