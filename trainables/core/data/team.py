"""A team's observation: a Dict of what each agent sees, and of what only learning sees."""

from __future__ import annotations

AGENTS = "agents"
"""What each agent sees, `[G, …]` of each leaf."""

STATE = "state"
"""The global state. Nobody acts on it: any numbers will do where a policy only acts."""

PLAYS_AS_TEAM = "plays_as_team"
"""Key of a policy's metadata: all agents of its environment are one agent, a team.

Its value is the key of an agent's observation that says which actions are allowed.
"""
