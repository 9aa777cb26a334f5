"""What figures, plots and the report show of a sweep, computed once."""
