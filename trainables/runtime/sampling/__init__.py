"""Sampling: policies act, environments step, columns are recorded."""
