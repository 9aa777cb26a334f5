"""How much recorded data may make of few bytes: all bounds, which a file's statements are held to.

What a file declares (rows, shapes, sizes before compression) is compared before anything of that
size is made. Data of a real recording are far below; a file that is not may come from anybody.
"""

from __future__ import annotations

from trainables.runtime.offline.episode import DataError

MOST_BYTES = 2**29
"""Bytes that any file may hold when its contents are unpacked, however small it is."""
MOST_RATIO = 200
"""Beyond `MOST_BYTES`, how many times its own size a file may unpack to."""
MOST_LINE_BYTES = 64 * 2**20
"""Bytes of a line of JSON: as Python's numbers and lists it takes up to twenty times as much."""
MOST_COLUMNS = 4096
"""Columns of a file of steps, and leaves of nested observations or actions."""
MOST_OPERATIONS = 20_000
"""Operations of the packed columns of a line, or of a batch of rows; one more for each byte."""


def check_declared(declared: int, file_size: int, what: str) -> None:
    """Raise if contents declare to be larger than a file of that size may have.

    Args:
        declared: Bytes, unpacked.
        file_size: Bytes of the file.
        what: The file, and what in it declares that, for the message.

    Raises:
        DataError: naming the size and the bound.
    """
    most = max(MOST_BYTES, MOST_RATIO * file_size)
    if declared > most:
        raise DataError(
            f"{what}: it unpacks to {declared:,} bytes or more, of a file of {file_size:,}; "
            f"allowed: {most:,}, the larger one of {MOST_BYTES:,} and {MOST_RATIO} times the "
            "file's size"
        )


def check_num_columns(number: int, what: str) -> None:
    """Raise if there are more columns, or leaves of a space, than a row may have.

    Raises:
        DataError: naming their number and the bound.
    """
    if number > MOST_COLUMNS:
        raise DataError(f"{what}: it has {number:,} columns; allowed: {MOST_COLUMNS:,}")


class Budget:
    """What the packed columns of a line, or of a batch of rows, may still take together.

    Args:
        num_chars: Characters of them.

    Attributes:
        nbytes: Bytes of what they unpack to, and of the arrays made of that.
        operations: Operations that make the arrays.
    """

    def __init__(self, num_chars: int):
        self.nbytes, self.operations = MOST_BYTES, MOST_OPERATIONS + num_chars
