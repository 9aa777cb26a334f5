"""What a policy is worth, told from the recorded episodes of another one."""
