"""The commands of `tunescape`, a module each; `experiments.cli` imports the one that is called."""
