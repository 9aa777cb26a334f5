"""A sweep survives crashes: its state is saved as one, and resumed from."""
