"""Several seeds for each configuration."""
