"""Static pictures, by matplotlib."""
