"""Games of one policy against an opponent."""
