"""Networks, and the modules that algorithms are made of."""
