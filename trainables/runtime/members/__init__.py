"""Several trainables of one process that learn together: each in a thread, one at a time."""
