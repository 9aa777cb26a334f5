"""Watching a sweep from its folder, which is only read: a live page, and Optuna's dashboard."""
