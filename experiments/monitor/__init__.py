"""What is watched and shown while a sweep runs."""
