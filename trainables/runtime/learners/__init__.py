"""Learners, in this process or in actors."""
