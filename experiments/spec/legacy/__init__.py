"""Experiment files of RLlib, read as specs."""
