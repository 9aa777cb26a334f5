"""Exploration by something else than the action distribution."""
