"""`python -m tunescape`: the command, of this interpreter."""

from tunescape.command import main

main()
