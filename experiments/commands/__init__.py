"""The commands of `tunescape`, a module each; `experiments.cli` imports the one that is called.

A command's module imports what it needs at the top, but what takes Ray: its `--help` answers at
once, too, and a mistake in a spec is told before Ray is imported.
"""
