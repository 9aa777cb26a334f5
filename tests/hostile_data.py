"""Read many hostile data files, each in bounded memory and time: `python tests/hostile_data.py`.

A file may be read, or refused by one `ConfigError` of one line. Anything else is a fault, which is
printed with the seed that makes the file again: another exception, too much memory or time, a
process that dies. The exit status is 1 if there are any. It is run by hand, with new seeds.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from episode_files import batch, written
from offline_fakes import CARTPOLE, random_episodes

from trainables.core.errors import ConfigError
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.packed_columns import pack

MOST_MEMORY = 3 * 2**30  # of the process: three times what may be in memory at once, and libraries
MOST_SECONDS = 20  # of the processor, for a file
Make = Callable[[random.Random, Path], Any]


def value(rng: random.Random, depth: int = 0) -> Any:
    """Any value that JSON has, most of them where none of that kind belongs."""
    plain: list[Any] = [
        *(None, True, [], {}, "", "x", "é\u0000", 0, -1, 1.5, 2**31, 2**63, 2**80, -(2**70)),
        *(float("nan"), float("inf"), [None], [[]], [{}], {"": []}, {"a": None}, [[[[[1]]]]]),
        *(
            [0] * 4,
            [0.5] * 4,
            [True] * 4,
            ["a"] * 4,
            [[1, 2, 3, 4]] * 4,
            [[1], [1, 2]],
            [2**64] * 4,
        ),
        *({"a": [1] * 4}, {"a": {"b": [[1]] * 4}}, {"a/b": [1] * 4}, "A" * 1000, [[0.0] * 300] * 4),
    ]
    kind = rng.random()
    if kind < 0.75 or depth > 3:
        return rng.choice(plain)
    if kind < 0.85:
        return [value(rng, depth + 1) for _ in range(rng.choice([1, 4, 4, 9]))]
    if kind < 0.92:
        return {rng.choice(["a", "obs", "0", ""]): value(rng, depth + 1) for _ in range(3)}
    array = rng.choice(
        [np.zeros(4), np.zeros((4, 4)), np.zeros((4, 10**6)), np.arange(4.0) * np.nan]
    )
    text = pack(rng.choice([array, [array] * 3, {"x": array}]))
    return text if rng.random() < 0.7 else text[: rng.randrange(len(text))]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes of which some are others, are gone, or come many times."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 6, 30])):
        at, kind = rng.randrange(len(made) + 1), rng.random()
        if kind < 0.5 and at < len(made):
            made[at] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        elif kind < 0.75:
            del made[at : at + rng.choice([1, 4, 64])]
        else:
            made[at:at] = made[max(0, at - 20) : at] * rng.choice([1, 3, 2000])
    return bytes(made[: rng.randrange(len(made) + 1)] if rng.random() < 0.15 else made)


def json_text(rng: random.Random) -> bytes:
    lines = []
    for _ in range(rng.choice([1, 2, 5])):
        line: Any = batch(rng.choice([1, 4, 4, 50]))
        for _ in range(rng.choice([0, 1, 1, 3])):
            line[rng.choice([*line, "obs/a", "obs/b", "actions/0", "action_logp"])] = value(rng)
        if rng.random() < 0.1:
            line = {"type": "MultiAgentBatch", "policy_batches": {"p": line, "q": value(rng)}}
        lines.append(json.dumps(line if rng.random() < 0.95 else value(rng)))
    text = "\n".join(lines).encode()
    return damaged(text, rng) if rng.random() < 0.3 else text


def json_file(rng: random.Random, folder: Path) -> Any:
    (folder / "a.json").write_bytes(json_text(rng))
    return folder / "a.json"


def gz_file(rng: random.Random, folder: Path) -> Any:
    text = json_text(rng)
    if rng.random() < 0.3:
        unit = rng.choice([b"\n", b" ", b"[", b"0", b"[],", text + b"\n"])
        text = unit * (rng.choice([2**16, 2**27]) // len(unit))
    data = gzip.compress(text, rng.choice([1, 6]))
    data = data * rng.choice([1, 1, 1, 200]) if len(data) < 2**20 else data
    (folder / "a.json.gz").write_bytes(damaged(data, rng) if rng.random() < 0.3 else data)
    return folder / "a.json.gz"


def column(rng: random.Random, count: int) -> pa.Array:
    """A column of any type, also one that takes a few bytes for any number of rows."""
    whole = pa.array(np.arange(count) % 3)
    nested = pa.array([[0.0] * rng.choice([0, 1, 4, 2000])] * count, pa.list_(pa.float32()))
    made: list[Callable[[], pa.Array]] = [
        lambda: whole,
        lambda: pa.array(np.zeros(count)),
        lambda: pa.array(np.arange(count) % 2 == 0),
        lambda: pa.nulls(count),
        lambda: pa.array([None, *([1.5] * (count - 1))]),
        lambda: pa.array(np.full(count, 2**64 - 1, np.uint64)),
        lambda: whole.cast(rng.choice([pa.int8(), pa.uint16(), pa.float32(), pa.float16()])),
        lambda: whole.cast(rng.choice([pa.timestamp("ns"), pa.duration("s"), pa.time64("us")])),
        lambda: pa.array(["x" * rng.choice([0, 3, 10**5])] * count),
        lambda: pa.array([b"\xff" * rng.choice([0, 4, 10**5])] * count),
        lambda: pa.array([bytes(16)] * count, pa.binary(16)),
        lambda: pa.array([pack(np.zeros(rng.choice([4, 10**5])))] * count),
        lambda: nested,
        lambda: pa.array([[[[1.0]]]] * count),
        lambda: pa.array([["a"]] * count),
        lambda: pa.array([{"a": 1, "b": [1.0]}] * count),
        lambda: pa.array([[("a", 1)]] * count, pa.map_(pa.string(), pa.int64())),
        lambda: pa.array(["a", "b"] * (count // 2) + ["c"] * (count % 2)).dictionary_encode(),
        lambda: whole.cast(pa.decimal128(25, 2)),
    ]
    return rng.choice(made)()


def parquet_file(rng: random.Random, folder: Path) -> Any:
    count = rng.choice([1, 7, 7, 100, 3000])
    obs = pa.array([[0.5, 1.0, 0.0, -1.0]], pa.list_(pa.float32())).take(np.zeros(count, int))
    columns: dict[str, Any] = {
        "obs": obs,
        "action": np.zeros(count, np.int64),
        "reward": np.zeros(count, np.float32),
        "terminated": np.arange(count) % 7 == 6,
        "episode_id": pa.array([f"e{row // 7}" for row in range(count)]),
    }
    names = [
        *columns,
        "truncated",
        "t",
        "logp",
        "next_obs",
        "agent_id",
        "module_id",
        "obs/a",
        "item",
    ]
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        name = rng.choice(names)
        columns[name] = column(rng, count)
        if "/" in name:
            columns.pop("obs", None)
    table = pa.table(columns if rng.random() < 0.95 else {"item": column(rng, count)})
    if rng.random() < 0.3:
        stated = rng.choice(["{", "[]", json.dumps(value(rng)), '{"format": 1}'])
        table = table.replace_schema_metadata({"tunescape": stated})
    codec = rng.choice(["snappy", "zstd", "gzip", "brotli", "lz4", "none"])
    pq.write_table(
        table, folder / "a.parquet", compression=codec, use_dictionary=rng.random() < 0.7
    )
    if rng.random() < 0.5:
        data = (folder / "a.parquet").read_bytes()
        at = len(data) - rng.choice([0, 8, 8 + int.from_bytes(data[-8:-4], "little")])
        harmed = damaged(data[at:] or b"\0", rng) if rng.random() < 0.5 else damaged(data[:at], rng)
        whole = data[:at] + harmed if rng.random() < 0.5 else harmed + data[at:]
        (folder / "a.parquet").write_bytes(whole)
    return folder / "a.parquet"


def hdf5_file(rng: random.Random, folder: Path) -> Any:
    import h5py

    set_ = folder / "some-v0"
    written(set_, random_episodes(CARTPOLE, [3, 5]), CARTPOLE, format="minari")
    path = set_ / "data" / "main_data.hdf5"
    with h5py.File(path, "r+") as file:
        for _ in range(rng.choice([0, 1, 1, 2])):
            group = file[f"episode_{rng.randrange(2)}"]
            name = rng.choice(["observations", "actions", "rewards", "terminations", "infos"])
            group.pop(name, None)
            _put(group, name, rng)
    for file_, share in ((path, 0.4), (set_ / "data" / "metadata.json", 0.3)):
        if rng.random() < share:
            file_.write_bytes(damaged(file_.read_bytes(), rng))
    if rng.random() < 0.2:
        path = set_ / "data" / "metadata.json"
        with suppress(ValueError, IndexError, TypeError, AttributeError):  # damaged before
            noted = json.loads(path.read_text())
            noted[rng.choice([*noted])] = value(rng)
            path.write_text(json.dumps(noted))
    return f"minari:{set_}"


def _put(group: Any, name: str, rng: random.Random) -> None:
    import h5py

    shape = rng.choice([(4, 4), (3,), (), (0,), (4, 10**4), (10**9,), (10**5, 10**5), (2**40, 4)])
    dtype = rng.choice(
        ["f4", "f8", "i8", "u1", "S5", "bool", h5py.string_dtype(), h5py.vlen_dtype("u1")]
    )
    chunks = True if shape and all(shape) else None
    made: list[Callable[[], Any]] = [
        lambda: group.create_dataset(name, shape, dtype, chunks=chunks),
        lambda: group.create_dataset(
            name, shape, dtype, chunks=chunks, compression=chunks and "gzip"
        ),
        lambda: group.create_dataset(name, (4, 4), "f4", external=[("/etc/passwd", 0, 64)]),
        lambda: group.create_dataset(name, (4, 4), "f4", chunks=(2**27, 4), maxshape=(None, 4)),
        lambda: group.__setitem__(name, h5py.SoftLink("/")),
        lambda: group.__setitem__(name, h5py.ExternalLink("/etc/passwd", "/x")),
        lambda: group.__setitem__(name, group.parent),
        lambda: group.create_group(name).create_dataset("x", data=[1, 2]),
        lambda: group.attrs.__setitem__("id", np.zeros(1000)),
        lambda: None,
    ]
    with suppress(ValueError, TypeError, OSError, RuntimeError):  # what HDF5 itself refuses
        rng.choice(made)()


def csv_file(rng: random.Random, folder: Path) -> Any:
    names = ["obs/a", "obs/b", "action", "reward", "done", rng.choice(["t", "episode_id", "x", ""])]
    cells = [
        "0",
        "1",
        "0",
        "1",
        "1.5",
        "-1",
        "",
        "x",
        "nan",
        "inf",
        "1e400",
        '"',
        "9" * 30,
        "true",
        "é",
    ]
    rare = rng.random() ** 3
    rows = [
        [rng.choice(cells) if rng.random() < rare else "01"[row % 2] for _ in names]
        for row in range(rng.choice([0, 1, 20, 3000]))
    ]
    text = "\n".join(",".join(row) for row in [names, *rows]).encode()
    (folder / "a.csv").write_bytes(damaged(text, rng) if rng.random() < 0.5 else text)
    return folder / "a.csv"


def cache_notes(rng: random.Random, folder: Path) -> Any:
    path = written(folder / "good", random_episodes(CARTPOLE, [3, 5]), CARTPOLE)
    made = load_data_set(find_source(path), cache=folder / "cache").folder
    for _ in range(rng.choice([1, 1, 2])):
        victim = rng.choice([made / "contents.json", rng.choice(sorted(made.iterdir()))])
        noted = (
            json.loads((made / "contents.json").read_text()) if victim.suffix == ".json" else None
        )
        if isinstance(noted, dict) and isinstance(noted.get("noted"), dict) and rng.random() < 0.6:
            key = rng.choice([*noted["noted"], "x"])
            noted["noted"][key] = value(rng)
            victim.write_text(json.dumps(rng.choice([noted, {**noted, "noted": value(rng)}])))
            break
        victim.write_bytes(damaged(victim.read_bytes() or b"0", rng))
        break
    return path


KINDS: dict[str, Make] = {
    "json": json_file,
    "gz": gz_file,
    "parquet": parquet_file,
    "hdf5": hdf5_file,
    "csv": csv_file,
    "cache": cache_notes,
}


def outcome(kind: str, seed: str) -> dict[str, Any]:
    """What reading a file comes to, in how much time and memory."""
    rng, folder = random.Random(seed), Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        item = KINDS[kind](rng, folder)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = _kilobytes("VmHWM"), time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        try:
            spaces = CARTPOLE if rng.random() < 0.5 else None
            source = find_source(item)
            if rng.random() < 0.2:
                source.agents()
            load_data_set(source, spaces, folder / "cache")
            found = "data"
        except ConfigError as error:
            found = "error" if "\n" not in str(error) else f"an error of lines: {error}"
        except BaseException:
            found = traceback.format_exc(limit=-4)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        used = (_kilobytes("VmHWM") - before) / 1024
        return {"found": found, "seconds": time.process_time() - start, "megabytes": used}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _kilobytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])


def in_a_child(jobs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The outcomes of some files, of which the last one may have ended the process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        limit = _kilobytes("VmSize") * 1024 + MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with os.fdopen(writing, "w") as stream:
            for kind, seed in jobs:
                signal.alarm(6 * MOST_SECONDS)
                print(json.dumps(outcome(kind, seed)), file=stream, flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        found = [json.loads(line) for line in stream]
    _, status = os.waitpid(child, 0)
    if len(found) < len(jobs):
        died = f"the process died, status {status}"
        found.append({"found": died, "seconds": 0.0, "megabytes": 0.0})
    return found


def main() -> None:
    """Make and read the files, and tell what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--files", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()

    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {MOST_SECONDS} s of the processor")

    signal.signal(signal.SIGVTALRM, late)
    pa.set_cpu_count(1)
    kinds = [*KINDS]
    jobs = [(kinds[n % len(kinds)], f"{options.seed}-{n}") for n in range(options.files)]
    counts: dict[str, collections.Counter[str]] = {kind: collections.Counter() for kind in kinds}
    most: dict[str, list[float]] = {kind: [0.0, 0.0] for kind in kinds}
    left, faults = jobs, 0
    while left:
        found = in_a_child(left[:60])
        for (kind, seed), each in zip(left, found, strict=False):
            word = each["found"] if each["found"] in ("data", "error") else "fault"
            counts[kind][word] += 1
            most[kind] = [*map(max, most[kind], (each["seconds"], each["megabytes"]))]
            if word == "fault":
                faults += 1
                print(f"--- {kind} {seed}: {each['found']}", flush=True)
        left = left[len(found) :]
    print(f"seed {options.seed}, {options.files} files")
    for kind in kinds:
        seconds, megabytes = most[kind]
        print(f"{kind:8} {dict(counts[kind])}, at most {seconds:.1f} s and {megabytes:.0f} MB each")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
