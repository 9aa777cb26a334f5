"""Settings of several agents: what they mean, their forms and their checks."""
