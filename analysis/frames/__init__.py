"""A sweep's records as data frames."""
