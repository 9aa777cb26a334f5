"""Learning curves: returns by environment step, and what a budget buys."""
