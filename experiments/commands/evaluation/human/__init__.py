"""A human at the terminal as an opponent."""
