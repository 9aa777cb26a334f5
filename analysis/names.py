"""What results call the columns that every trial has."""

from __future__ import annotations

ITERATION = "training_iteration"
ENV_STEPS = "num_env_steps_sampled_lifetime"
SECONDS = "time_total_s"
COUNTERS = (ITERATION, ENV_STEPS, SECONDS, "timestamp")
"""Those that are numbers and only rise."""
