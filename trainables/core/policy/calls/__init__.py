"""What users call on a policy: actions of any observation, and its networks by other names."""
