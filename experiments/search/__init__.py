"""Search algorithms: grids, random search and Optuna."""
