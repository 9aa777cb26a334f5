"""Importance weights of recorded actions, and how far an estimate can rest on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.logs import logger
from trainables.core.overlap import rests_on_too_few

_LARGEST = 600.0  # of a logarithm: sums of exp of it are still finite


@dataclass(frozen=True)
class ImportanceWeights:
    """How much likelier recorded actions are under the target policy.

    Attributes:
        log_ratios: log pi(a|s) - log b(a|s) of each step, `[E, H]`; 0 behind an episode's end, so
            that its product stays what it was (an absorbing state without reward).
    """

    log_ratios: np.ndarray

    @classmethod
    def of(cls, recorded: RecordedEpisodes, target_logp: np.ndarray) -> ImportanceWeights:
        """Return the weights of recorded steps.

        Args:
            recorded: With the behaviour's log-probabilities.
            target_logp: The target policy's, `[N]`.

        Raises:
            ConfigError: if the behaviour did what it says that it never does.
        """
        impossible = np.flatnonzero(~(recorded.logp > -np.inf))
        if len(impossible):
            step = int(impossible[0])
            raise ConfigError(
                f"{recorded.name}: the step in row {recorded.ids[step]} has the log-probability "
                f"{recorded.logp[step]} under the policy that took it; allowed: a finite number"
            )
        return cls(recorded.padded(target_logp - recorded.logp))

    @cached_property
    def ratios(self) -> np.ndarray:
        """Pi / b of each step, `[E, H]`; 1 behind an episode's end."""
        return _exp(self.log_ratios)

    @cached_property
    def log_products(self) -> np.ndarray:
        """The logarithm of `products`, which may be of any size, `[E, H]`."""
        return np.cumsum(self.log_ratios, axis=1)

    @cached_property
    def products(self) -> np.ndarray:
        """The product of ratios up to each step, its own included, `[E, H]`."""
        return _exp(self.log_products)

    @cached_property
    def relative_products(self) -> np.ndarray:
        """`products` over the largest of all episodes at each step, however large, `[E, H]`."""
        largest = self.log_products.max(axis=0)
        return np.exp(self.log_products - np.where(largest > -np.inf, largest, 0.0))

    @property
    def of_episodes(self) -> np.ndarray:
        """The product of all ratios of each episode, `[E]`."""
        return self.products[:, -1]

    @property
    def effective_sample_size(self) -> float:
        """Equally weighted episodes that would say as much: `(sum w)^2 / sum w^2` (Kong, 1992).

        It is 0 where no episode could be the target policy's.
        """
        weights = self.relative_products[:, -1]
        if not weights.any():
            return 0.0
        return float(weights.sum() ** 2 / np.square(weights).sum())


def _exp(logs: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(logs, _LARGEST))


def warn_of_overlap(name: str, size: float, num_episodes: int) -> bool:
    """Warn if an estimate rests on too few episodes to be worth anything; return whether it does.

    Args:
        name: Of the estimator.
        size: The effective sample size.
        num_episodes: How many there are.
    """
    if not rests_on_too_few(size, num_episodes):
        return False
    logger.warning(
        "evaluation: the estimate of %r rests on %.1f of %d episodes (effective sample size), so "
        "it is worth little: the policy acts unlike the one that recorded them. Its interval says "
        "too little, too. DirectMethod needs no overlap of whole episodes",
        name,
        size,
        num_episodes,
    )
    return True
