"""Which trial is best, by which rule."""
