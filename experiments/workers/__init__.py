"""Workers of a Ray that a sweep starts: forks of one process that has imported what they need."""
