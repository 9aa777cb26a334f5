"""The error of settings. Apart, so that what only raises it needs nothing of settings."""

from __future__ import annotations


class ConfigError(ValueError):
    """A setting has an unknown name, a wrong type or a value out of range."""
