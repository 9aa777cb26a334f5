"""What `Algorithm` delegates: checkpoints, evaluation, access to policies."""
