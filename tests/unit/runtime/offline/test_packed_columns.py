"""Packed columns are read as unpickling would read them, and nothing in them is ever run."""

from __future__ import annotations

import base64
import os
import pickle
import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trainables.runtime.offline import bounds
from trainables.runtime.offline.packed_columns import PackedColumnError, pack, unpack

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
RNG = np.random.default_rng(0)
ARRAYS = {
    "floats": RNG.normal(size=(3, 4)).astype(np.float32),
    "doubles": RNG.normal(size=7),
    "integers": np.arange(5),
    "booleans": np.array([True, False]),
    "image": RNG.integers(0, 255, (2, 4, 4, 3), dtype=np.uint8),
    "column order": np.asfortranarray(RNG.normal(size=(3, 4))),
    "not contiguous": RNG.normal(size=(6, 4))[::2],
    "big-endian": np.arange(4, dtype=">i4"),
    "no rows": np.zeros((0, 3)),
    "one number": np.array(3.0),
}


def packed(thing: Any, protocol: int = 4) -> str:
    """A thing as RLlib packs it, by pickle."""
    return framed(pickle.dumps(thing, protocol=protocol))


def framed(data: bytes) -> str:
    """Bytes, compressed and made text."""
    return base64.b64encode(pa.compress(data, codec="lz4", asbytes=True)).decode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_array_is_what_unpickling_would_give(protocol: int) -> None:
    for name, array in ARRAYS.items():
        found = unpack(packed(array, protocol))
        assert isinstance(found, np.ndarray), name
        assert found.shape == array.shape, name
        assert found.dtype == array.dtype.newbyteorder("="), name
        assert np.array_equal(found, array), name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_trees_of_arrays_and_numbers_in_a_row(protocol: int) -> None:
    tree = {"image": ARRAYS["image"], "parts": [ARRAYS["floats"], {"x": ARRAYS["integers"]}]}
    found = unpack(packed(tree, protocol))
    assert isinstance(found, dict) and [*found] == ["image", "parts"]
    assert np.array_equal(found["image"], ARRAYS["image"])
    assert np.array_equal(found["parts"][0], ARRAYS["floats"])
    assert np.array_equal(found["parts"][1]["x"], ARRAYS["integers"])
    assert np.array_equal(unpack(packed([1.5, 2, True], protocol)), [1.5, 2.0, 1.0])


@pytest.mark.parametrize("old", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_arrays_of_both_numpys_are_read(old: str) -> None:
    data = pickle.dumps(ARRAYS["floats"], protocol=2)
    data = data.replace(b"numpy._core.multiarray", old.encode())
    assert np.array_equal(unpack(framed(data)), ARRAYS["floats"])


def test_what_we_pack_is_what_unpickling_reads() -> None:
    text = pack(ARRAYS["floats"])
    frame = base64.b64decode(text)
    assert frame[:4] == b"\x04\x22\x4d\x18"  # the magic number of an LZ4 frame
    with pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as stream:
        loaded = pickle.loads(stream.read())
    assert loaded.dtype == np.float32 and np.array_equal(loaded, ARRAYS["floats"])
    assert np.array_equal(unpack(text), ARRAYS["floats"])


class Runs:
    """Writes a file when it is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.file}",)


class Opens:
    """Opens a file when it is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.file), "w")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_planted_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    file = tmp_path / "run"
    bad = Runs(file)
    for thing in (bad, [ARRAYS["floats"], bad], {"x": bad}, np.array([bad], object), Opens(file)):
        data = packed(thing, protocol)
        with pytest.raises(PackedColumnError, match=r"allowed: numpy arrays|array of type 'O8'"):
            unpack(data)
    assert not file.exists()
    pickle.loads(pickle.dumps(bad))  # it would have run
    assert file.exists()


def test_anything_but_arrays_of_numbers_is_refused() -> None:
    for thing, problem in (
        (np.array([{}], object), "array of type 'O8'"),
        (np.array(["a"]), "array of type 'U1'"),
        (np.array([b"a"]), "array of type 'S1'"),
        (np.array([1], "M8[s]"), "array of type 'M8'"),
        (np.zeros(2, [("a", "f4")]), "array of type 'V4'"),
        (np.float32(1), r"calls for 'numpy\._core\.multiarray\.scalar'"),
        (np.dtype, r"calls for 'numpy\.dtype|it holds _Known"),
        ("text", "it holds str"),
        (3, "it holds int"),
        ({1: np.zeros(2)}, "keys are no texts"),
        ({1, 2}, "operation EMPTY_SET"),
    ):
        with pytest.raises(PackedColumnError, match=problem):
            unpack(packed(thing))


def test_nothing_is_imported_by_a_name_in_the_data() -> None:
    """Names that an import would be tried for, were they looked up."""
    data = b"\x80\x02cthis_module_is_nowhere\nthing\n."
    with pytest.raises(PackedColumnError, match=r"calls for 'this_module_is_nowhere\.thing'"):
        unpack(framed(data))
    data = b"\x80\x04\x8c\x04this\x8c\x01s\x93."  # this: a module that prints when imported
    with pytest.raises(PackedColumnError, match=r"calls for 'this\.s'"):
        unpack(framed(data))
    assert "this" not in sys.modules


def test_a_known_function_makes_nothing_else() -> None:
    """`_reconstruct` of another class, `dtype` of an object, `encode` by another codec."""
    for data in (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85U\x01b\x87R.",
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00bX\x05\x00\x00\x00rot13\x86R.",
        b"\x80\x02cnumpy\nndarray\nK\x05\x85R.",
    ):
        with pytest.raises(PackedColumnError):
            unpack(framed(data))


def test_a_shape_that_the_bytes_do_not_fill_is_refused() -> None:
    data = pickle.dumps(np.zeros((3, 4), np.float32), protocol=0)
    for shape in ((2**62,), (2**40, 2**40), (-3, -4), (3, 5)):
        lines = b"".join(b"I%d\n" % size for size in shape)
        forged = data.replace(b"(I3\nI4\nt", b"(" + lines + b"t")
        assert forged != data
        with pytest.raises(PackedColumnError, match="no whole packed column"):
            unpack(framed(forged))


def test_few_bytes_that_unpack_to_many_are_refused_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 8 * 2**20)
    bomb = framed(bytes(300 * 2**20))
    assert len(bomb) < 3 * 2**20
    tracemalloc.start()
    pool = pa.default_memory_pool()
    with pytest.raises(PackedColumnError, match="unpack to more than"):
        unpack(bomb)
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()
    assert pool.bytes_allocated() < 64 * 2**20


def test_operations_are_bounded_by_the_length_of_the_text() -> None:
    text = framed(b"\x80\x04(" + b"N" * 10**6 + b"t.")
    assert len(text) < 2**15
    start = time.process_time()
    with pytest.raises(PackedColumnError, match="more operations than 20,000"):
        unpack(text)
    assert time.process_time() - start < 1


def test_arrays_made_of_the_same_bytes_count_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Big-endian ones are copies: each of a few bytes in the text, all of any size."""
    monkeypatch.setattr(bounds, "MOST_BYTES", 2**23)
    one = pickle.dumps([np.ones(2**17, ">f8")], protocol=4)
    again = b"h\x03h\x09Rh\x14ba"  # what the first one was made of, by the numbers of its parts
    [first, second] = unpack(framed(one[:-1] + again + b"."))
    assert isinstance(second, np.ndarray) and np.array_equal(first, second)
    with pytest.raises(PackedColumnError, match="unpack to more than"):
        unpack(framed(one[:-1] + again * 30 + b"."))


def test_a_branch_that_is_named_again_and_again_takes_no_time() -> None:
    """Sixty pairs, each twice the one before: 2^60 leaves if they were walked."""
    data = b"\x80\x04]\x94" + b"".join(b"h%c\x86\x94" % number for number in range(60)) + b"."
    assert len(pickle.loads(data)) == 2
    with pytest.raises(PackedColumnError, match="nested too deeply"):
        unpack(framed(data))


def test_a_list_that_holds_itself_is_refused() -> None:
    with pytest.raises(PackedColumnError, match="nested too deeply"):
        unpack(framed(b"\x80\x04]\x94h\x00a."))


def test_any_damage_is_one_kind_of_error() -> None:
    random.seed(0)
    good = pickle.dumps({"x": np.arange(6.0), "y": [1, 2]}, protocol=4)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(random.choice([1, 1, 2, 5])):
            data[random.randrange(len(data))] = random.randrange(256)
        if random.random() < 0.2:
            del data[random.randrange(len(data)) :]
        try:
            unpack(framed(bytes(data)))
        except PackedColumnError:
            continue
    for text in ("", "abc", "####", "AAAA", packed(np.zeros(3))[:-8], "é"):
        with pytest.raises(PackedColumnError):
            unpack(text)


def test_reading_loads_no_pickle() -> None:
    """Even were a way found through, `pickle.load` and `loads` are not called."""
    code = (
        "import pickle, numpy as np\n"
        "from trainables.runtime.offline.packed_columns import pack, unpack\n"
        "text = pack(np.arange(3.0))\n"
        "def refuse(*args, **kwargs): raise SystemExit('unpickled')\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        "assert unpack(text).tolist() == [0, 1, 2]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
