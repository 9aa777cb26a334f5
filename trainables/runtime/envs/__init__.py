"""Making environments, checking them, and stepping several."""
