"""The behaviour policy's probabilities where nobody noted them: estimated by behaviour cloning."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import action_mask_of
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.target_policy import in_parts
from trainables.core.learning.optimizers import step
from trainables.core.learning.recorded_actions import bounded_log_stds
from trainables.core.logs import logger
from trainables.core.networks.encoders import network
from trainables.core.policy.policy import Policy

_MOST_UPDATES, _MINIBATCH_SIZE, _LR = 5000, 256, 1e-3
_HELD_OUT = 0.2  # of the episodes, whose likelihood says when to stop
_UPDATES_PER_LOOK, _PATIENCE = 100, 5

Likelihood = Callable[[np.ndarray], tuple[Tensor, Tensor]]
"""Of rows `[M]`: log-probabilities `[M]` of what was done, and a scalar to add to their loss."""


def with_estimated_logp(
    recorded: RecordedEpisodes, policy: Policy, seed: int = 0
) -> RecordedEpisodes:
    """Return episodes whose log-probabilities are all known, those that were not by estimation.

    A policy network without memory is fitted to the steps in question by maximum likelihood. An
    estimate made with it is only as good as that policy is like the one that recorded.

    Args:
        recorded: With NaN where nobody noted a probability.
        policy: Knows how observations and actions are seen; its weights do not matter.
        seed: Of weights and draws: one for all trials, which are compared by what rests on it.
    """
    is_unknown = np.isnan(recorded.logp)
    if not is_unknown.any():
        return recorded
    rng = np.random.default_rng(seed)
    own = policy.distribution
    distribution = Categorical(own.num_inputs) if isinstance(own, EpsilonGreedy) else own
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    spec = policy.observations.preprocessor.spec
    actor = network(spec, ModelConfig(), distribution.num_inputs, 0.01, generator).to(policy.device)

    def likelihood(ids: np.ndarray) -> tuple[Tensor, Tensor]:
        return _likelihood(actor, policy, distribution, recorded, ids)

    is_held_out = np.repeat(rng.random(len(recorded)) < _HELD_OUT, recorded.lengths)
    learned = recorded.ids[is_unknown & ~is_held_out]
    held_out = in_parts(recorded.rows, recorded.ids[is_unknown & is_held_out])
    if len(learned):
        _fit(actor, likelihood, learned, held_out, rng)
    logp = recorded.logp.copy()
    logp[is_unknown] = _logp_of(likelihood, in_parts(recorded.rows, recorded.ids[is_unknown]))
    logger.warning(
        "%s: nobody noted the probabilities of %d of %d steps. They are estimated by behaviour "
        "cloning (mean log-likelihood %.3f nats); estimates by importance weights rest on that",
        *(recorded.name, is_unknown.sum(), len(logp), float(logp[is_unknown].mean())),
    )
    return replace(recorded, logp=logp)


def _fit(
    actor: nn.Module,
    likelihood: Likelihood,
    learned: np.ndarray,
    held_out: list[np.ndarray],
    rng: np.random.Generator,
) -> None:
    """Maximise the likelihood of rows, and stop where that of others is greatest.

    A policy that knows the recorded actions by heart would give them all a probability of one.

    Args:
        actor: The network, which is left with its best weights.
        likelihood: Of rows, under the network.
        learned: The rows to learn from, `[M]`.
        held_out: The rows that say when to stop, in parts; without any it learns to the end.
        rng: Draws minibatches.
    """
    optimizer = torch.optim.Adam(actor.parameters(), lr=_LR, fused=True)
    best, weights, looks_since = -np.inf, deepcopy(actor.state_dict()), 0
    for update in range(1, _MOST_UPDATES + 1):
        drawn = learned[rng.integers(len(learned), size=_MINIBATCH_SIZE)]
        logp, excess = likelihood(drawn)
        optimizer.zero_grad()
        (excess - logp.mean()).backward()
        step(optimizer)
        if update % _UPDATES_PER_LOOK or not len(held_out):
            continue
        found = float(_logp_of(likelihood, held_out).mean())
        if found > best:
            best, weights, looks_since = found, deepcopy(actor.state_dict()), 0
            continue
        looks_since += 1
        if looks_since == _PATIENCE:
            break
    if len(held_out):
        actor.load_state_dict(weights)


def _likelihood(
    actor: nn.Module,
    policy: Policy,
    distribution: Distribution,
    recorded: RecordedEpisodes,
    ids: np.ndarray,
) -> tuple[Tensor, Tensor]:
    """Return what `Likelihood` says, of rows `[M]`: by the measure that the target's have."""
    features = policy.features(recorded.rows.observations(ids))
    inputs, mask = actor(features), action_mask_of(features)
    if mask is not None:
        inputs = distribution.mask(inputs, mask)
    actions = torch.from_numpy(recorded.rows.read("actions", ids)).to(policy.device)
    inputs, excess, _ = bounded_log_stds(inputs, distribution)
    return distribution.taken_logp(inputs, actions, policy.actions.taken), excess


@torch.no_grad()
def _logp_of(likelihood: Likelihood, parts: list[np.ndarray]) -> np.ndarray:
    """Return log-probabilities of rows in parts, `[M]`, float64."""
    return np.concatenate([likelihood(part)[0].double().cpu().numpy() for part in parts])
