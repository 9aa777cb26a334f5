"""RLlib's packed columns, read without unpickling: base64 of an LZ4 frame of a pickled array.

A pickle is a program, and loading one runs it. So its operations are read one by one here, and
those that make up a numpy array of numbers are followed; anything else is refused before it would
do something. Nothing is imported or called by a name that stands in the data.
"""

from __future__ import annotations

import base64
import math
import pickle
import pickletools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from trainables.runtime.offline.bounds import MOST_BYTES, MOST_OPERATIONS, Budget

Tree = np.ndarray | dict[str, Any] | list[Any]

_CHUNK_BYTES = 2**20
_MOST_NODES = 4096  # leaves and branches of a tree; a pickle may name one branch many times
_NUMBER = re.compile(r"[biuf]\d{1,2}")
_CODEC = "lz4"  # LZ4's frame format, as Arrow calls it

# What an array is made with, by module and name, of numpy 1 and 2.
_KNOWN = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("numpy.core.multiarray", "_reconstruct"): "reconstruct",
    ("numpy._core.multiarray", "_reconstruct"): "reconstruct",
    ("numpy.core.numeric", "_frombuffer"): "frombuffer",
    ("numpy._core.numeric", "_frombuffer"): "frombuffer",
    ("_codecs", "encode"): "encode",
    ("__builtin__", "bytes"): "bytes",
}
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


class PackedColumnError(ValueError):
    """What stands in a packed column, in place of an array of numbers."""


def pack(tree: Tree) -> str:
    """Return an array, or a tree of arrays, packed as RLlib packs it."""
    frame = pa.compress(pickle.dumps(tree, protocol=4), codec=_CODEC, asbytes=True)
    return base64.b64encode(frame).decode("ascii")


def unpack(text: str, budget: Budget | None = None) -> Tree:
    """Return the array of a packed column, or the tree of arrays, in bounded memory and time.

    Args:
        text: What `pack`, or RLlib, made.
        budget: What it may take, less what others have taken; None: it stands alone.

    Raises:
        PackedColumnError: if it is damaged, takes more, or is anything but arrays of numbers.
    """
    budget = Budget(len(text)) if budget is None else budget
    try:
        data = _decompressed(base64.b64decode(text, validate=True), budget)
        return _checked_tree(_Reader(budget).read(data), [_MOST_NODES], 0)
    except PackedColumnError:
        raise
    except (ValueError, OverflowError, OSError) as error:
        raise PackedColumnError(f"it is no whole packed column: {error}") from None


def _decompressed(frame: bytes, budget: Budget) -> bytes:
    chunks = []
    with pa.CompressedInputStream(pa.BufferReader(frame), _CODEC) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            _take_bytes(budget, len(chunk))
            chunks.append(chunk)
    return b"".join(chunks)


def _take_bytes(budget: Budget, count: int) -> None:
    budget.nbytes -= count
    if budget.nbytes < 0:
        raise PackedColumnError(
            f"the packed columns of a line, or of a batch of rows, unpack to more than "
            f"{MOST_BYTES:,} bytes, the most that is allowed"
        )


class _Known:
    """A class or function that a pickle names, and that is among those known."""

    def __init__(self, what: str):
        self.what = what


class _DType:
    """A type of numbers that is being made."""

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype


class _Array:
    """An array that is being made."""

    values: np.ndarray | None = None


class _Reader:
    """Follows the operations of a pickle that makes arrays of numbers."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def read(self, data: bytes) -> Any:
        """Return what a pickle makes.

        Raises:
            PackedColumnError: for an operation, or a name, that no array of numbers needs.
            ValueError: if it is damaged.
        """
        for operation, argument, _ in pickletools.genops(data):
            if operation.name == "STOP":
                break
            self._budget.operations -= 1
            if self._budget.operations < 0:
                raise PackedColumnError(
                    "the packed columns of a line, or of a batch of rows, have more operations "
                    f"than {MOST_OPERATIONS:,} and one for each character, the most allowed"
                )
            self._follow(operation.name, argument)
        if len(self._stack) != 1:
            raise ValueError(f"it makes {len(self._stack)} things")
        return self._stack[0]

    def _follow(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in ("PROTO", "FRAME"):
            return
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._top()
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            if argument not in self._memo:
                raise ValueError(f"it uses a part {argument} that it has not made")
            stack.append(self._memo[argument])
        elif name in _TUPLES:
            stack.append(tuple(self._pop(_TUPLES[name])))
        elif name == "TUPLE":
            stack.append(tuple(self._pop_to_mark()))
        elif name in ("EMPTY_LIST", "LIST"):
            stack.append(self._pop_to_mark() if name == "LIST" else [])
        elif name in ("EMPTY_DICT", "DICT"):
            items = self._pop_to_mark() if name == "DICT" else []
            stack.append({})
            self._add_items(items)
        elif name in ("APPEND", "APPENDS"):
            items = self._pop(1) if name == "APPEND" else self._pop_to_mark()
            self._top_of(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            self._add_items(self._pop(2) if name == "SETITEM" else self._pop_to_mark())
        elif name == "GLOBAL":
            stack.append(_known(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            stack.append(_known(*self._pop(2)))
        elif name == "REDUCE":
            function, arguments = self._pop(2)
            _take_bytes(self._budget, _num_bytes(arguments))
            stack.append(_made(function, arguments))
        elif name == "BUILD":
            [state] = self._pop(1)
            _take_bytes(self._budget, _num_bytes(state))
            _set_state(self._top(), state)
        else:
            raise PackedColumnError(f"it has the operation {name}, which no array of numbers needs")

    def _add_items(self, items: list[Any]) -> None:
        """Add keys and values, by turns, to the dict on top."""
        if not all(isinstance(key, str) for key in items[::2]):
            raise PackedColumnError("it has a dict whose keys are no texts")
        self._top_of(dict).update(zip(items[::2], items[1::2], strict=True))

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise ValueError("an operation has nothing to work on")
        return self._stack[-1]

    def _top_of(self, kind: type) -> Any:
        if not isinstance(self._top(), kind):
            raise ValueError(f"an operation needs a {kind.__name__}")
        return self._top()

    def _pop(self, count: int) -> list[Any]:
        items = self._stack[-count:]
        if len(items) < count or any(item is _MARK for item in items):
            raise ValueError("an operation has too little to work on")
        del self._stack[-count:]
        return items

    def _pop_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while self._stack:
            item = self._stack.pop()
            if item is _MARK:
                return items[::-1]
            items.append(item)
        raise ValueError("an operation has no mark to work from")


def _num_bytes(arguments: Any) -> int:
    """Return the bytes of what is given to make an array, which may be a copy each time."""
    if not isinstance(arguments, tuple):
        return 0
    return sum(len(each) for each in arguments if isinstance(each, (bytes, bytearray, str)))


def _known(module: Any, name: Any) -> _Known:
    """Return what stands for a name, which is never looked up."""
    if isinstance(module, str) and isinstance(name, str):
        if (module, name) in _KNOWN:
            return _Known(_KNOWN[module, name])
        raise PackedColumnError(
            f"it is a pickle that calls for {f'{module}.{name}'[:80]!r}, and pickles are not "
            "loaded; allowed: numpy arrays of numbers"
        )
    raise ValueError("a name is no text")


def _made(function: Any, arguments: Any) -> Any:
    """Return what a known function makes."""
    what = function.what if isinstance(function, _Known) else ""
    match what, arguments:
        case "dtype", (str(name), *_) if _NUMBER.fullmatch(name):
            return _DType(np.dtype(name))
        case "dtype", (str(name), *_):
            raise PackedColumnError(
                f"it is an array of type {name[:20]!r}; allowed: of booleans, integers, floats"
            )
        case "reconstruct", (_Known(what="ndarray"), *_):
            return _Array()
        case "encode", (str(text), "latin1"):  # bytes, in older protocols
            return text.encode("latin1")
        case "bytes", ():
            return b""
        case "frombuffer", (bytes() | bytearray() as data, _DType() as kind, tuple(shape), order):
            array = _Array()
            array.values = _array(data, kind.dtype, shape, in_columns=order == "F")
            return array
    raise PackedColumnError("it is a pickle that makes something else than arrays of numbers")


def _set_state(target: Any, state: Any) -> None:
    """Give a type its byte order, or an array its values."""
    match target, state:
        case _DType(), (_, "<" | ">" | "|" | "=" as order, None, None, None, *_):
            target.dtype = target.dtype.newbyteorder(order)
        case _Array(), (
            _,
            tuple(shape),
            _DType() as kind,
            in_columns,
            bytes() | bytearray() as data,
        ):
            target.values = _array(data, kind.dtype, shape, in_columns=bool(in_columns))
        case _:
            raise PackedColumnError(
                "it is a pickle that makes something else than arrays of numbers"
            )


def _array(
    data: bytes | bytearray, dtype: np.dtype, shape: tuple[Any, ...], *, in_columns: bool
) -> np.ndarray:
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("an array's shape is none")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array has {len(data)} bytes, its shape and type need others")
    values = np.frombuffer(data, dtype).reshape(shape, order="F" if in_columns else "C")
    return values.astype(dtype.newbyteorder("="), copy=False)


def _checked_tree(value: Any, left: list[int], depth: int) -> Tree:
    """Return a tree of arrays; numbers in a row are an array, too."""
    left[0] -= 1
    if left[0] < 0 or depth > 16:
        raise PackedColumnError("it is nested too deeply")
    if isinstance(value, _Array) and value.values is not None:
        return value.values
    if isinstance(value, Mapping):
        return {key: _checked_tree(part, left, depth + 1) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        if value and all(type(number) in (bool, int, float) for number in value):
            numbers = np.array(value)
            if numbers.dtype.kind in "biuf":
                return numbers
        return [_checked_tree(part, left, depth + 1) for part in value]
    raise PackedColumnError(f"it holds {type(value).__name__}, not an array of numbers")
