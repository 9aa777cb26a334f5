"""What recorded experience looks like in files, a module a format."""
