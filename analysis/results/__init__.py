"""What is read: folders of sweeps, ResultGrids and MLflow, as records."""
