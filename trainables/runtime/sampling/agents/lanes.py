"""`Lanes`: the agents that a module acts for, in all slots of an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.stored import like
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.multi_agent.vector_env import AgentsStep, GroupRows
from trainables.runtime.sampling.agents.group_arrays import write_rows
from trainables.runtime.sampling.agents.lane_recorder import LaneRecorder
from trainables.runtime.sampling.agents.places import AgentPlace
from trainables.runtime.sampling.module_slots import of_slots
from trainables.runtime.sampling.row_checks import check_rewards

_IDLE = -1  # the row of a lane that no agent has


class Lanes:
    """A lane for each agent of a module: a column of its rollouts.

    Agents of one group take lanes, whichever module the mapping gives them to, and keep them from
    episode to episode as long as it stays the same one. A lane's clock ticks

    - when its agent acts and is shown what came of it: its next observation or its last one, and
      all rewards from then to there. So an agent that waits for others is rewarded for its last
      action, and discounted by its own actions, not by steps of the environment;
    - for the row after an episode's end, which only resets (see `Rollout`). It lasts until the
      agent's next episode, while the other lanes tick on as often as they do: such rows are not
      valid, either.

    Args:
        config: The algorithm's config.
        policy: The module's policy.
        group: The number of the group of agents.
        group_size: How many agents are in it, G.
        num_slots: Slots of the environment, N.
        place: Whose agents they are, for messages.
        seed: The seed of exploration.

    Attributes:
        rows: The row of each lane's agent in its group, `[L]`; -1 where there is none.
        recorder: Acts and records.
        is_sampling: Whether there are columns that have begun.
        is_idle: Whether no lane is taken.
        is_whole_group: Whether the lanes are the rows of the group, one for one.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        group: int,
        group_size: int,
        num_slots: int,
        place: AgentPlace,
        seed: np.random.SeedSequence,
    ):
        self.group, self._group_size = group, group_size
        self._num_rows = num_slots * group_size
        self._place = place
        self.rows = np.empty(0, np.int64)
        self.recorder = LaneRecorder(config, policy, None, 0, place, seed)
        self.is_sampling = False
        self._forget()

    def _forget(self) -> None:
        """Let no lane be taken, and none have seen anything."""
        num_lanes = len(self.rows)
        self._asked = np.zeros(num_lanes, bool)
        self._resets_next = np.ones(num_lanes, bool)
        self._pending = np.zeros(num_lanes, bool)  # acted, and the outcome is not known yet
        self._lengths = np.zeros(num_lanes, np.int64)
        self._held = np.zeros(num_lanes)  # rewards of the pending rows so far
        self._holds = False  # whether any of them is not 0
        self._index()

    def _index(self) -> None:
        """Note which lanes are taken, after any has been taken or left."""
        rows = self.rows
        self._taken = np.flatnonzero(rows != _IDLE)
        self._left = np.flatnonzero(rows == _IDLE)
        self.is_idle = not len(self._taken)
        self._slots = rows // self._group_size
        self._everyone = np.ones(len(rows), bool)
        is_whole = len(rows) == self._num_rows and bool((rows == np.arange(len(rows))).all())
        self.is_whole_group = is_whole
        self._place.rows = rows

    @property
    def num_lanes(self) -> int:
        """Lanes so far, L."""
        return len(self.rows)

    # ------------------------------------------------------------------ who has which lane

    def reset(self, rows: np.ndarray, seed: np.random.SeedSequence) -> None:
        """Begin anew, with a lane for each of the given rows of the group.

        Args:
            rows: `[L]`.
            seed: The seed of exploration.
        """
        self.is_sampling = False
        self.rows = np.array(rows, np.int64)
        self.recorder.restart(len(rows), seed)
        self._forget()

    def take_lanes(self, rows: np.ndarray) -> None:
        """Give lanes to agents that begin an episode with this module, and had none.

        Args:
            rows: Their rows in the group, `[K]`.
        """
        free = np.flatnonzero(self.rows == _IDLE)
        if len(free) < len(rows):
            self._grow(len(rows) - len(free))
            free = np.flatnonzero(self.rows == _IDLE)
        self.rows[free[: len(rows)]] = rows
        if self.is_sampling and not self._pending.any() and not self.recorder.is_split:
            self.recorder.blank()  # their next row only resets, as that of all who were idle
            self._pending[:] = True
        self._pending[free[: len(rows)]] = self.is_sampling
        self._index()

    def leave_lanes(self, rows: np.ndarray) -> None:
        """Free the lanes of agents that begin an episode with another module.

        Args:
            rows: Their rows in the group, `[K]`.
        """
        left = np.isin(self.rows, rows)
        self.rows[left] = _IDLE
        self._resets_next[left] = True
        self._index()

    def _grow(self, added: int) -> None:
        num_lanes = len(self.rows) + added
        self.recorder.grow(num_lanes, self.is_sampling)
        self.rows = np.concatenate([self.rows, np.full(added, _IDLE)])
        is_pending = bool(self._pending.any()) and not self.recorder.is_split  # as the others
        self._asked = np.concatenate([self._asked, np.zeros(added, bool)])
        self._resets_next = np.concatenate([self._resets_next, np.ones(added, bool)])
        self._pending = np.concatenate([self._pending, np.full(added, is_pending)])
        self._lengths = np.concatenate([self._lengths, np.zeros(added, np.int64)])
        self._held = np.concatenate([self._held, np.zeros(added)])

    # ------------------------------------------------------------------ steps

    def show(self, rows: GroupRows) -> None:
        """Take note of a reset of all slots: agents begin, or are not there yet."""
        begins = self._of(rows.begins)
        is_first = np.ones(self.num_lanes, bool)
        self.recorder.actor.observe(self._obs_of(rows), self._held, is_first, self._lengths)
        self._asked, self._resets_next = self._of(rows.acts), ~begins

    def begin(self, num_steps: int) -> None:
        """Begin with the columns of `num_steps` rows, unless no agent has a lane."""
        if not self.is_idle:
            self._pending = self.recorder.begin_lanes(num_steps)
            self.is_sampling = True

    def begin_late(self, num_steps: int) -> None:
        """Begin amid a sample, as agents are about to take lanes of a module that was idle."""
        if not self.is_sampling:
            self._pending = self.recorder.begin_lanes(num_steps)
            self.is_sampling = True

    def act(self, group_actions: Any) -> Any:
        """Return the actions of a group, with those of the lanes' agents that are asked.

        Args:
            group_actions: A batch of the group, `[R, …]`, which may be written to.
        """
        if self.is_idle:
            return group_actions
        actions = self._acted()
        if actions is None or self.is_whole_group:
            return group_actions if actions is None else actions
        if len(self._left):
            write_rows(group_actions, self.rows[self._taken], of_slots(actions, self._taken))
        else:
            write_rows(group_actions, self.rows, actions)
        return group_actions

    def _acted(self) -> Any:
        """Return actions of all lanes as environments take them, `[L, …]`; None if nobody acts."""
        recorder = self.recorder
        if not recorder.is_split:
            if np.count_nonzero(self._pending):  # all are, and wait for what others do
                return None
            self._pending[:] = True
            return recorder.act(self._resets_next, self._lengths)
        acts = ~self._pending & (self._asked | self._resets_next)
        if not acts.any():
            return None
        self._pending |= acts
        return recorder.act(self._resets_next, self._lengths, acts)

    def observe(self, step: AgentsStep) -> None:
        """Take note of what a step of the environment has shown."""
        if self.is_idle:
            return
        rows, recorder, was_reset = step.groups[self.group], self.recorder, self._resets_next
        outcome = self._outcome(step, rows)
        check_rewards(outcome.rewards, self._lengths, self._place)
        shows = outcome.shows
        some_reset = bool(np.count_nonzero(was_reset))  # faster than `any`, of as few
        if some_reset:
            outcome.rewards = np.where(was_reset, 0.0, outcome.rewards)  # nobody acted
            shows = np.where(was_reset, outcome.begins, shows)
        closes = self._pending & shows
        if not recorder.is_split:
            is_done = closes | was_reset if some_reset else closes
            if np.count_nonzero(is_done) == len(is_done):
                self._close_all(rows, outcome, some_reset)
                return
            if not np.count_nonzero(closes):  # all wait for others
                self._hold(outcome.rewards)
                return
            recorder.split()
        self._close(rows, outcome, closes)

    def _close_all(self, rows: GroupRows, outcome: _Outcome, some_reset: bool) -> None:
        """Close the row that all lanes share; whoever waits for an episode waits on.

        Args:
            rows: What the group was shown.
            outcome: The lanes' part of it.
            some_reset: Whether the row of any lane only resets.
        """
        recorder, was_reset, rewards = self.recorder, self._resets_next, outcome.rewards
        if self._holds:
            rewards = rewards + self._held
            self._held, self._holds = np.zeros_like(self._held), False
        valid = self._everyone
        if some_reset or outcome.lost is not _NOBODY:
            valid = ~(was_reset | outcome.lost)
        recorder.close_all(rewards, outcome.terminated, outcome.truncated, valid, outcome.shows)
        self._lengths += valid
        recorder.observe(self._obs_of(rows), rewards, ~valid, self._lengths)
        over = outcome.is_over
        self._resets_next = over | (was_reset & ~outcome.begins) if some_reset else over
        if np.count_nonzero(self._resets_next):
            self._lengths[self._resets_next] = 0
        self._asked = outcome.acts
        self._pending[:] = False

    def _close(self, rows: GroupRows, outcome: _Outcome, closes: np.ndarray) -> None:
        """Close the rows of lanes whose agents were shown something."""
        recorder, was_reset = self.recorder, self._resets_next
        self._hold(outcome.rewards)
        if not closes.any():
            return
        valid = closes & ~(was_reset | outcome.lost)
        rewards = self._held
        recorder.close(closes, rewards, outcome.terminated, outcome.truncated, valid)
        self._lengths += valid
        recorder.observe(self._obs_of(rows), rewards, ~valid, self._lengths, slots=closes)
        self._resets_next = np.where(closes, outcome.is_over, was_reset)
        self._lengths[self._resets_next] = 0
        self._asked = closes & outcome.acts
        self._held = np.where(closes, 0.0, rewards)
        self._holds = bool(self._held.any())
        self._pending &= ~closes

    def _hold(self, rewards: np.ndarray) -> None:
        """Keep rewards for rows that are not closed yet."""
        self._held = self._held + rewards
        self._holds = True

    def _outcome(self, step: AgentsStep, rows: GroupRows) -> _Outcome:
        acts, begins = self._of(rows.acts), self._of(rows.begins)
        terminated, truncated = self._of(rows.terminated), self._of(rows.truncated)
        is_over = terminated | truncated
        shows, lost = acts | is_over, _NOBODY
        if np.count_nonzero(step.replaced):
            lost = step.replaced[self._slots]
            lost[self._left] = False
            is_over = is_over | (lost & ~begins)  # not there in the fresh environment
            shows = shows | lost
        rewards = self._of(rows.rewards)
        return _Outcome(rewards, terminated, truncated, acts, begins, shows, is_over, lost)

    def _of(self, column: np.ndarray) -> np.ndarray:
        """Return a column of the group's agents for the lanes, `[L]`; zeros where there is none."""
        if self.is_whole_group:
            return column
        of_lanes = column[self.rows]
        if len(self._left):
            of_lanes[self._left] = 0
        return of_lanes

    def _obs_of(self, rows: GroupRows) -> Any:
        return rows.obs if self.is_whole_group else of_slots(rows.obs, self.rows)

    # ------------------------------------------------------------------ rollouts and state

    def end(self, weights_version: int, follows: bool) -> Rollout | None:
        """Return what was sampled, a column for each lane; None if that is nothing.

        Args:
            weights_version: The version of the weights that acted.
            follows: Whether the rollout goes on where the last one ended.
        """
        if not self.is_sampling:
            return None
        self.is_sampling = False
        opened = self._pending
        if self.recorder.is_split:
            opened = opened & ~self._resets_next  # rows that only reset are begun anew
        self._pending = np.zeros(self.num_lanes, bool)
        return self.recorder.end(opened, weights_version, follows)

    def get_state(self) -> dict[str, Any]:
        """Return a copy of what goes on with the next rollout."""
        return {
            **self.recorder.get_state(),
            "rows": self.rows.copy(),
            "asked": self._asked.copy(),
            "resets_next": self._resets_next.copy(),
            "lengths": self._lengths.copy(),
            "held": self._held.copy(),
        }

    def fits(self, state: dict[str, Any]) -> bool:
        """Tell whether `set_state` can go on where a state was made."""
        rows = np.asarray(state["rows"])
        is_fit = rows.ndim == 1 and bool((rows < self._num_rows).all())
        return is_fit and self.recorder.actor.fits(state)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over `get_state`'s, which fits."""
        self.rows = np.array(state["rows"], np.int64)
        self.recorder.restart(len(self.rows), None)
        self._forget()
        self.recorder.set_state(state)
        for name in ("asked", "resets_next", "lengths", "held"):
            setattr(self, f"_{name}", like(getattr(self, f"_{name}"), state[name], name))
        self._holds = bool(self._held.any())


_NOBODY = np.zeros(1, bool)


@dataclass(slots=True)
class _Outcome:
    """What a step has shown the agents of lanes, `[L]` each.

    Attributes:
        shows: Agents that were shown something, or whose environment was replaced.
        is_over: Those of them whose next row only resets.
        lost: Agents whose environment was replaced; broadcast if there is none.
    """

    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    acts: np.ndarray
    begins: np.ndarray
    shows: np.ndarray
    is_over: np.ndarray
    lost: np.ndarray
