"""The settings inside the `replay_buffer_config` dict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.settings import MEMORY, MOST_ROWS, Settings, setting
from trainables.core.errors import ConfigError

UNIFORM_TYPES = (
    "ReplayBuffer",
    "EpisodeReplayBuffer",
    "MultiAgentReplayBuffer",
    "MultiAgentEpisodeReplayBuffer",
)
PRIORITIZED_TYPES = (
    "PrioritizedReplayBuffer",
    "PrioritizedEpisodeReplayBuffer",
    "MultiAgentPrioritizedReplayBuffer",
    "MultiAgentPrioritizedEpisodeReplayBuffer",
)
STORAGES = ("native", "uint8", "compressed")

_ALIASES = {
    "prioritized_replay_alpha": "alpha",
    "prioritized_replay_beta": "beta",
    "prioritized_replay_eps": "eps",
}
# Names of the reference that are accepted with one value only.
_CONSTANTS = {
    "_enable_replay_buffer_api": (True, "there is one replay buffer API"),
    "replay_sequence_length": (1, "with a memory it is max_seq_len and burn_in_len"),
    "storage_unit": ("timesteps", "capacity counts rows, one for each step"),
}
# Values of the reference's defaults that have no effect there either.
_NO_EFFECT: dict[str, tuple[Any, ...]] = {
    "worker_side_prioritization": (False, -1),
    "prioritized_replay": (False, -1),
    "replay_sequence_length": (1, -1),
    "replay_mode": ("independent", -1),
    "learning_starts": (-1,),
    "replay_batch_size": (-1,),
}
_REFUSED = {
    "worker_side_prioritization": "priorities follow from the learner's errors",
    "prioritized_replay": "use type: ReplayBuffer or PrioritizedReplayBuffer",
    "replay_mode": "there is one agent",
    "replay_batch_size": "use train_batch_size_per_learner",
    "learning_starts": "use num_steps_sampled_before_learning_starts",
}

# Why a run that goes on with a stored buffer cannot change it.
_STORED = "the buffer that a clone takes over is stored with it"


@dataclass
class ReplayBufferConfig(Settings):
    """Settings of the replay buffer, given as `replay_buffer_config={…}`."""

    what: ClassVar[str] = "replay_buffer_config setting"
    also_called: ClassVar[str] = "replay_buffer_config"

    type: str = setting(
        "ReplayBuffer",
        "replay",
        "uniform or prioritised; RLlib's episode and multi-agent names mean the same",
        choices=UNIFORM_TYPES + PRIORITIZED_TYPES,
        fixed=_STORED,
    )
    capacity: int = setting(
        50_000,
        "replay",
        "rows: environment steps, and one for each episode's final observation",
        ge=2,
        le=MOST_ROWS,
        fixed=_STORED,
        harmless=(2, 10_000_000),
        risk=MEMORY,
    )
    alpha: float = setting(
        0.6,
        "replay",
        "exponent of the priorities, 0 is uniform (prioritised)",
        ge=0,
        le=1,
        fixed=_STORED,
    )
    beta: float | list[Any] = setting(
        0.4,
        "replay",
        "exponent of the importance weights, 1 corrects the bias in full (prioritised)",
        ge=0,
        le=1,
        schedule=True,
    )
    eps: float = setting(
        1e-6,
        "replay",
        "added to priorities, so that none is zero (prioritised)",
        gt=0,
        fixed=_STORED,
    )
    storage: str = setting(
        "native",
        "replay",
        "unchanged observations, floats in 256 levels (lossy), or compression by lz4 (lossless)",
        choices=STORAGES,
        fixed=_STORED,
    )

    @property
    def prioritized(self) -> bool:
        """Whether rows are drawn by their priorities."""
        return self.type in PRIORITIZED_TYPES

    @classmethod
    def known_names(cls) -> Iterable[str]:
        return [*cls.settings(), *_ALIASES]

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return canonical names and checked values of a dict; search domains pass.

        Raises:
            ConfigError: for an unknown or unsupported name, or a value that is not allowed.
        """
        return super().check(_canonical(values))


def _canonical(values: Mapping[str, Any]) -> dict[str, Any]:
    """Map older names, drop what is always so, refuse what is not supported."""
    canonical: dict[str, Any] = {}
    for given, value in values.items():
        name = _ALIASES.get(given, given)
        if name in _NO_EFFECT and value in _NO_EFFECT[name]:
            continue
        if name in _REFUSED:
            raise ConfigError(f"replay_buffer_config: {name} is not supported: {_REFUSED[name]}")
        if name in _CONSTANTS:
            constant, why = _CONSTANTS[name]
            if value is not None and value != constant:
                raise ConfigError(
                    f"replay_buffer_config: {name} = {value!r} is not supported; it is always "
                    f"{constant!r} here: {why}"
                )
        elif name in canonical and canonical[name] != value:
            raise ConfigError(
                f"replay_buffer_config: {name!r} is given twice with different values"
            )
        else:
            canonical[name] = value
    return canonical
