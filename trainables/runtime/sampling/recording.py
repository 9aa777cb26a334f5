"""`SlotRecorder`: a policy acts in slots, and what happens there becomes the rows of a rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.networks.memory import stacked_states, state_arrays
from trainables.core.policy.filter import RunningMoments
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.make import env_name
from trainables.runtime.sampling.acting import SlotActor
from trainables.runtime.sampling.row_checks import NamesSlots, Place
from trainables.runtime.sampling.whole_episodes import WholeEpisodes


class Running(NamedTuple):
    """Where the slots of an env runner are between two fragments, `[N]` each.

    Attributes:
        resets_next: Slots whose next row only resets.
        returns: Sums of the running episodes' rewards.
        lengths: Their steps.
    """

    resets_next: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray


class StepColumns:
    """What the environment says of all slots while they are sampled, `[T, N]`.

    Every row is to be written.
    """

    def __init__(self, num_steps: int, num_envs: int):
        shape = (num_steps, num_envs)
        self.rewards = np.empty(shape, np.float32)
        self.terminated, self.truncated = np.empty(shape, bool), np.empty(shape, bool)
        self.valid = np.empty(shape, bool)

    def of(self, slots: slice) -> StepColumns:
        """Return a copy of what was said of some slots."""
        found = StepColumns.__new__(StepColumns)
        for name, column in vars(self).items():
            setattr(found, name, column[:, slots].copy())
        return found

    def rows(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Return views of the rows: rewards, terminated, truncated and valid, each `[N]`."""
        return zip(self.rewards, self.terminated, self.truncated, self.valid, strict=True)


class _Columns:
    """What a policy sees and does in its slots while they are sampled, `[T, N, …]`.

    Attributes:
        obs: Observations as they are stored, `[T+1, N, …]`.
        actions: Actions as the distribution stores them.
        inputs: Inputs of the distribution; None if nobody asks for log-probabilities.
        states: The policy's states before the rows that are due to have one.
    """

    def __init__(self, policy: Policy, num_steps: int, num_slots: int, uses_logp: bool):
        shape, distribution = (num_steps, num_slots), policy.distribution
        self.obs = policy.observations.layout.empty((num_steps + 1, num_slots))
        self.actions = torch.empty(
            (*shape, *distribution.action_shape), dtype=distribution.action_dtype
        )
        self.inputs = torch.empty((*shape, distribution.num_inputs)) if uses_logp else None
        self.states: list[dict[str, np.ndarray]] = []


class RowListener(ABC):
    """Base of what is told of the rows that a `SlotRecorder` keeps, as they are sampled."""

    @abstractmethod
    def begin(self, num_steps: int, num_slots: int) -> None:
        """Begin with a fragment of so many rows."""

    @abstractmethod
    def act(self, row: int, env_actions: Any, lengths: np.ndarray) -> None:
        """Take the actions of a row, as the environment is given them.

        Args:
            row: The row.
            env_actions: A batch as a vector environment takes it.
            lengths: Steps of the slots' episodes so far, `[N]`.
        """

    @abstractmethod
    def act_apart(
        self, rows: np.ndarray, slots: np.ndarray, env_actions: Any, lengths: np.ndarray
    ) -> None:
        """Take the actions of slots that have clocks of their own.

        Args:
            rows: The row of each slot that acts, `[M]`.
            slots: The numbers of these slots, `[M]`.
            env_actions: A batch of all slots.
            lengths: Steps of all slots' episodes so far, `[N]`.
        """

    @abstractmethod
    def add(self, rollout: Rollout, inputs: Tensor | None) -> None:
        """Take the rollout of the fragment.

        Args:
            rollout: The rollout, whose arrays are for whoever learns from it.
            inputs: Inputs of the distribution, `[T, N, num_inputs]`; None: nobody asks for
                log-probabilities.
        """


class SlotRecorder:
    """Acts as its `SlotActor` does, and keeps the rows of it.

    Args:
        config: The algorithm's config.
        policy: The policy that acts.
        slots: The numbers of the slots that it acts in, `[M]`; None: all slots of the env runner.
        num_slots: How many these are.
        place: Whose slots they are, for messages.
        seed: The seed of exploration.

    Attributes:
        policy: The policy that acts.
        actor: Acts in the slots.
        slots: The numbers of the slots; None: all.
        whole: Holds running episodes back, if only whole ones are wanted.
        listener: What else is told of the rows; None: nothing.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        slots: np.ndarray | None,
        num_slots: int,
        place: NamesSlots,
        seed: np.random.SeedSequence,
    ):
        self.policy, self.slots, self.num_slots = policy, slots, num_slots
        if slots is not None:
            assert isinstance(place, Place)
            place = place._replace(slots=slots)
        self.actor = SlotActor(policy, num_slots, place, seed, config.explore)
        self._resolved, self._uses_logp = config.resolve(), config.uses_logp
        self.whole: WholeEpisodes | None = None
        if config.batch_mode != "truncate_episodes":
            self.whole = WholeEpisodes(
                num_slots,
                policy.observations.layout,
                self._resolved.state_stride if policy.is_recurrent else 0,
                config.max_env_steps_without_episode,
                env_name(config.env),
            )
        self._moments = self._no_moments()
        self.listener: RowListener | None = None

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Forget all slots, which begin new episodes on the random stream of `seed`."""
        self.actor.reseed(seed)
        if self.whole is not None:
            self.whole.clear()

    # ------------------------------------------------------------------ steps

    def begin(self, num_steps: int) -> None:
        """Begin with the columns of `num_steps` rows; every one is to be written."""
        self._own = _Columns(self.policy, num_steps, self.num_slots, self._uses_logp)
        self._own.obs[0] = self.actor.rows
        self._stride = self._state_stride(num_steps)
        self._row = 0  # the one that is acted in next
        self._clock: np.ndarray | None = None  # the same of each slot, once they differ
        if self.listener is not None:
            self.listener.begin(num_steps, self.num_slots)

    def _state_stride(self, num_steps: int) -> int:
        """Return the rows from one stored state to the next, 0 of a policy that has none."""
        if self.policy.is_recurrent:  # where episodes begin is not known in advance
            return self._resolved.state_stride if self.whole is None else 1
        return num_steps if self.policy.has_state else 0  # the frames before the first row

    def act(
        self, resets_next: np.ndarray, lengths: np.ndarray, slots: np.ndarray | None = None
    ) -> Any:
        """Return actions for the environment, and keep them; see `SlotActor.act`."""
        env_actions = self.actor.act(resets_next, lengths, slots)
        if slots is not None:
            self._keep_apart(slots)
            if self.listener is not None:
                assert self._clock is not None
                acting = np.flatnonzero(slots)
                self.listener.act_apart(self._clock[acting], acting, env_actions, lengths)
            return env_actions
        row, own, acted = self._row, self._own, self.actor.acted
        own.actions[row] = acted.actions
        if own.inputs is not None:
            own.inputs[row] = acted.inputs
        if self._stride and row % self._stride == 0:
            own.states.append(state_arrays(self.actor.before))
        if self.listener is not None:
            self.listener.act(row, env_actions, lengths)
        return env_actions

    def observe(
        self,
        obs: Any,
        rewards: np.ndarray,
        is_first: np.ndarray,
        lengths: np.ndarray,
        *,
        slots: np.ndarray | None = None,
    ) -> None:
        """Keep what the environment shows as the next row; see `SlotActor.observe`."""
        if slots is None:
            self._row += 1
            self.actor.observe(obs, rewards, is_first, lengths, out=self._own.obs[self._row])
            return
        assert self._clock is not None
        self.actor.observe(obs, rewards, is_first, lengths, slots=slots)
        self._clock += slots
        self._own.obs[self._clock[slots], slots] = self.actor.rows[slots]

    def take_over(
        self, obs: np.ndarray, actions: Tensor, inputs: Tensor, is_first: np.ndarray
    ) -> None:
        """Take over whole columns that were sampled elsewhere, as `act` and `observe` write them.

        Args:
            obs: Rows as the layout stores them, `[T+1, N, *shape]`.
            actions: Actions as the distribution stores them, `[T, N, …]`.
            inputs: Inputs of the distribution, `[T, N, num_inputs]`.
            is_first: Slots whose last row begins an episode, `[N]`.
        """
        self._own.obs, self._own.actions = obs, actions
        if self._own.inputs is not None:
            self._own.inputs = inputs
        self._row = len(actions)
        self.actor.follow(obs[-1], actions[-1], is_first)

    def split(self) -> None:
        """Let slots have clocks of their own from the present row on."""
        if self._clock is not None:
            return
        own, stride = self._own, self._stride
        self._clock = np.full(self.num_slots, self._row, np.int64)
        if stride:  # every row is written once its slot has come to it
            rows = range(len(own.states) * stride, len(own.actions), stride)
            own.states += [state_arrays(self.actor.before) for _ in rows]

    def _keep_apart(self, slots: np.ndarray) -> None:
        """Keep what the policy did in slots that have clocks of their own."""
        self.split()
        own, stride, acted = self._own, self._stride, self.actor.acted
        assert self._clock is not None
        acting = np.flatnonzero(slots)
        if stride:
            index = self._clock // stride
            for name, part in self.actor.before.items():
                values = part.cpu().numpy()
                for slot in acting[self._clock[acting] % stride == 0]:
                    own.states[index[slot]][name][slot] = values[slot]
        at = (torch.from_numpy(self._clock[acting]), torch.from_numpy(acting))
        own.actions[at] = acted.actions[at[1]].to(own.actions)
        if own.inputs is not None:
            own.inputs[at] = acted.inputs[at[1]].to(own.inputs)

    # ------------------------------------------------------------------ rollouts

    def rollout(self, columns: StepColumns, weights_version: int, follows: bool) -> Rollout:
        """Return what was sampled; the next rollout goes on from its last row.

        Args:
            columns: What the environment said of all slots of the env runner.
            weights_version: The version of the weights that acted.
            follows: Whether the rollout goes on where the last one ended.
        """
        own, observations = self._own, self.policy.observations
        del self._own  # the rollout's from here on
        self.actor.let_go()
        num_steps = len(own.actions)
        if own.inputs is None:
            logp = np.zeros((num_steps, self.num_slots), np.float32)
        else:  # once for all rows is faster than row by row
            logp = self.policy.distribution.logp(own.inputs, own.actions).numpy()
        valid = self._of_slots(columns.valid)
        terminated = self._of_slots(columns.terminated)
        truncated = self._of_slots(columns.truncated)
        continues = valid & ~(terminated | truncated)
        # Also before a row in which an environment was replaced: its reward is not known.
        continues[:-1] &= valid[1:]
        continues[-1] = False  # what follows is another fragment, or padding
        rollout = Rollout(
            obs=own.obs,
            actions=own.actions.numpy(),
            rewards=self._of_slots(columns.rewards),
            terminated=terminated,
            truncated=truncated,
            logp=logp,
            valid=valid,
            continues=continues,
            weights_version=np.full(self.num_slots, weights_version, np.int64),
            follows=np.full(self.num_slots, follows),
            states=stacked_states(own.states) if own.states else None,
            state_stride=self._stride,
        )
        if observations.filter is not None:
            # Each frame is row t of exactly one rollout; the last row opens the next one.
            seen = self._frames(observations.seen(rollout)[:num_steps])
            self._moments.update(observations.vector_features(seen))
        if self.listener is not None:
            self.listener.add(rollout, own.inputs)
        return rollout

    def _frames(self, seen: np.ndarray) -> np.ndarray:
        """Return those of the observations `[T, N, …]` that filters learn from."""
        return seen

    def _of_slots(self, column: np.ndarray) -> np.ndarray:
        return column if self.slots is None else column[:, self.slots]

    # ------------------------------------------------------------------ the filter and the state

    def take_filter_moments(self) -> RunningMoments:
        """Return statistics of the frames since the last call; each frame is counted once."""
        moments, self._moments = self._moments, self._no_moments()
        return moments

    def _no_moments(self) -> RunningMoments:
        return RunningMoments(self.policy.observations.preprocessor.num_features)

    def get_state(self) -> dict[str, Any]:
        """Return a copy of what goes on with the next rollout."""
        return {
            **self.actor.get_state(),
            "moments": self._moments.get_state(),
            **({} if self.whole is None else {"whole_episodes": self.whole.get_state()}),
        }

    def set_moments(self, state: dict[str, Any]) -> None:
        """Take over statistics of frames that were not merged yet, of what `get_state` gave."""
        self._moments.set_state(state["moments"])

    def fits(self, state: dict[str, Any]) -> bool:
        """Tell whether `set_state` can go on where a state was made."""
        if ("whole_episodes" in state) != (self.whole is not None):
            return False  # of what runs, the beginning is not known
        return len(state["is_first"]) == self.num_slots and self.actor.fits(state)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s, which fits."""
        self.actor.set_state(state)
        if self.whole is not None:
            self.whole.set_state(state["whole_episodes"])
