"""Pictures of a sweep's best policy, drawn from its checkpoint or by playing it."""
