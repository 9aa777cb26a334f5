"""Schedulers of trials: those of Tune, and ours."""
