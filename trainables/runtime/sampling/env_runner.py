"""`EnvRunner`: steps environment slots with a policy and records what happens as columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv, VectorEnv

from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.state_shapes import like
from trainables.core.logs import is_debug, logger, shapes
from trainables.core.networks.state import reset_state, stacked_states, state_arrays
from trainables.core.policy.connectors.filter import RunningMoments
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.callbacks import CallbackSet
from trainables.runtime.callbacks.custom_metrics import Logged, MetricsLogger, extend
from trainables.runtime.callbacks.episodes import episode_hooks
from trainables.runtime.envs.make import env_name
from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv
from trainables.runtime.envs.seeding import reset_with_infos
from trainables.runtime.envs.slot_tasks import TaskFunction, choose_tasks, count_restarts, set_tasks
from trainables.runtime.envs.state import get_env_state, set_env_state
from trainables.runtime.envs.sub_environment import RESTARTS
from trainables.runtime.random_streams import draw_seed
from trainables.runtime.sampling.row_checks import (
    Place,
    check_masks,
    check_observations,
    check_rewards,
)
from trainables.runtime.sampling.whole_episodes import WholeEpisodes
from trainables.runtime.sampling.workers import Worker

_STEPS_AT_ONCE = 16  # that are stepped before a look at whether enough episodes are over


class Episodes:
    """Returns and lengths of the episodes that ended, in order.

    Attributes:
        num_restarts: How many environments were replaced.
        logged: What callbacks have logged.
    """

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.lengths: list[int] = []
        self.num_restarts = 0
        self.logged: Logged = {}

    def extend(self, other: Episodes) -> None:
        """Append the episodes of another."""
        self.returns += other.returns
        self.lengths += other.lengths
        self.num_restarts += other.num_restarts
        extend(self.logged, other.logged)


class SampleReport(NamedTuple):
    """What the driver wants to know of a sample at once; the rollouts are apart.

    Attributes:
        num_env_steps: The number of rows that do not only reset.
        episodes: The episodes that ended.
        weights_version: The version of the weights that acted.
        moments: What the observation filter has to learn of it; None without one.
    """

    num_env_steps: int
    episodes: Episodes
    weights_version: int
    moments: RunningMoments | None


class Recording:
    """Columns of a rollout while it is sampled, `[T, N, …]`; every row is to be written.

    Attributes:
        obs: Observations as they are stored, `[T+1, N, …]`.
        inputs: Inputs of the distribution; None if nobody asks for log-probabilities.
    """

    def __init__(self, policy: Policy, num_steps: int, num_envs: int, uses_logp: bool):
        shape, distribution = (num_steps, num_envs), policy.distribution
        self.obs = policy.observations.layout.empty((num_steps + 1, num_envs))
        self.actions = torch.empty(
            (*shape, *distribution.action_shape), dtype=distribution.action_dtype
        )
        self.inputs = torch.empty((*shape, distribution.num_inputs)) if uses_logp else None
        self.rewards = np.empty(shape, np.float32)
        self.terminated, self.truncated = np.empty(shape, bool), np.empty(shape, bool)
        self.valid = np.empty(shape, bool)


class EnvRunner(Worker):
    """Samples rollouts from vectorised environments, in process or as a Ray actor.

    Args:
        config: The algorithm's config.
        policy: The policy that acts: the learner's in process; a copy of its own in an actor.
        env: The slots that are stepped; this runner closes them.
        seed: The root of this runner's random streams: environments and exploration.
        worker_index: 0 in process, 1, 2, … for actors.
    """

    env: VectorEnv

    def __init__(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv,
        seed: np.random.SeedSequence,
        worker_index: int = 0,
    ):
        self.config, self.worker_index = config, worker_index
        self.policies = {DEFAULT_MODULE_ID: policy}
        self._resolved = config.resolve()
        self.env, self.num_envs = env, env.num_envs
        self.weights_version = 0
        self._place = Place(config.env, f"env runner {worker_index}")
        self._num_restarts = 0  # those counted so far
        self._layout = policy.observations.layout
        self._whole = self._whole_episodes()
        self._generator = torch.Generator(policy.device)
        self.callbacks, self._logger = CallbackSet(config), MetricsLogger()
        slots_of = {DEFAULT_MODULE_ID: np.arange(self.num_envs)}
        self._hooks = episode_hooks(
            self.callbacks, self._logger, self.policies, slots_of, env, self, is_evaluation=False
        )
        self.reseed(seed)
        self._moments = RunningMoments(policy.observations.preprocessor.num_features)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes and exploration on the random streams of `seed`."""
        env_seed, action_seed = seed.spawn(2)
        self._generator.manual_seed(draw_seed(action_seed))
        self._obs = self._layout.empty((self.num_envs,))
        first, infos = reset_with_infos(self.env, env_seed)
        self._layout.write(self._obs, first)
        starts = np.zeros(self.num_envs, np.int64)
        check_observations(self.policy.observations, self._obs, starts, self._place)
        if self._hooks is not None:
            self._hooks.was_reset(first, infos)
        self._is_first = np.ones(self.num_envs, dtype=bool)  # the slot's next row begins an episode
        self._state = self.policy.initial_state(self.num_envs)
        self._resets_next = np.zeros(self.num_envs, dtype=bool)  # the slot's next row only resets
        self._explored = self.policy.explorer.start(self.num_envs)
        self._follows = False  # whether the next rollout goes on where the last one ended
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        if self._whole is not None:
            self._whole.clear()

    def _whole_episodes(self) -> WholeEpisodes | None:
        """Return what holds running episodes back, if only whole ones are wanted."""
        config = self.config
        if config.batch_mode == "truncate_episodes":
            return None
        return WholeEpisodes(
            self.num_envs,
            self._layout,
            self._resolved.state_stride if self.policy.is_recurrent else 0,
            config.max_env_steps_without_episode,
            env_name(config.env),
        )

    def sample(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        """Step every slot `num_steps` times, or until as many steps are in whole episodes.

        Returns:
            A rollout `[T, N]` by module id, and the episodes that ended in it.
        """
        if self._whole is None:
            rollout, episodes = self._fragment(num_steps)
            return self._sampled(rollout, episodes)
        episodes = Episodes()
        while not self._whole.is_enough(num_steps * self.num_envs):
            fragment, ended = self._fragment(min(num_steps, _STEPS_AT_ONCE))
            self._whole.add(fragment)
            episodes.extend(ended)
        return self._sampled(self._whole.take(), episodes)

    def _fragment(self, num_steps: int) -> tuple[Rollout, Episodes]:
        """Step every slot `num_steps` times: a rollout `[T, N]`, and the episodes that ended."""
        columns = Recording(self.policy, num_steps, self.num_envs, self.config.uses_logp)
        # By names of their own: the loop looks at them several times a step.
        obs, actions, inputs = columns.obs, columns.actions, columns.inputs
        rewards, valid = columns.rewards, columns.valid
        terminated, truncated = columns.terminated, columns.truncated
        episodes = Episodes()
        act, step, explore = self.policy.act, self.env.step, self.config.explore
        sees = self.policy.observations
        states: list[dict[str, np.ndarray]] = []
        explorer, explored = self.policy.explorer, self._explored
        hooks = self._hooks
        if hooks is not None:
            hooks.begin()
        stride = self._state_stride(num_steps)

        obs[0] = self._obs
        for t in range(num_steps):
            if stride:
                self._state = reset_state(self._state, self._is_first)
                if t % stride == 0:
                    states.append(state_arrays(self._state))
            check_masks(sees, obs[t], self._resets_next, self._lengths, self._place)
            acted = act(obs[t], explore, self._generator, self._state, explored)
            actions[t], self._state = acted.actions, acted.state
            if inputs is not None:
                inputs[t] = acted.inputs
            np.logical_not(self._resets_next, out=valid[t])
            next_obs, rewards[t], terminated[t], truncated[t], infos = step(acted.env_actions)
            if RESTARTS in infos:
                self._drop_episodes(valid[t], infos[RESTARTS] > 0)
            self._is_first = ~valid[t]
            rewards[t][self._is_first] = 0.0  # nobody acted, whatever an environment gives
            extras = sees.extras(acted.actions, rewards[t], self._is_first)
            self._layout.write(obs[t + 1], next_obs, extras)
            self._check_row(obs[t + 1], rewards[t], valid[t])
            if explored:
                explorer.restart(explored, self._is_first)
            self._track_episodes(rewards[t], valid[t], terminated[t] | truncated[t], episodes)
            if hooks is not None:
                hooks.act(acted.env_actions)
                hooks.row(next_obs, rewards[t], terminated[t], truncated[t], infos, valid[t])
        return self._rollout(columns, states), episodes

    def _sampled(self, rollout: Rollout, episodes: Episodes) -> tuple[dict[str, Rollout], Episodes]:
        """Tell callbacks and the log of a sample, and return what `sample` returns."""
        rollouts = {DEFAULT_MODULE_ID: rollout}
        self.callbacks(
            "on_sample_end", env_runner=self, samples=rollouts, metrics_logger=self._logger
        )
        episodes.logged = self._logger.take()
        if is_debug():
            logger.debug(
                "env runner %d sampled %d env steps, %d episodes ended, weights version %d: %s",
                self.worker_index,
                rollout.valid.sum(),
                len(episodes.returns),
                self.weights_version,
                shapes(rollout),
            )
        if isinstance(self.env, (SyncVectorEnv, RemoteVectorEnv)):
            total = count_restarts(self.env)
            episodes.num_restarts, self._num_restarts = total - self._num_restarts, total
        return rollouts, episodes

    def report(self, rollouts: dict[str, Rollout], episodes: Episodes) -> SampleReport:
        """Return what is said of the sample that has just been made."""
        moments = None
        if self.policy.observations.filter is not None:
            moments = self.take_filter_moments()
        steps = rollouts[DEFAULT_MODULE_ID].num_env_steps
        return SampleReport(steps, episodes, self.weights_version, moments)

    def _rollout(self, columns: Recording, states: list[dict[str, np.ndarray]]) -> Rollout:
        """Return what was sampled; the next rollout goes on from its last row."""
        num_steps = len(columns.rewards)
        self._obs = columns.obs[num_steps].copy()
        if columns.inputs is None:
            logp = np.zeros(columns.rewards.shape, np.float32)
        else:  # once for all rows is faster than row by row
            logp = self.policy.distribution.logp(columns.inputs, columns.actions).numpy()
        valid = columns.valid
        continues = valid & ~(columns.terminated | columns.truncated)
        # Also before a row in which an environment was replaced: its reward is not known.
        continues[:-1] &= valid[1:]
        continues[-1] = False  # what follows is another fragment, or padding
        follows, self._follows = self._follows, True
        rollout = Rollout(
            obs=columns.obs,
            actions=columns.actions.numpy(),
            rewards=columns.rewards,
            terminated=columns.terminated,
            truncated=columns.truncated,
            logp=logp,
            valid=valid,
            continues=continues,
            weights_version=np.full(self.num_envs, self.weights_version, np.int64),
            follows=np.full(self.num_envs, follows),
            states=stacked_states(states) if states else None,
            state_stride=self._state_stride(num_steps),
        )
        if self.policy.observations.filter is not None:
            # Each frame is row t of exactly one rollout; the last row opens the next one.
            seen = self.policy.observations.seen(rollout)[:num_steps]
            self._moments.update(self.policy.observations.vector_features(seen))
        return rollout

    def _check_row(self, obs: np.ndarray, rewards: np.ndarray, valid: np.ndarray) -> None:
        """Raise if the slots' environments gave what is no finite number."""
        check_rewards(rewards, self._lengths, self._place)
        observations = self.policy.observations
        if observations.not_finite(obs) is not None:
            check_observations(observations, obs, self._lengths + valid, self._place)

    def _drop_episodes(self, valid: np.ndarray, replaced: np.ndarray) -> None:
        """Drop the episodes of replaced environments: nothing is known of this row's action.

        They count nowhere: their returns and lengths are not those of whole ones.
        """
        valid &= ~replaced
        self._returns[replaced] = 0
        self._lengths[replaced] = 0

    def _track_episodes(
        self, rewards: np.ndarray, valid: np.ndarray, done: np.ndarray, episodes: Episodes
    ) -> None:
        self._returns += rewards
        self._lengths += valid
        if done.any():
            ended = done & (self._lengths > 0)  # else an environment that was over when it reset
            episodes.returns += self._returns[ended].tolist()
            episodes.lengths += self._lengths[ended].tolist()
            self._returns[done] = 0
            self._lengths[done] = 0
        self._resets_next = done

    def _state_stride(self, num_steps: int) -> int:
        """Return the rows from one stored state to the next, 0 of a policy that has none."""
        if self.policy.is_recurrent:  # where episodes begin is not known in advance
            return self._resolved.state_stride if self._whole is None else 1
        return num_steps if self.policy.has_state else 0  # the frames before the first row

    def take_filter_moments(self) -> RunningMoments:
        """Return statistics of the frames since the last call; each frame is counted once."""
        moments = self._moments
        self._moments = RunningMoments(self.policy.observations.preprocessor.num_features)
        return moments

    def get_state(self) -> dict[str, Any]:
        """Return random streams, running episodes and the environment's state, if it has one."""
        return {
            "env": get_env_state(self.env),
            "generator": self._generator.get_state(),
            "obs": self._layout.to_state(self._obs),
            "resets_next": self._resets_next.copy(),
            "is_first": self._is_first.copy(),
            "recurrent": state_arrays(self._state),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "explored": state_arrays(self._explored),
            "follows": self._follows,
            "moments": self._moments.get_state(),
            **({} if self._whole is None else {"whole_episodes": self._whole.get_state()}),
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s.

        Returns:
            Whether episodes go on where they were; False if new ones were started, because the
            environment cannot give its state or the slots differ.
        """
        self._moments.set_state(state["moments"])
        if state["env"] is None or len(state["resets_next"]) != self.num_envs:
            return False
        if ("whole_episodes" in state) != (self._whole is not None):
            return False  # of what runs, the beginning is not known
        if state["generator"].shape != self._generator.get_state().shape:
            return False  # a GPU's generator cannot go on on a CPU, nor the other way round
        self._generator.set_state(state["generator"])
        set_env_state(self.env, state["env"])
        self._obs = like(self._obs, self._layout.from_state(state["obs"]), "obs")
        self._resets_next = like(self._resets_next, state["resets_next"], "resets_next")
        self._is_first = like(self._is_first, state["is_first"], "is_first")
        self._state = {
            name: torch.as_tensor(
                like(part.numpy(force=True), state["recurrent"][name], name),
                device=self.policy.device,
            )
            for name, part in self.policy.initial_state(self.num_envs).items()
        }
        self._returns = like(self._returns, state["returns"], "returns")
        self._lengths = like(self._lengths, state["lengths"], "lengths")
        for name, kept in state.get("explored", {}).items():
            if name in self._explored:
                own = self._explored[name].numpy(force=True)
                self._explored[name] = torch.from_numpy(like(own, kept, name))
        self._follows = bool(state.get("follows", False))  # a seam is always right
        if self._whole is not None:
            self._whole.set_state(state["whole_episodes"])
        if self._hooks is not None:
            self._hooks.forget()  # what callbacks know of the running episodes was not saved
        return True

    def choose_tasks(self, task_fn: TaskFunction, result: dict[str, Any]) -> list[Any]:
        """Ask for each slot's task and set it; return the tasks."""
        return choose_tasks(self.env, task_fn, result, self._context)

    def set_tasks(self, tasks: list[Any]) -> None:
        """Set each slot's task."""
        set_tasks(self.env, tasks)

    def ping(self) -> int:
        """Return this runner's index; it answers when its environments are made."""
        return self.worker_index

    def stop(self) -> None:
        """Close the environments."""
        self.env.close()
