"""Several learners as one tensor program: their parameters as `[K, P]`, their rows as `[K, B, …]`.

What a learner does alone and what it does here are the same update: the loss is the one function
that there is, and permutations, rates, clipping and moments are each member's own.
"""
