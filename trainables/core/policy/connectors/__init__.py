"""What observations and actions pass through on their way."""
