"""Settings of recorded experience and of estimates from it: what they mean, and their checks."""
