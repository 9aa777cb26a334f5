"""What commands print and write of a sweep's results."""
