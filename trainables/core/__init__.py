"""Tensors, spaces and settings: no Ray, and no environment is stepped."""
