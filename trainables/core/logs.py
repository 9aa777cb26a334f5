"""The log of a trial's processes: one logger, with one level in all of them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR")
VARIABLE = "TUNESCAPE_LOG_LEVEL"
"""The environment variable with the level of trials that set none, e.g. what `-v` asks for."""

logger = logging.getLogger("trainables")
_DEFAULT = "WARN"
_MOST = 6  # entries of a list or dict that are shown
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _StandardError(logging.StreamHandler[Any]):
    """A handler of what is standard error now: Tune and tests put another one in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self.stream = sys.stderr
        super().emit(record)


def set_log_level(level: str | None) -> None:
    """Set what this process logs, and where no one handles it, show it on standard error.

    Args:
        level: A level of `LEVELS`; None: that of the environment variable, else WARN.
    """
    asked = os.environ.get(VARIABLE)
    logger.setLevel(level or (asked if asked in LEVELS else _DEFAULT))
    if logger.isEnabledFor(logging.INFO) and not logger.hasHandlers():
        handler = _StandardError()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)


def is_debug() -> bool:
    """Return whether the flow of data is logged: asked before a line is made, which costs more."""
    return logger.isEnabledFor(logging.DEBUG)


def shapes(data: Any) -> str:
    """Return shapes and types of data, e.g. `{obs: float32[16, 8, 4], rewards: float32[16, 8]}`.

    Args:
        data: Arrays, tensors, and dicts, lists and dataclasses of them.
    """
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        kind = "record" if getattr(data.dtype, "names", None) else str(data.dtype)
        return f"{kind.removeprefix('torch.')}{list(data.shape)}"
    if is_dataclass(data) and not isinstance(data, type):
        data = {field.name: getattr(data, field.name) for field in fields(data)}
    if isinstance(data, Mapping):
        return "{" + ", ".join(f"{name}: {shapes(item)}" for name, item in data.items()) + "}"
    if isinstance(data, (list, tuple)):
        more = [f"… {len(data) - _MOST} more"] if len(data) > _MOST else []
        return "[" + ", ".join([*map(shapes, data[:_MOST]), *more]) + "]"
    if data is None or isinstance(data, (bool, int, float, str)):
        return repr(data)
    return type(data).__name__
