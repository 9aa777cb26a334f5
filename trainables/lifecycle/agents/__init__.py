"""What an algorithm of several policies does besides."""
