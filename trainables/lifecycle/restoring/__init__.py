"""Going on from what another run has left: checkpoints, states and weights."""
