"""`TargetPolicy`: the policy whose worth is estimated, on all rows of recorded data."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from trainables.core.data.features import Features, map_tensors
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import ReadableRows, RecordedEpisodes
from trainables.core.policy.behaviour import acting_logp
from trainables.core.policy.policy import Policy

_ROWS_AT_ONCE = 4096
_BYTES_AT_ONCE = 64 * 2**20  # of observations, which networks make several times as many of


class TargetPolicy:
    """What a policy would do in each row of recorded data, and how likely what was done is.

    Args:
        policy: The policy; its weights are not to change while this is in use.
        explore: Whether it draws its actions, or takes the most likely ones.
        rows: The data.

    Attributes:
        is_discrete: Whether its actions are one Discrete choice, whose probabilities can be summed
            over.
    """

    def __init__(self, policy: Policy, explore: bool, rows: ReadableRows):
        self.policy, self.explore, self.rows = policy, explore, rows
        self.distribution = policy.distribution
        self.is_discrete = isinstance(self.distribution, Categorical)
        if policy.module.is_noisy:
            policy.module.set_noise(None)
        self._inputs = _inputs_of(policy, rows)

    def features(self, ids: np.ndarray) -> Features:
        """Return what the policy's networks see of rows `[M]`, `[M, …]`."""
        return self.policy.features(self.rows.observations(ids))

    def inputs(self, ids: np.ndarray) -> Tensor:
        """Return the inputs of its action distribution in rows `[M]`, `[M, num_inputs]`."""
        return self._inputs[torch.from_numpy(ids)]

    def recorded_actions(self, ids: np.ndarray) -> Tensor:
        """Return what was done in rows `[M]`, as the distribution stores it, `[M, …]`."""
        return torch.from_numpy(self.rows.read("actions", ids)).to(self.policy.device)

    def logp(self, recorded: RecordedEpisodes) -> np.ndarray:
        """Return the log-probability of what was done in each step, `[N]`, float64; may be -inf.

        Raises:
            ConfigError: if actions have no density: greedy continuous ones, or noise on top.
        """
        ids = recorded.ids
        found = acting_logp(
            self.policy, self.inputs(ids), self.recorded_actions(ids), explore=self.explore
        )
        if found is not None:
            return found.double().cpu().numpy()
        if self.policy.module_to_env is not None:
            raise ConfigError(
                "off_policy_estimation_methods: importance weights need the probability of an "
                "action, which module_to_env_connector changes; allowed: a policy without such "
                "connectors, or the type 'DirectMethod'"
            )
        if self.explore:
            raise ConfigError(
                "off_policy_estimation_methods: importance weights need the probability of an "
                f"action, and with exploration_config type = {self.policy.explorer.settings.type!r}"
                " it is not known; allowed: 'StochasticSampling', 'EpsilonGreedy', 'SoftQ', or "
                "the type 'DirectMethod'"
            )
        raise ConfigError(
            "off_policy_estimation_methods: importance weights need the density of an action, "
            f"which a greedy policy has not in {self.policy.action_space}; allowed: "
            "evaluation_config={'explore': True}, or the type 'DirectMethod'"
        )

    def probabilities(self, ids: np.ndarray) -> Tensor:
        """Return the probability of each action in rows `[M]`, `[M, A]`, if `is_discrete`."""
        inputs = self.inputs(ids)
        if not self.explore:
            greedy = self.distribution.mode(inputs)
            return one_hot(greedy, self.distribution.num_inputs).to(inputs.dtype)
        if isinstance(self.distribution, EpsilonGreedy):
            return self.distribution.probabilities(inputs)
        return inputs.softmax(-1)

    def draws(self, ids: np.ndarray, count: int, generator: torch.Generator) -> Tensor:
        """Return actions of the policy in rows `[M]`, as networks see them, `[M, count, d]`.

        Those that environments would take: clipped, as recorded ones are. A greedy policy has one
        action, whatever the count.
        """
        inputs = self.inputs(ids)
        if not self.explore:
            actions, count = self.distribution.mode(inputs), 1
        else:
            inputs = inputs.repeat_interleave(count, 0)
            actions = self.distribution.sample(inputs, generator)
        taken = self.policy.actions.to_stored_tensor(actions)
        return self.distribution.encode(taken).unflatten(0, (-1, count))


def in_parts(rows: ReadableRows, ids: np.ndarray) -> list[np.ndarray]:
    """Return row ids `[M]` in parts that are read at once: large observations in small ones."""
    size = rows.observations(ids[:1]).nbytes if len(ids) else 1
    at_once = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // max(size, 1)))
    return [ids[start : start + at_once] for start in range(0, len(ids), at_once)]


@torch.no_grad()
def _inputs_of(policy: Policy, rows: ReadableRows) -> Tensor:
    """Return the inputs of the policy's distribution in all rows, `[num_rows, num_inputs]`."""
    found, state = [], policy.initial_state(1)
    for ids in in_parts(rows, np.arange(rows.num_rows)):
        features = policy.features(rows.observations(ids))
        if not policy.is_recurrent:
            found.append(policy.module.dist_inputs(features))
            continue
        is_first = torch.from_numpy(rows.read("is_first", ids)).to(policy.device)
        sequence = map_tensors(lambda part: part.unsqueeze(1), features)
        inputs, state = policy.module.unroll_inputs(sequence, state, is_first.unsqueeze(1))
        found.append(inputs.squeeze(1))
    return torch.cat(found)
