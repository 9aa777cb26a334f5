"""A policy: from observations to actions."""
