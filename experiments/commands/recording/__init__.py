"""Playing episodes that become recorded experience."""
