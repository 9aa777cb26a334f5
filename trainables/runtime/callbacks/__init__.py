"""Callbacks of users, and the metrics that they add."""
