"""`RemoteEnvRunner`: every slot has its own clock, so a slow one does not stop the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainables.core.data.batch import Rollout
from trainables.core.networks.state import reset_state, state_arrays
from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv
from trainables.runtime.envs.sub_environment import RESTARTS
from trainables.runtime.sampling.env_runner import EnvRunner, Episodes, Recording
from trainables.runtime.sampling.row_checks import check_masks


class RemoteEnvRunner(EnvRunner):
    """Steps slots in processes of their own, and acts for those that are ready.

    A column is one slot's time, so clocks may differ within a rollout; it is complete when every
    slot has made its steps, and between rollouts no slot is under way. The policy looks at all
    slots at once, and what it says of those that are busy is not used.

    Which slots are ready together depends on time, and so does what exploration draws for them:
    such a run does not repeat itself to the bit, unless `remote_env_batch_wait_ms` is so long that
    all slots are always waited for.
    """

    env: RemoteVectorEnv

    def _fragment(self, num_steps: int) -> tuple[Rollout, Episodes]:
        columns = Recording(self.policy, num_steps, self.num_envs, self.config.uses_logp)
        obs, actions, inputs = columns.obs, columns.actions, columns.inputs
        episodes = Episodes()
        stride = self._state_stride(num_steps)
        states = [state_arrays(self._state) for _ in range(0, num_steps, stride)] if stride else []

        explorer, explored, hooks = self.policy.explorer, self._explored, self._hooks
        sees = self.policy.observations
        if hooks is not None:
            hooks.begin()

        wait_s = self.config.remote_env_batch_wait_ms / 1000
        clock = np.zeros(self.num_envs, np.int64)  # the row that a slot is in
        acts = np.ones(self.num_envs, bool)  # it has an observation, and no action yet
        obs[0] = now = self._obs
        taken: torch.Tensor | None = None  # each slot's last action
        while True:
            slots = np.flatnonzero(acts)
            if len(slots):
                if stride:
                    self._state = reset_state(self._state, self._is_first & acts)
                    self._store_states(states, slots[clock[slots] % stride == 0], clock // stride)
                check_masks(sees, now, self._resets_next, self._lengths, self._place)
                kept = {name: part.clone() for name, part in explored.items()}
                acted = self.policy.act(
                    now, self.config.explore, self._generator, self._state, explored
                )
                for name, part in kept.items():  # noise that has a memory waits with its slot
                    if len(part) == self.num_envs:
                        explored[name] = _merged(acts, explored[name], part)
                self._state = _of_slots(acts, acted.state, self._state)
                taken = _merged(acts, acted.actions, taken)
                rows = (torch.from_numpy(clock[slots]), torch.from_numpy(slots))
                actions[rows] = acted.actions[rows[1]].to(actions)
                if inputs is not None:
                    inputs[rows] = acted.inputs[rows[1]].to(inputs)
                self.env.start(slots, acted.env_actions)
                if hooks is not None:
                    hooks.act(acted.env_actions, slots)
            elif (clock == num_steps).all():
                break
            polled = self.env.poll(wait_s)
            ready, at = polled.ready, clock[polled.ready]
            is_valid = ready & ~self._resets_next
            if RESTARTS in polled.infos:
                self._drop_episodes(is_valid, polled.infos[RESTARTS] > 0)
            done = polled.terminated | polled.truncated
            columns.rewards[at, ready] = polled.rewards[ready]
            columns.valid[at, ready] = is_valid[ready]
            columns.terminated[at, ready] = polled.terminated[ready]
            columns.truncated[at, ready] = polled.truncated[ready]
            self._is_first = np.where(ready, ~is_valid, self._is_first)
            if explored:
                explorer.restart(explored, ready & self._is_first)
            extras = sees.extras(taken, polled.rewards, self._is_first)
            new = self._layout.rows(polled.obs, extras)
            now = now.copy()
            now[ready] = new[ready]
            self._check_row(now, polled.rewards, is_valid)
            resets_next = np.where(ready, done, self._resets_next)
            self._track_episodes(polled.rewards, is_valid, done, episodes)
            self._resets_next = resets_next
            if hooks is not None:
                hooks.row(*polled[1:], valid=is_valid, ready=ready)
            obs[at + 1, ready] = new[ready]
            clock += ready
            acts = ready & (clock < num_steps)
        return self._rollout(columns, states), episodes

    def _store_states(
        self, states: list[dict[str, np.ndarray]], slots: np.ndarray, index: np.ndarray
    ) -> None:
        """Keep the recurrent states of slots before this row; `index` is which one is due."""
        for name, part in self._state.items():
            values = part.cpu().numpy()
            for slot in slots:
                states[index[slot]][name][slot] = values[slot]


def _of_slots(mask: np.ndarray, new: Any, old: Any) -> Any:
    """Return new recurrent states of the slots in the mask, the old ones of the others."""
    return {name: _merged(mask, new[name], old[name]) for name in new}


def _merged(mask: np.ndarray, new: torch.Tensor, old: torch.Tensor | None) -> torch.Tensor:
    if old is None:
        return new
    chosen = torch.from_numpy(mask).to(new.device)
    return torch.where(chosen.view(-1, *[1] * (new.dim() - 1)), new, old)
