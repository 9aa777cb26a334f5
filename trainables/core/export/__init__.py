"""Policies as programs that run without this package."""
