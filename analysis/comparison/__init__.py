"""Whether one way of training is better than another, and how sure that is."""
