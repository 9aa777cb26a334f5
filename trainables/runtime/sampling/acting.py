"""`SlotActor`: a policy at work in the slots of a vector environment, and all that it remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.stored import like
from trainables.core.networks.memory import State, reset_state, state_arrays
from trainables.core.policy.actable import Actable, Acted
from trainables.runtime.random_streams import draw_seed
from trainables.runtime.sampling.row_checks import NamesSlots, check_masks, check_observations


class SlotActor:
    """Acts in all slots and keeps what is remembered of each: observation, memory, exploration.

    `observe` what the environment shows, `act` on it, step, and so on. Where slots have clocks of
    their own, both take a mask of the slots that are meant; the others stay as they were.

    Args:
        policy: The policy that acts. Neither it nor its filter statistics change.
        num_slots: Number of slots of the vector environment.
        place: Whose slots they are, for messages.
        seed: The seed of exploration.
        explore: Whether to sample actions instead of taking the most likely ones.

    Attributes:
        rows: The observations to act on next as the policy's layout stores them, `[N, *shape]`.
        is_first: Slots whose row begins an episode, `[N]`.
        place: Whose slots they are, for messages.
        explores: Whether actions are sampled.
        generator: The random stream of exploration.
        acted: What the policy did last; there is nothing before the first `act`.
        before: The state that each slot had when it acted last, zeros where an episode began.
        explored: What the explorer keeps of the slots.
    """

    acted: Acted
    before: State

    def __init__(
        self,
        policy: Actable,
        num_slots: int,
        place: NamesSlots,
        seed: np.random.SeedSequence,
        explore: bool,
    ):
        self.policy, self.num_slots = policy, num_slots
        self.place, self.explores = place, explore
        self._layout = policy.observations.layout
        self._has_mask = policy.observations.mask_path is not None
        self.generator = torch.Generator(policy.device)
        self.reseed(seed)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Forget all slots, which begin new episodes, and explore on the random stream of `seed`.

        What they show is still to be observed.
        """
        num_slots = self.num_slots
        self.generator.manual_seed(draw_seed(seed))
        self.explored = self.policy.explorer.start(num_slots)  # training's own is not disturbed
        self._state = self.before = self.policy.initial_state(num_slots)
        self._actions: Tensor | None = None  # each slot's last one
        self.rows = self._acted_on = self._layout.empty((num_slots,))
        self.is_first = np.ones(num_slots, bool)

    def observe(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        lengths: np.ndarray,
        *,
        out: np.ndarray | None = None,
        slots: np.ndarray | None = None,
    ) -> None:
        """Take note of what the environment shows after a step, or a reset.

        Args:
            obs: Observations, batched as the environment gave them.
            rewards: The rewards that came with them, `[N]`.
            is_first: Slots in which an episode begins, `[N]`.
            lengths: Steps of the slots' episodes that led to the observations, `[N]`.
            out: Where the rows are written, `[N, *shape]`; None: to new ones.
            slots: Slots that show something, `[N]` bool; None: all.

        Raises:
            SubEnvironmentError: if an observation is no finite numbers.
        """
        observations, extras = self.policy.observations, None
        if self._actions is not None:  # else there is nothing yet to forget
            if self.explored:
                begins = is_first if slots is None else is_first & slots
                self.policy.explorer.restart(self.explored, begins)
            if self._layout.has_extras:
                extras = observations.extras(self._actions, rewards, is_first)
        if out is None:
            rows = self._layout.rows(obs, extras)
        else:
            rows = out
            self._layout.write(rows, obs, extras)
        if slots is not None:
            shown, rows = rows, self.rows.copy()  # of which others may have views
            rows[slots] = shown[slots]
            is_first = np.where(slots, is_first, self.is_first)
        self.rows, self.is_first = rows, is_first
        check_observations(observations, rows, lengths, self.place)

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return actions for the environment, of all slots.

        Args:
            resets_next: Slots whose observation is an episode's last one: nobody acts on it. `[N]`.
            lengths: Steps of the slots' episodes so far, `[N]`.
            slots: Slots that act, `[N]` bool; None: all. The policy looks at all at once, but what
                it says of the others is neither used nor remembered.

        Raises:
            ConfigError: if a slot's mask allows no action.
        """
        policy, rows, before = self.policy, self.rows, self._state
        if self._has_mask:
            check_masks(policy.observations, rows, resets_next, lengths, self.place)
        if before:
            before = reset_state(before, self.is_first if slots is None else self.is_first & slots)
        if slots is None:
            acted = policy.act(rows, self.explores, self.generator, before, self.explored)
        else:
            acted = self._act_apart(before, slots)
            before = {
                name: _merged(slots, part, self.before[name]) for name, part in before.items()
            }
        self._acted_on, self.before, self.acted = rows, before, acted
        self._actions, self._state = acted.actions, acted.state
        return acted.env_actions

    def _act_apart(self, before: State, slots: np.ndarray) -> Acted:
        """Return what the policy does in some slots; of the others all stays as it was."""
        kept = {name: part.clone() for name, part in self.explored.items()}
        acted = self.policy.act(self.rows, self.explores, self.generator, before, self.explored)
        for name, part in kept.items():  # noise that has a memory waits with its slot
            if len(part) == self.num_slots:
                self.explored[name] = _merged(slots, self.explored[name], part)
        actions = acted.actions
        if self._actions is not None:
            actions = _merged(slots, actions, self._actions)
        state = {name: _merged(slots, part, before[name]) for name, part in acted.state.items()}
        return acted._replace(actions=actions, state=state)

    def grow(self, num_slots: int) -> None:
        """Have more slots behind those there are; they have seen nothing yet.

        Args:
            num_slots: All slots from here on, more than before.
        """
        old, self.num_slots = self.num_slots, num_slots
        policy = self.policy
        rows, is_first = self._layout.zeros((num_slots,)), np.ones(num_slots, bool)
        rows[:old], is_first[:old] = self.rows, self.is_first
        self.rows = self._acted_on = rows
        self.is_first = is_first
        explored = policy.explorer.start(num_slots)
        for name, part in self.explored.items():
            if len(part) == old:
                explored[name][:old] = part
            else:  # of all slots together
                explored[name] = part
        self.explored = explored
        self._state = _longer(self._state, policy.initial_state(num_slots))
        self.before = _longer(self.before, policy.initial_state(num_slots))
        if self._actions is not None:
            added = self._actions.new_zeros((num_slots - old, *self._actions.shape[1:]))
            self._actions = torch.cat([self._actions, added])

    def follow(self, rows: np.ndarray, actions: Tensor, is_first: np.ndarray) -> None:
        """Go on from what the policy did elsewhere; it has neither a memory nor noise of its own.

        Args:
            rows: The observations to act on next, `[N, *shape]`.
            actions: Its last actions, `[N, …]`.
            is_first: Slots whose row begins an episode, `[N]`.
        """
        self.rows = self._acted_on = rows
        self.is_first, self._actions = is_first, actions

    def let_go(self) -> None:
        """Copy the rows to act on next: whoever was given what they are written to may have it."""
        self.rows = self._acted_on = self.rows.copy()

    def policy_outputs(self) -> dict[str, np.ndarray]:
        """Return what the policy thought of its last actions: see `Actable.policy_outputs`."""
        return self.policy.policy_outputs(self._acted_on, self.before, self.acted)

    # ------------------------------------------------------------------ state

    def get_state(self) -> dict[str, Any]:
        """Return a copy of what is remembered, the random stream included."""
        return {
            "generator": self.generator.get_state(),
            "obs": self._layout.to_state(self.rows),
            "is_first": self.is_first.copy(),
            "recurrent": state_arrays(self._state),
            "explored": state_arrays(self.explored),
        }

    def fits(self, state: dict[str, Any]) -> bool:
        """Tell whether `set_state` can go on with a state's random stream.

        A GPU's generator cannot go on on a CPU, nor the other way round.
        """
        return bool(state["generator"].shape == self.generator.get_state().shape)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s, which fits.

        Raises:
            ConfigError: if shapes are others.
        """
        self.generator.set_state(state["generator"])
        self.rows = like(self.rows, self._layout.from_state(state["obs"]), "obs")
        self.is_first = like(self.is_first, state["is_first"], "is_first")
        self._state = {
            name: torch.as_tensor(
                like(part.numpy(force=True), state["recurrent"][name], name),
                device=self.policy.device,
            )
            for name, part in self.policy.initial_state(self.num_slots).items()
        }
        for name, kept in state.get("explored", {}).items():
            if name in self.explored:
                own = self.explored[name].numpy(force=True)
                self.explored[name] = torch.from_numpy(like(own, kept, name))


def _longer(state: State, longer: State) -> State:
    """Return a longer state with the slots of a shorter one in front."""
    for name, part in state.items():
        longer[name][: len(part)] = part
    return longer


def _merged(slots: np.ndarray, new: Tensor, old: Tensor) -> Tensor:
    """Return the new rows of the slots in the mask, the old ones of the others."""
    chosen = torch.from_numpy(slots).to(new.device)
    return torch.where(chosen.view(-1, *[1] * (new.dim() - 1)), new, old)
