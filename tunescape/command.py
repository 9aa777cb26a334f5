"""The command `tunescape`, in whatever folder it is called: see `tunescape.shared_names`."""

from __future__ import annotations

import os

from tunescape.shared_names import make_room


def main() -> None:
    """Run the command line; the entry point."""
    make_room([os.getcwd()], is_ours=True)
    from experiments import cli

    cli.main()


if __name__ == "__main__":
    main()
