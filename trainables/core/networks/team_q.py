"""Action values of a team: a network that all agents share, and a mixer of what it says of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.config.model import ModelConfig
from trainables.core.data.features import (
    ACTION_MASK,
    PREV_ACTION,
    PREV_REWARD,
    VECTOR,
    Features,
    FeatureSpec,
    map_tensors,
    vector_of,
)
from trainables.core.data.team import AGENTS
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy, TeamEpsilonGreedy
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import State
from trainables.core.networks.mixers import Mixer, MonotonicMixer, SumMixer
from trainables.core.networks.modules import PolicyModule, check_mask
from trainables.core.networks.q_network import QNetwork


class TeamQ(PolicyModule):
    """Q of each agent's actions by one network for all agents, and the mixer of Q_tot.

    Of a Dict observation with the key `agents` each agent sees its own part of what is there, and
    all the rest is the global state, which only the mixer sees: acting does without. If there is no
    rest, the state is what all agents see. Of any other observation each agent, and the mixer, sees
    everything.

    Args:
        spec: The features' description.
        distribution: `TeamEpsilonGreedy`.
        model: The `model` dict of the config: of the network that the agents share.
        generator: Random stream of the initial weights.
        monotonic: Whether Q_tot is that of a `MonotonicMixer`, or the sum of a `SumMixer`.
        mixing_embed_dim: See `MonotonicMixer`.
        hypernet_embed_dim: See `MonotonicMixer`.
        obs_agent_id: Whether an agent sees which one it is, one-hot.
        options: Those of the shared `QNetwork`.

    Attributes:
        agents: The network that the agents share.
        mixer: Q_tot of the values of the agents' actions.
        num_agents: The number of agents, G.
    """

    num_atoms = 1

    def __init__(
        self,
        spec: FeatureSpec,
        distribution: Distribution,
        model: ModelConfig | Mapping[str, Any],
        generator: torch.Generator | None = None,
        *,
        monotonic: bool = True,
        mixing_embed_dim: int = 32,
        hypernet_embed_dim: int = 64,
        obs_agent_id: bool = True,
        **options: Any,
    ):
        super().__init__()
        assert isinstance(distribution, TeamEpsilonGreedy)
        check_mask(spec, distribution)
        settings = ModelConfig.of(model)
        self.num_agents, self.num_actions = len(distribution.nvec), distribution.nvec[0]
        if spec.images:
            raise ConfigError(
                f"the observation has images ({', '.join(spec.images)}), which a team's networks "
                "do not take; allowed: vectors"
            )
        own, rest = _parts(spec, self.num_agents)
        self._own, self._state = own, rest or [*spec.slices.values()]
        self._has_id = obs_agent_id and self.num_agents > 1
        self.agents = QNetwork(
            self._spec_of_agent(spec),
            EpsilonGreedy(self.num_actions, distribution.temperature),
            settings,
            generator,
            **options,
        )
        self.is_recurrent, self.is_noisy = self.agents.is_recurrent, self.agents.is_noisy
        self.mixer: Mixer = SumMixer()
        if monotonic:
            num_states = sum(end - begin for begin, end in self._state)
            self.mixer = MonotonicMixer(
                self.num_agents,
                num_states,
                mixing_embed_dim,
                hypernet_embed_dim,
                settings.fcnet_initializer,
                generator,
            )

    def _spec_of_agent(self, spec: FeatureSpec) -> FeatureSpec:
        """Return the description of what one agent sees."""
        width = spec.num_features
        if self._own:
            width = sum(end - begin for begin, end in self._own) // self.num_agents
        return replace(
            spec,
            num_features=width + self._has_id * self.num_agents,
            slices={},
            num_mask=spec.num_mask // self.num_agents,
            num_prev_action=spec.num_prev_action // self.num_agents,
        )

    @classmethod
    def distribution_of(cls, space: gym.Space, model: ModelConfig, **options: Any) -> Distribution:
        temperature = options.get("temperature", 0.0)
        if isinstance(space, gym.spaces.Discrete):
            return TeamEpsilonGreedy(1, int(space.n), temperature, ())
        if isinstance(space, gym.spaces.MultiDiscrete):
            counts = {int(count) for count in space.nvec.ravel()}
            if len(counts) == 1:
                shape = space.nvec.shape
                return TeamEpsilonGreedy(int(np.prod(shape)), counts.pop(), temperature, shape)
        raise ConfigError(
            f"action space {space} is not supported by a team's Q-learning, which compares the "
            "values of all actions of each agent; supported: Discrete agents with as many actions "
            "each, or of one agent Discrete, or MultiDiscrete with equal parts; PPO takes every "
            "space"
        )

    # ------------------------------------------------------------------ what agents see

    def agents_features(self, features: Features) -> Features:
        """Return what each agent sees, `[..., G, …]`, of a team's features `[..., …]`."""
        count = self.num_agents
        vector = vector_of(features)
        assert vector is not None

        def for_all(part: Tensor) -> Tensor:
            return part.unsqueeze(-2).expand(*part.shape[:-1], count, part.shape[-1])

        def by_agent(part: Tensor) -> Tensor:
            return part.unflatten(-1, (count, part.shape[-1] // count))

        own = [by_agent(vector[..., begin:end]) for begin, end in self._own] or [for_all(vector)]
        if self._has_id:
            ids = torch.eye(count, dtype=vector.dtype, device=vector.device)
            own.append(ids.expand(*vector.shape[:-1], count, count))
        seen = torch.cat(own, -1) if len(own) > 1 else own[0]
        if not isinstance(features, dict):
            return seen
        made = {VECTOR: seen}
        for name in (ACTION_MASK, PREV_ACTION):
            if name in features:
                made[name] = by_agent(features[name])
        if PREV_REWARD in features:
            made[PREV_REWARD] = for_all(features[PREV_REWARD])
        return made

    def states(self, features: Features) -> Tensor:
        """Return the global state, `[..., S]`, of a team's features."""
        vector = vector_of(features)
        assert vector is not None
        parts = [vector[..., begin:end] for begin, end in self._state]
        return torch.cat(parts, -1) if len(parts) > 1 else parts[0]

    # ------------------------------------------------------------------ values

    def logits(self, features: Features) -> Tensor:
        """Return Q of every agent's actions, `[..., G, A, 1]`; see `QNetwork.logits`."""
        return self.agents.logits(self.agents_features(features))

    def expected(self, logits: Tensor) -> Tensor:
        """Return Q of `logits`, `[..., G, A]`."""
        return self.agents.expected(logits)

    def dist_inputs(self, features: Features) -> Tensor:
        return self.expected(self.logits(features)).flatten(-2)

    def q_values(self, features: Features) -> Tensor:
        """Return Q of every agent's actions, `[..., G, A]`; `ILLEGAL` of those that are masked."""
        return self.expected(self.logits(features))

    def acting_parameters(self) -> Iterator[nn.Parameter]:
        return self.agents.acting_parameters()

    def set_noise(self, generator: torch.Generator | None) -> None:
        self.agents.set_noise(generator)

    # ------------------------------------------------------------------ with a memory

    def initial_state(self, batch_size: int) -> State:
        """Return the state at an episode's start: of each agent its own, `[batch_size, G, …]`."""
        state = self.agents.initial_state(batch_size * self.num_agents)
        return self._each(state, lambda part: part.unflatten(0, (batch_size, self.num_agents)))

    def unroll_inputs(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        logits, after = self.unroll_logits(features, state, is_first, ends_unseen)
        return self.expected(logits).flatten(-2), after

    def unroll_logits(
        self, features: Features, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        """Return `logits` over sequences, `[L, B, G, A, 1]`, and the next state, `[B, G, …]`."""
        count = self.num_agents
        seen = map_tensors(lambda part: part.flatten(1, 2), self.agents_features(features))
        own = self._each(state, lambda part: part.flatten(0, 1))
        begins = is_first.repeat_interleave(count, 1)
        logits, after = self.agents.unroll_logits(seen, own, begins, ends_unseen)
        rows = logits.unflatten(1, (-1, count))
        return rows, self._each(after, lambda part: part.unflatten(0, (-1, count)))

    @staticmethod
    def _each(state: State, function: Callable[[Tensor], Tensor]) -> State:
        return {name: function(part) for name, part in state.items()}


def _parts(
    spec: FeatureSpec, num_agents: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return where in the vector part what agents see lies, leaf by leaf, and where the rest.

    Raises:
        ConfigError: if what agents see is not as wide for each.
    """
    own = {path: at for path, at in spec.slices.items() if path.split("/")[0] == AGENTS}
    for path, (begin, end) in own.items():
        if (end - begin) % num_agents:
            raise ConfigError(
                f"observation {path!r} has {end - begin} numbers for {num_agents} agents; allowed: "
                "as many for each"
            )
    return list(own.values()), [at for path, at in spec.slices.items() if path not in own]
