"""Intrinsic rewards: parts of a learner that reward a policy for what is new."""
