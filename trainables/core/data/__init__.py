"""Columns of experience, spaces, and observations as networks take them."""
