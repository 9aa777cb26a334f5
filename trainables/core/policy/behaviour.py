"""Policies to record with: another one with uniform actions mixed in, and one that knows nothing.

What they say of an action's log-probability is exact, or they say nothing.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.data.layout import ObservationLayout
from trainables.core.data.spaces import leaf_spaces, leaves_of, tree_of_leaves
from trainables.core.distributions.base import ByValue, Distribution
from trainables.core.distributions.build import distribution_for
from trainables.core.distributions.joint import Joint
from trainables.core.errors import ConfigError
from trainables.core.networks.memory import State
from trainables.core.policy.actable import Actable, Acted
from trainables.core.policy.actions import ActionConnector
from trainables.core.policy.explorers import Explorer, SlotState
from trainables.core.policy.policy import Policy

_MASK = "action_mask"


class Behaviour:
    """Another policy, but some actions are uniformly random; `Actable`, as that one is.

    Args:
        policy: The policy that acts.
        epsilon: The probability of each action to be uniformly random instead.
        may_be_random: Whether slots will be told to act uniformly at random.

    Attributes:
        logp: Log-probabilities of the last actions, under all that this does, `[N]`; NaN where they
            are not known exactly.
        random_slots: The slots that act uniformly at random, `[N]` bool; None: none.

    Raises:
        ConfigError: if the policy is an exported graph, or its actions have no bounds, and some are
            to be random.
    """

    def __init__(self, policy: Actable, *, epsilon: float = 0.0, may_be_random: bool = False):
        self._policy, self._epsilon = policy, epsilon
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.device, self.metadata = policy.device, policy.metadata
        self.has_state = policy.has_state
        self.observations, self.explorer = policy.observations, policy.explorer
        self.random_slots: np.ndarray | None = None
        self.logp = np.empty(0, np.float32)
        if not (epsilon or may_be_random):
            return
        if not isinstance(policy, (Policy, UniformPolicy)):
            raise ConfigError(
                "an exported graph acts greedily only; allowed: a policy or checkpoint to mix "
                "uniformly random actions in"
            )
        check_uniform(policy.action_space)
        if isinstance(policy, Policy) and policy.module_to_env is not None:
            raise ConfigError(
                "the policy has module_to_env connectors, which uniformly random actions would "
                "pass by; allowed: neither epsilon nor random episodes"
            )

    def initial_state(self, batch_size: int) -> State:
        """Return the state at an episode's start, `[B, …]` by name: zeros."""
        return self._policy.initial_state(batch_size)

    @torch.inference_mode()
    def act(
        self,
        obs: np.ndarray,
        explore: bool,
        generator: torch.Generator | None = None,
        state: State | None = None,
        slots: SlotState | None = None,
    ) -> Acted:
        """Act on rows `[N, *shape]`; see `Policy.act`."""
        acted = self._policy.act(obs, explore, generator, state, slots)
        is_random = self._drawn(len(obs), generator)
        mixed = acted
        if is_random.any():
            mixed = self._mixed(acted, is_random, generator)
        self.logp = self._logp(acted.inputs, mixed.actions, explore)
        return mixed

    def policy_outputs(self, rows: np.ndarray, state: State, acted: Acted) -> dict[str, np.ndarray]:
        """Return what led to actions; see `Actable`."""
        return self._policy.policy_outputs(rows, state, acted)

    def _drawn(self, count: int, generator: torch.Generator | None) -> np.ndarray:
        """Return the slots whose action is uniformly random, `[N]`."""
        slots = np.zeros(count, bool) if self.random_slots is None else self.random_slots
        if not self._epsilon:
            return slots
        draws = torch.rand(count, generator=generator, device=self.device).cpu().numpy()
        return slots | (draws < self._epsilon)

    def _mixed(
        self, acted: Acted, is_random: np.ndarray, generator: torch.Generator | None
    ) -> Acted:
        policy: Any = self._policy
        uniform = uniform_actions(policy, acted.inputs, generator)
        chosen = torch.from_numpy(is_random).to(acted.actions.device)
        shape = (-1, *[1] * (acted.actions.dim() - 1))
        actions = torch.where(chosen.view(shape), uniform.actions, acted.actions)
        mine, others = (leaves_of(self.action_space, a.env_actions) for a in (uniform, acted))
        leaves = {path: _where(is_random, mine[path], others[path]) for path in others}
        return acted._replace(
            actions=actions, env_actions=tree_of_leaves(self.action_space, leaves)
        )

    def _logp(self, inputs: Tensor, actions: Tensor, explore: bool) -> np.ndarray:
        """Return the log-probability of actions `[N, …]`, `[N]`; NaN: it is not known exactly."""
        unknown = np.full(len(inputs), np.nan, np.float32)
        if not isinstance(self._policy, (Policy, UniformPolicy)):
            return unknown
        distribution = self._policy.distribution
        own = self._own_logp(inputs, actions, explore)
        if not is_discrete(distribution):
            mixes = self._epsilon or self.random_slots is not None
            return unknown if mixes or own is None else own.cpu().numpy().astype(np.float32)
        if own is None and self._epsilon < 1 and self.random_slots is None:
            return unknown
        uniform = uniform_logp(distribution, inputs, actions).double()
        share = torch.full_like(uniform, self._epsilon)
        if self.random_slots is not None:
            share[torch.from_numpy(self.random_slots).to(share.device)] = 1.0
        if own is None:
            own = torch.full_like(uniform, math.nan)
        both = torch.logaddexp(torch.log1p(-share) + own.double(), share.log() + uniform)
        found = torch.where(share == 1, uniform, torch.where(share == 0, own.double(), both))
        return found.cpu().numpy().astype(np.float32)

    def _own_logp(self, inputs: Tensor, actions: Tensor, explore: bool) -> Tensor | None:
        """Return what the policy alone would do with which log-probability, `[N]`."""
        policy: Any = self._policy
        if not isinstance(policy, UniformPolicy):
            return acting_logp(policy, inputs, actions, explore=explore)
        if not is_discrete(policy.distribution):
            return None
        return uniform_logp(policy.distribution, inputs, actions)


def acting_logp(policy: Policy, inputs: Tensor, actions: Tensor, *, explore: bool) -> Tensor | None:
    """Return the log-probability of actions as a policy acts, `[N]`; None: it is not known.

    That of what the environment is given, see `ActionConnector.logp`.

    Args:
        policy: Who would act.
        inputs: Of its distribution, `[N, num_inputs]`.
        actions: As the distribution stores them, `[N, …]`.
        explore: Whether it draws its actions, or takes the most likely ones.
    """
    distribution = policy.distribution
    if policy.module_to_env is not None:
        return None  # several actions may become one there
    if explore:
        # Noise, on actions or parameters, has a density of its own.
        plain = type(policy.explorer) is Explorer and not policy.module.is_noisy
        if not plain or policy.explorer.uniform:
            return None
        return policy.actions.logp(inputs, actions)
    if not is_discrete(distribution):
        return None  # one action has all the probability: there is no density
    same = (distribution.mode(inputs) == actions).reshape(len(inputs), -1).all(1)
    return torch.where(same, 0.0, -math.inf)


class UniformPolicy:
    """Draws every action uniformly, of those that a mask allows; `Actable`, without a network.

    Args:
        observation_space: The space of one environment's observations.
        action_space: The space of one environment's actions.
        action_mask_key: The key of a Dict observation that says which actions are allowed.

    Raises:
        ConfigError: if actions have no bounds.
    """

    has_state = False
    device = torch.device("cpu")

    def __init__(
        self,
        observation_space: gym.Space,
        action_space: gym.Space,
        *,
        action_mask_key: str = _MASK,
    ):
        check_uniform(action_space)
        self.observation_space, self.action_space = observation_space, action_space
        self.metadata: dict[str, Any] = {}
        self.distribution = distribution_for(action_space)
        self.actions = ActionConnector(action_space, self.distribution, normalize=True, clip=False)
        self.observations = _RawObservations(
            ObservationLayout(observation_space), action_mask_key, self.distribution
        )
        self.explorer = _NoMemory()

    def initial_state(self, batch_size: int) -> State:
        """Return no state."""
        return {}

    @torch.inference_mode()
    def act(
        self,
        obs: np.ndarray,
        explore: bool,
        generator: torch.Generator | None = None,
        state: State | None = None,
        slots: SlotState | None = None,
    ) -> Acted:
        """Act on rows `[N, *shape]`; see `Policy.act`."""
        inputs = torch.zeros(len(obs), self.distribution.num_inputs)
        mask = self.observations.mask(obs)
        if mask is not None:
            inputs = self.distribution.mask(inputs, mask)
        return uniform_actions(self, inputs, generator)

    def policy_outputs(self, rows: np.ndarray, state: State, acted: Acted) -> dict[str, np.ndarray]:
        """Return what led to actions."""
        return {"action_dist_inputs": acted.inputs.numpy()}


class _NoMemory:
    """Slots that remember nothing of exploring."""

    def start(self, num_slots: int) -> SlotState:
        return {}

    def restart(self, slots: SlotState, begins: np.ndarray) -> None:
        pass


class _RawObservations:
    """Observations as they are; only a mask is looked at."""

    def __init__(self, layout: ObservationLayout, mask_key: str, distribution: Distribution):
        self.layout, self._distribution = layout, distribution
        mask = layout.leaf_spaces.get(mask_key)
        size = 0 if mask is None else math.prod(mask.shape or ())
        is_mask = size > 0 and size == distribution.num_mask
        self.mask_path: str | None = mask_key if is_mask else None

    def extras(self, actions: Tensor | None, rewards: Any, is_first: Any) -> dict[str, Any] | None:
        return None

    def not_finite(self, rows: np.ndarray) -> tuple[int, str] | None:
        return self.layout.not_finite(rows)

    def without_action(self, obs: np.ndarray) -> np.ndarray | None:
        mask = self.mask(obs)
        return None if mask is None else (~self._distribution.allows_something(mask)).numpy()

    def mask(self, obs: np.ndarray) -> Tensor | None:
        """Return which actions observations `[N]` allow, `[N, num_mask]`; None: no mask."""
        if self.mask_path is None:
            return None
        return torch.from_numpy(obs[self.mask_path].reshape(len(obs), -1) != 0)


def is_discrete(distribution: Distribution) -> bool:
    """Tell whether a distribution is over choices only, whose probabilities can be mixed."""
    if isinstance(distribution, Joint):
        return all(is_discrete(part) for part in distribution.parts.values())
    return bool(distribution.num_mask)


def check_uniform(space: gym.Space) -> None:
    """Raise if there is no uniform distribution over a space.

    Raises:
        ConfigError: naming the leaf without bounds.
    """
    for path, leaf in leaf_spaces(space, "action space").items():
        if isinstance(leaf, gym.spaces.Box) and not leaf.is_bounded():
            raise ConfigError(
                f"uniformly random actions need bounds, which {leaf} of the action space has not "
                f"({path})"
            )


def uniform_actions(policy: Any, inputs: Tensor, generator: torch.Generator | None) -> Acted:
    """Return uniformly random actions of a policy's action space, `[N, …]`.

    Args:
        policy: Has `distribution`, `actions` and `action_space`.
        inputs: The distribution's inputs, which say what is masked, `[N, num_inputs]`.
        generator: Random stream.
    """
    if is_discrete(policy.distribution):
        actions = policy.distribution.uniform(inputs, generator)
        return Acted(actions, policy.actions(actions), inputs, {})
    space, count = policy.action_space, len(inputs)
    drawn = {p: _draw(leaf, count, generator) for p, leaf in leaf_spaces(space).items()}
    env_actions = tree_of_leaves(space, drawn)
    return Acted(policy.actions.to_stored(env_actions), env_actions, inputs, {})


def uniform_logp(distribution: Distribution, inputs: Tensor, actions: Tensor) -> Tensor:
    """Return the log-probability of actions `[N, …]` drawn uniformly of those not masked, `[N]`."""
    # What is masked has the largest numbers that there are; all else is alike.
    level = torch.where(inputs.abs() == torch.finfo(inputs.dtype).max, inputs, 0.0)
    if isinstance(distribution, ByValue):  # whose inputs are values, not logits
        return distribution.as_logits().logp(level, actions)
    return distribution.logp(level, actions)


def _where(chosen: np.ndarray, mine: Any, others: Any) -> np.ndarray:
    """Return the one rows `[N, …]` where a mask `[N]` says so, else the others."""
    return np.where(chosen.reshape(-1, *[1] * (np.ndim(others) - 1)), mine, others)


def _draw(space: gym.Space, count: int, generator: torch.Generator | None) -> np.ndarray:
    """Return values of a leaf, `[N, *shape]`."""
    draws = torch.rand((count, *(space.shape or ())), generator=generator, dtype=torch.float64)
    part: Any = draws.numpy()
    if isinstance(space, gym.spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        whole = space.dtype.kind != "f"
        values = low + part * (high - low + whole)
        values = np.floor(values) if whole else values
        return values.clip(low, high).astype(space.dtype)
    if isinstance(space, gym.spaces.MultiBinary):
        return (part < 0.5).astype(space.dtype)
    choices: Any = space
    counts = choices.nvec if isinstance(space, gym.spaces.MultiDiscrete) else choices.n
    return (choices.start + np.floor(part * counts)).astype(space.dtype)
