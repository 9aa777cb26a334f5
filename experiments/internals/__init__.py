"""The private parts of Ray, Tune and Optuna that are used, under names that say what for."""
