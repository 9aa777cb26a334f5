"""Evaluation: episodes played by a policy that does not learn from them."""
