"""Environments, actors and evaluation: knows no algorithm by name."""
