"""Environments with several agents: dicts, PettingZoo's games and native ones, as slots."""
