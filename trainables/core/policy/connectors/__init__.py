"""Connectors: the steps between raw observations, features, actions and the environment."""
