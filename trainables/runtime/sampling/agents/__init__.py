"""Sampling from environments with several agents: a lane for each agent of a policy."""
