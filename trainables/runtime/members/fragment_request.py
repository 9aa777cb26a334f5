"""`FragmentRequest`: a fragment that an env runner is to sample, alone or with others."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from trainables.core.data.batch import HOST, Rollout
from trainables.core.learning.members.lifted_module import structure, why_not_lifted
from trainables.core.policy.explorers import Explorer
from trainables.runtime.sampling.sampling_worker import Episodes


@dataclass(frozen=True)
class FragmentRequest:
    """A fragment that an env runner is to sample.

    Attributes:
        owner: The env runner.
        num_steps: Steps of each slot.
    """

    owner: Any  # a `HostedEnvRunner`, whose module imports this one
    num_steps: int

    def why_alone(self) -> str | None:
        """Return why it is sampled by itself; None if it can be sampled with those of its `key`."""
        runner = self.owner
        if (reason := runner.why_alone()) is not None:
            return reason
        [recorder] = runner.recorders.values()
        policy = recorder.policy
        observations = policy.observations
        if policy.has_state or recorder.whole is not None:
            return "its policy has a memory, or it samples whole episodes"
        if policy.module.is_noisy or type(policy.explorer) is not Explorer:
            return "it explores by noise of its own"
        if policy.is_compiled or policy.device != HOST:
            return "its policy is compiled, or not on the CPU"
        if observations.mask_path is not None or observations.layout.has_extras:
            return "its observations have an action mask or the previous action"
        if policy.env_to_module is not None or policy.module_to_env is not None:
            return "it has connectors"
        return why_not_lifted(policy.module)

    def key(self) -> Hashable:
        """Return what is equal for fragments that can be sampled together."""
        runner = self.owner
        [recorder] = runner.recorders.values()
        policy = recorder.policy
        return (
            self.num_steps,
            runner.num_envs,
            type(runner.env),
            structure(policy.module),
            repr(policy.observation_space),
            repr(policy.action_space),
            type(policy.distribution),
            policy.observations.filter is None,
            recorder.actor.explores,
            policy.explorer.uniform,
            tuple(sorted((n, repr(v)) for n, v in policy.options.items() if n in _ALIKE)),
        )

    def alone(self) -> tuple[dict[str, Rollout], Episodes]:
        """Sample it by itself."""
        return self.owner.fragment_alone(self.num_steps)


# What of a policy's options decides how it sees and how its actions are given.
_ALIKE = ("normalize_actions", "clip_actions", "critic_obs_key", "observation_filter")
