"""`EnvRunner`: steps environment slots with a policy and records what happens as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv, VectorEnv

from trainables.core.batch import Rollout
from trainables.core.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.connectors import RunningMoments
from trainables.core.policy import Policy
from trainables.runtime.env_state import get_env_state, set_env_state


class Episodes:
    """Returns and lengths of the episodes that ended, in order."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.lengths: list[int] = []

    def extend(self, other: Episodes) -> None:
        """Append another's."""
        self.returns += other.returns
        self.lengths += other.lengths


class EnvRunner:
    """Samples rollouts from vectorised environments, in process or as a Ray actor.

    Args:
        config: The algorithm's config.
        policy: Acts. Shared with the learner in process; a copy of its own in an actor.
        env: What is stepped; this runner closes it.
        seed: Root of this runner's random streams: environments and exploration.
        worker_index: 0 in process, 1, 2, … for actors.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        policy: Policy,
        env: VectorEnv,
        seed: np.random.SeedSequence,
        worker_index: int = 0,
    ):
        self.config, self.policy, self.worker_index = config, policy, worker_index
        self.env, self.num_envs = env, env.num_envs
        self.weights_version = 0
        space = policy.observation_space
        self._obs_dtype, self._obs_shape = space.dtype, space.shape or ()
        self._generator = torch.Generator(policy.device)
        self.reseed(seed)
        self._moments = RunningMoments(policy.preprocessor.num_features)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes and exploration on the random streams of `seed`."""
        env_seed, action_seed = seed.spawn(2)
        self._generator.manual_seed(draw_seed(action_seed))
        self._obs = np.asarray(reset_vector_env(self.env, env_seed), dtype=self._obs_dtype)
        self._resets_next = np.zeros(self.num_envs, dtype=bool)  # the slot's next row only resets
        self._follows = False  # whether the next rollout goes on where the last one ended
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)

    def sample(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        """Step every slot `num_steps` times.

        Returns:
            A rollout `[T, N]` by module id, and the episodes that ended in it.
        """
        shape = (num_steps, self.num_envs)
        distribution = self.policy.distribution
        obs = np.empty((num_steps + 1, self.num_envs, *self._obs_shape), self._obs_dtype)
        actions = torch.empty((*shape, *distribution.action_shape), dtype=distribution.action_dtype)
        uses_logp = self.config.uses_logp
        inputs = torch.empty((*shape, distribution.num_inputs)) if uses_logp else None
        rewards = np.empty(shape, np.float32)
        terminated, truncated = np.empty(shape, bool), np.empty(shape, bool)
        valid = np.empty(shape, bool)
        episodes = Episodes()
        act, step, explore = self.policy.act, self.env.step, self.config.explore

        obs[0] = self._obs
        for t in range(num_steps):
            actions[t], env_actions, dist_inputs = act(obs[t], explore, self._generator)
            if inputs is not None:
                inputs[t] = dist_inputs
            np.logical_not(self._resets_next, out=valid[t])
            obs[t + 1], rewards[t], terminated[t], truncated[t], _ = step(env_actions)
            self._track_episodes(rewards[t], valid[t], terminated[t] | truncated[t], episodes)
        self._obs = obs[num_steps].copy()
        if inputs is None:
            logp = np.zeros(shape, np.float32)
        else:  # once for all rows is faster than row by row
            logp = distribution.logp(inputs, actions).numpy()
        if self.policy.filter is not None:
            # Each frame is row t of exactly one rollout; the last row opens the next one.
            self._moments.update(self._raw_features(obs[:num_steps]))

        continues = valid & ~(terminated | truncated)
        continues[-1] = False  # what follows is another fragment, or padding
        rollout = Rollout(
            obs=obs,
            actions=actions.numpy(),
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            logp=logp,
            valid=valid,
            continues=continues,
            weights_version=np.full(self.num_envs, self.weights_version, np.int64),
            follows=np.full(self.num_envs, self._follows),
        )
        self._follows = True
        return {DEFAULT_MODULE_ID: rollout}, episodes

    def _track_episodes(
        self, rewards: np.ndarray, valid: np.ndarray, done: np.ndarray, episodes: Episodes
    ) -> None:
        self._returns += rewards  # a row that only resets has reward 0
        self._lengths += valid
        if done.any():
            episodes.returns += self._returns[done].tolist()
            episodes.lengths += self._lengths[done].tolist()
            self._returns[done] = 0
            self._lengths[done] = 0
        self._resets_next = done

    def _raw_features(self, obs: np.ndarray) -> np.ndarray:
        features = self.policy.preprocessor(torch.from_numpy(obs))
        return features.reshape(-1, self.policy.preprocessor.num_features).numpy()

    def take_filter_moments(self) -> RunningMoments:
        """Statistics of the frames since the last call; each frame is counted once."""
        moments = self._moments
        self._moments = RunningMoments(self.policy.preprocessor.num_features)
        return moments

    def set_policy_state(self, state: dict[str, Any], version: int) -> None:
        """Take over the learner's weights and filter statistics (for runners in actors)."""
        self.policy.set_state(state)
        self.weights_version = version

    def get_policy(self, module_id: str = DEFAULT_MODULE_ID) -> Policy:
        """The policy that acts here."""
        return self.policy

    def get_weights(self) -> dict[str, dict[str, np.ndarray]]:
        """Weights by module id."""
        return {DEFAULT_MODULE_ID: self.policy.get_weights()}

    def get_state(self) -> dict[str, Any]:
        """Random streams, running episodes and, where it has one, the environment's state."""
        return {
            "env": get_env_state(self.env),
            "generator": self._generator.get_state(),
            "obs": self._obs.copy(),
            "resets_next": self._resets_next.copy(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "follows": self._follows,
            "moments": self._moments.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s.

        Returns:
            Whether episodes go on where they were; False if new ones were started, because the
            environment cannot give its state or the slots differ.
        """
        self._moments.set_state(state["moments"])
        if state["env"] is None or len(state["obs"]) != self.num_envs:
            return False
        if state["generator"].shape != self._generator.get_state().shape:
            return False  # a GPU's generator cannot go on on a CPU, nor the other way round
        self._generator.set_state(state["generator"])
        set_env_state(self.env, state["env"])
        self._obs = np.array(state["obs"], dtype=self._obs_dtype)
        self._resets_next = np.array(state["resets_next"])
        self._returns = np.array(state["returns"])
        self._lengths = np.array(state["lengths"])
        self._follows = bool(state.get("follows", False))  # a seam is always right
        return True

    def ping(self) -> int:
        """This runner's index; it answers when its environments are made."""
        return self.worker_index

    def stop(self) -> None:
        """Close the environments."""
        self.env.close()


def reset_vector_env(env: VectorEnv, seed: np.random.SeedSequence) -> Any:
    """Reset all slots, each with a random stream of its own; returns the observations.

    An integer seed would give slot i of a `SyncVectorEnv` the stream of seed + i: slot 1 of seed 0
    would then repeat slot 0 of seed 1.
    """
    if isinstance(env, SyncVectorEnv):
        seeds: Any = [draw_seed(child) for child in seed.spawn(env.num_envs)]
    else:
        seeds = draw_seed(seed)
    return env.reset(seed=seeds)[0]


def draw_seed(seed: np.random.SeedSequence) -> int:
    """One integer seed of a sequence, below 2**31 as environments expect."""
    return int(seed.generate_state(1, np.uint32)[0] >> 1)
