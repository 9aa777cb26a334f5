"""What a Parquet file declares in its footer and page headers, before anything of that is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainables.runtime.offline.bounds import check_declared, check_num_columns
from trainables.runtime.offline.formats.rllib_episodes import ITEM
from trainables.runtime.offline.formats.thrift import Fields, ThriftReader

_BYTE_ARRAY, _FIXED = 6, 7
_BYTES = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, _BYTE_ARRAY: 4}  # of a value, by its type
_PAGE_BYTES = 4096  # what a page counts as at least: it takes its time
_HEADER_BYTES = 4096
_MOST_HEADER_BYTES = 2**24  # it may have the least and the largest value, which are texts

# Numbers of fields, as Parquet's definition has them.
_SCHEMA, _GROUPS, _GROUP_COLUMNS, _GROUP_ROWS, _COLUMN = 2, 4, 1, 3, 3
_TYPE, _LENGTH, _REPETITION, _NAME, _NUM_CHILDREN = 1, 2, 3, 4, 5
_NUM_VALUES, _UNPACKED, _PACKED, _DATA_OFFSET, _DICTIONARY_OFFSET = 5, 6, 7, 9, 11
_PAGE_UNPACKED, _PAGE_PACKED, _PAGE_KINDS, _PAGE_VALUES = 2, 3, (5, 7, 8), 1
_REPEATED = 2


def read_footer(opened: Any) -> Fields:
    """Return the footer of a file.

    Raises:
        ValueError: if it is none.
    """
    size = opened.size()
    opened.seek(max(size - 8, 0))
    end = opened.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 8:
        raise ValueError("it does not end as such a file does")
    opened.seek(size - 8 - length)
    data = opened.read(length)
    opened.seek(0)
    try:
        footer = ThriftReader(data).struct()
        _leaves(footer)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its footer is damaged: {error}") from None
    return footer


def check_footer(footer: Fields, opened: Any, name: str, *, pages: bool) -> None:
    """Raise if a file declares to hold more than one of its size may.

    Numbers count as they are in memory: in a page, any number of equal ones takes a few bytes.

    Args:
        footer: Its footer.
        opened: The file.
        name: The file's name, for messages.
        pages: Whether to look at the header of each page, too: a footer may say anything.

    Raises:
        DataError: naming the file, the size and the bound.
        ValueError: if the footer is damaged.
    """
    size, declared = opened.size(), 0
    try:
        leaves = _leaves(footer)
        check_num_columns(len(leaves), name)
        widths = [_BYTES.get(_number(leaf, _TYPE), _number(leaf, _LENGTH)) for leaf in leaves]
        for group in footer.get(_GROUPS, []):
            for width, chunk in zip(widths, group[_GROUP_COLUMNS], strict=True):
                column = chunk[_COLUMN]
                count = max(_number(column, _NUM_VALUES), _number(group, _GROUP_ROWS))
                stated = max(width * count, _number(column, _UNPACKED))
                check_declared(declared + stated, size, name)
                found = 0
                for nbytes, count in _pages(opened, column, size) if pages else ():
                    found += max(nbytes, width * count, _PAGE_BYTES)
                    check_declared(declared + found, size, name)
                declared += max(stated, found)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its footer is damaged: {error}") from None


def columns_of_texts(footer: Fields) -> list[str]:
    """Return the columns to read as distinct values and numbers of them.

    A page may name one long text in any number of rows.
    """
    found, left = [], 0  # elements below the present column
    for element in footer[_SCHEMA][1:]:
        children = _number(element, _NUM_CHILDREN)
        if left:
            left += children - 1
            continue
        left = children
        is_plain = not children and element.get(_REPETITION) != _REPEATED
        if is_plain and element.get(_TYPE) == _BYTE_ARRAY:
            found.append(element[_NAME].decode())
    return [name for name in found if name != ITEM]  # that one is read a row at a time


def _leaves(footer: Fields) -> list[Fields]:
    return [element for element in footer[_SCHEMA][1:] if not _number(element, _NUM_CHILDREN)]


def _number(fields: Fields, field: int) -> int:
    """Return a number, 0 if it is not there."""
    value = fields.get(field, 0)
    if not isinstance(value, int):
        raise ValueError(f"its field {field} is no number")
    return value


def _pages(opened: Any, column: Fields, file_size: int) -> Iterator[tuple[int, int]]:
    """Yield the bytes of each page of a column, unpacked, and how many values it has.

    What cannot be read ends it: reading the data will say so.
    """
    at = _number(column, _DATA_OFFSET)
    at = min(at, _number(column, _DICTIONARY_OFFSET) or at)
    end = min(at + _number(column, _PACKED), file_size)
    while 0 <= at < end:
        header, length = _page_header(opened, at)
        kinds = [header[kind] for kind in _PAGE_KINDS if kind in header]
        if not kinds:
            return
        try:
            count = max(_number(kind, _PAGE_VALUES) for kind in kinds)
            packed, unpacked = _number(header, _PAGE_PACKED), _number(header, _PAGE_UNPACKED)
        except (ValueError, AttributeError):
            return
        yield unpacked, count
        at += length + max(packed, 0)


def _page_header(opened: Any, at: int) -> tuple[Fields, int]:
    """Return a page's header and its length; an empty one if it cannot be read."""
    size = _HEADER_BYTES
    while size <= _MOST_HEADER_BYTES:
        opened.seek(at)
        data = opened.read(size)
        reader = ThriftReader(data)
        try:
            return reader.struct(), reader.at
        except IndexError:
            if len(data) < size:
                break
            size *= 8
        except ValueError:
            break
    return {}, 0
