"""The command `tunescape`, in whatever folder it is called: see `tunescape.shared_names`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

from tunescape.shared_names import make_room


def main() -> NoReturn:
    """Run the command line; the entry point. It ends the process."""
    try:
        here = os.getcwd()
    except OSError as error:
        raise SystemExit(
            f"tunescape: the folder that it is called in cannot be read ({error.strerror}): it was "
            "deleted or moved, perhaps; call it in one that is there"
        ) from None
    make_room([here], is_ours=True)
    # Imports make a million objects that stay: looking through them again and again takes longer
    # than anything that is collected.
    gc.set_threshold(50_000, 20, 50)
    from experiments import cli

    status: Any = 0
    try:
        cli.main()
    except SystemExit as end:
        status = end.code
    _end(status)


def _end(status: Any) -> NoReturn:
    """End the process as Python does, but take nothing apart.

    That would be two seconds for PyTorch, Ray and pandas, and all of it is gone a moment later.
    """
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # threads are waited for
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    main()
