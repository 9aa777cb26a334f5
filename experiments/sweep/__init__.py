"""A sweep before it runs: a checked spec, and all that follows from it."""
