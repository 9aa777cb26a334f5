"""Distributions of actions."""
