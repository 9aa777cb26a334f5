"""Env runners of one policy in any vector environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.policy.policy import Policy
from trainables.runtime.sampling.env_runner import EnvRunner, make_env_runner


def policy_for(env: Any, model: Any = None, **options: Any) -> Policy:
    """Return a policy that acts in a vector environment."""
    spaces = env.single_observation_space, env.single_action_space
    return Policy(*spaces, model, **{"seed": 0, **options})


def runner_of(
    env: Any, config: Any = None, policy: Policy | None = None, seed: int = 0, index: int = 0
) -> EnvRunner:
    """Return an env runner; that of slots in processes where these are."""
    policies = {DEFAULT_MODULE_ID: policy or policy_for(env)}
    sequence = np.random.SeedSequence(seed)
    runner = make_env_runner(config or PPOConfig(), policies, env, sequence, index)
    assert isinstance(runner, EnvRunner)
    return runner
