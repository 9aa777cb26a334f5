"""Sweeps in MLflow."""
