"""The behaviour policy's probabilities where nobody noted them: estimated by behaviour cloning."""

from __future__ import annotations

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
from trainables.core.learning.recorded_likelihood import recorded_likelihood
from trainables.core.logs import logger
from trainables.core.networks.encoders import network
from trainables.core.policy.policy import Policy

_UPDATES, _MINIBATCH_SIZE, _LR = 2000, 256, 1e-3
_ROWS_AT_ONCE = 4096


def with_estimated_logp(
    recorded: RecordedEpisodes, policy: Policy, rng: np.random.Generator
) -> RecordedEpisodes:
    """Return episodes whose log-probabilities are all known, those that were not by estimation.

    A policy network without memory is fitted to the steps in question by maximum likelihood. An
    estimate made with it is only as good as that policy is like the one that recorded.

    Args:
        recorded: With NaN where nobody noted a probability.
        policy: Knows how observations and actions are seen; its weights do not matter.
        rng: Seeds weights and draws.
    """
    unknown = np.flatnonzero(np.isnan(recorded.logp))
    if not len(unknown):
        return recorded
    ids = recorded.ids[unknown]
    distribution = _distribution(policy)
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    spec = policy.observations.preprocessor.spec
    actor = network(spec, ModelConfig(), distribution.num_inputs, 0.01, generator).to(policy.device)
    optimizer = torch.optim.Adam(actor.parameters(), lr=_LR)
    for _ in range(_UPDATES):
        drawn = ids[rng.integers(len(ids), size=_MINIBATCH_SIZE)]
        logp, excess = _logp(actor, policy, distribution, recorded, drawn)
        loss = -logp.mean() + excess
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    logps = recorded.logp.copy()
    with torch.no_grad():
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            found, _ = _logp(actor, policy, distribution, recorded, ids[rows])
            logps[unknown[rows]] = found.double().cpu().numpy()
    logger.warning(
        "%s: nobody noted the probabilities of %d of %d steps. They are estimated by behaviour "
        "cloning (mean log-likelihood %.3f nats); estimates by importance weights rest on that",
        *(recorded.name, len(unknown), len(logps), float(logps[unknown].mean())),
    )
    return replace(recorded, logp=logps)


def _distribution(policy: Policy) -> Distribution:
    """Return what the behaviour is taken to draw from; actions are stored as the policy's are."""
    own = policy.distribution
    return Categorical(own.num_inputs) if isinstance(own, EpsilonGreedy) else own


def _logp(
    actor: nn.Module,
    policy: Policy,
    distribution: Distribution,
    recorded: RecordedEpisodes,
    ids: np.ndarray,
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of what was done in rows `[M]`; see `recorded_likelihood`."""
    features = policy.features(recorded.rows.observations(ids))
    inputs, mask = actor(features), action_mask_of(features)
    if mask is not None:
        inputs = distribution.mask(inputs, mask)
    actions = torch.from_numpy(recorded.rows.read("actions", ids)).to(policy.device)
    return recorded_likelihood(inputs, actions, distribution)
