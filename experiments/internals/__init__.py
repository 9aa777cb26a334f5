"""The private parts of Tune and Optuna that are used, under names that say what for."""
