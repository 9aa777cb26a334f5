"""Evaluating and exporting policies from the command line."""
