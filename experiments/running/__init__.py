"""Running a sweep from its spec to its results."""
