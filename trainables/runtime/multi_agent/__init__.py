"""Environments with several agents, stepped by several policies."""
