"""What `show`, `list` and a dry run print."""
