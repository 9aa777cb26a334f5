"""Thrift's compact protocol, as the footers and page headers of Parquet files have it.

Arrow's own view of a footer ends the process where a damaged one leaves something out.
"""

from __future__ import annotations

import struct
from typing import Any

_MOST_DEPTH = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)

Fields = dict[int, Any]
"""What a struct holds, by the number of each field."""


class ThriftReader:
    """Reads structs from bytes, one after another.

    Args:
        data: The bytes.

    Attributes:
        at: Where the next struct begins.
    """

    def __init__(self, data: bytes):
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> Fields:
        """Return the next struct.

        Raises:
            ValueError: if it is damaged.
            IndexError: if it is not whole.
        """
        fields: Fields = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = kind == _TRUE if kind <= _FALSE else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        if kind in _INTEGERS:
            return self._integer()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth + 1) for _ in range(self._count(count))]
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        raise ValueError(f"a value is of the type {kind}")

    def _count(self, count: int) -> int:
        if count > len(self._data) - self.at:
            raise IndexError("a list is longer than what is there")
        return count

    def _bytes(self, count: int) -> bytes:
        start = self.at
        self.at += self._count(count)
        return self._data[start : self.at]

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than 64 bits")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
