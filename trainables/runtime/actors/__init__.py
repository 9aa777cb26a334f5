"""Actor processes: their resources, their faults, calls to many."""
