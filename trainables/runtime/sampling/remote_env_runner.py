"""`RemoteEnvRunner`: every slot has its own clock, so a slow one does not stop the others."""

from __future__ import annotations

import numpy as np

from trainables.core.data.batch import Rollout
from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv
from trainables.runtime.envs.sub_environment import RESTARTS
from trainables.runtime.sampling.env_runner import EnvRunner
from trainables.runtime.sampling.row_checks import check_rewards
from trainables.runtime.sampling.sampling_worker import Episodes


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

    def fragment(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        columns, episodes = self._begin_columns(num_steps), Episodes()
        acting, hooks = self._acting, self._hooks
        wait_s = self.config.remote_env_batch_wait_ms / 1000
        clock = np.zeros(self.num_envs, np.int64)  # the row that a slot is in
        acts = np.ones(self.num_envs, bool)  # it has an observation, and no action yet
        while True:
            slots = np.flatnonzero(acts)
            if len(slots):
                actions = acting.act(self._resets_next, self._lengths, acts)
                self.env.start(slots, actions)
                if hooks is not None:
                    hooks.act(actions, slots)
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
            check_rewards(polled.rewards, self._lengths, self._place)
            self._lengths += is_valid
            acting.observe(polled.obs, polled.rewards, ~is_valid, self._lengths, slots=ready)
            resets_next = np.where(ready, done, self._resets_next)
            self._track_episodes(polled.rewards, done, episodes)
            self._resets_next = resets_next
            if hooks is not None:
                hooks.row(*polled[1:], valid=is_valid, ready=ready)
            clock += ready
            acts = ready & (clock < num_steps)
        return self._rollouts(columns), episodes
