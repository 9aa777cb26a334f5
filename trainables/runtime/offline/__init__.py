"""Recorded experience: read from files, kept as mapped columns, drawn from, and written."""
