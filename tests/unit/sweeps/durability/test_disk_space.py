"""Which disk is full, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.disk_space import full_disk, is_full


@pytest.mark.parametrize(
    "cause",
    [
        "OSError: [Errno 28] No space left on device: '/data/runs/x'",
        "OSError: [Errno 28] Error writing to file. Detail: [errno 28] No space left on device",
        "SafetensorError: while serializing: I/O error: No space left on device (os error 28)",
        "(sqlite3.OperationalError) database or disk is full",
        "OSError: [Errno 122] Disk quota exceeded",
    ],
)
def test_a_full_disk_is_recognised(cause: str, tmp_path: Path) -> None:
    assert is_full(cause)
    message = full_disk(["ValueError: no", cause], tmp_path / "not" / "there")
    assert message is not None and " is full: " in message and "mounted at /" in message
    assert "\n" not in message


def test_other_causes_are_not(tmp_path: Path) -> None:
    assert (
        full_disk(["ValueError: 28 is too much", "OSError: [Errno 2] no such file"], tmp_path)
        is None
    )
