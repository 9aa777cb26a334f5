"""Environments of packages, and the small ones that come with this one."""
