"""`AgentsEnvRunner`: steps slots with several agents, and records what happens by module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.policy.policy import Policy
from trainables.runtime.envs.multi_agent.vector_env import AgentsStep, AgentsVectorEnv
from trainables.runtime.offline.output import OutputPlan
from trainables.runtime.random_streams import draw_seed
from trainables.runtime.sampling.agents.agent_hooks import acting_policies, agent_hooks
from trainables.runtime.sampling.agents.agent_lanes import AgentLanes
from trainables.runtime.sampling.agents.agents_output import AgentsOutput
from trainables.runtime.sampling.agents.episode_book import EpisodeBook, log_returns, match_of
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.sampling_worker import Episodes, SamplingWorker


class AgentsEnvRunner(SamplingWorker):
    """Samples rollouts of all modules from slots with several agents.

    Args:
        config: The algorithm's config.
        policies: The policies that act, by module id: the learner's in process; copies of its own
            in an actor.
        env: The slots that are stepped; this runner closes them.
        seed: The root of this runner's random streams: environments and exploration.
        worker_index: 0 in process, 1, 2, … for actors.
        module_slots: Of no use here: agents are mapped to policies, not slots.
    """

    env: AgentsVectorEnv

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: Mapping[str, Policy],
        env: AgentsVectorEnv,
        seed: np.random.SeedSequence,
        worker_index: int = 0,
        module_slots: ModuleSlots | None = None,
    ):
        super().__init__(config, worker_index)
        self.policies = dict(policies)
        self.env, self.num_envs = env, env.num_envs
        self._num_restarts = 0
        self._output: AgentsOutput | None = None
        self._lanes = AgentLanes(config, self.policies, env, f"env runner {worker_index}")
        acting = acting_policies(self.policies, self._lanes)
        self._book = EpisodeBook(env.groups, env.num_envs, self, policy_map=acting)
        self._hooks = agent_hooks(
            self.callbacks, self._logger, self._book, env, self, is_evaluation=False
        )
        self.recorders = {m: lanes.recorder for m, lanes in self._lanes.recorded.items()}
        self.reseed(seed)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes and exploration on the random streams of `seed`."""
        if self._output is not None:
            self._output.cut()
        env_seed, action_seed = seed.spawn(2)
        first = self.env.reset([draw_seed(child) for child in env_seed.spawn(self.num_envs)])
        self._follows = False  # whether the next rollout goes on where the last one ended
        self._book.begin(first)
        self._first: tuple[AgentsStep, np.random.SeedSequence] | None = first, action_seed
        # None: nobody has noted it, as in a run that goes on where another one ended.
        self._shown: AgentsStep | None = first
        if self._hooks is None:  # callbacks hear of episodes only as these are sampled
            self._begin()

    def _begin(self) -> None:
        """Let the episodes begin that a reset of all slots has shown, unless they have."""
        if self._first is None:
            return
        (first, seed), self._first = self._first, None
        everywhere = np.ones(self.num_envs, np.bool_)
        if self._hooks is not None:
            self._hooks.create(everywhere)
        self._lanes.reset(first, self._book, seed)
        if self._hooks is not None:
            self._hooks.start(everywhere)

    def sample(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        """Step every slot `num_steps` times.

        Where `count_steps_by` is "agent_steps" it is done once all agents together have made
        `num_steps` steps for each slot.
        """
        self._begin()
        lanes, book, hooks, episodes = self._lanes, self._book, self._hooks, Episodes()
        output = self._output
        most = np.inf
        if self.config.count_steps_by == "agent_steps":
            most = num_steps * self.num_envs
        lanes.begin(num_steps)
        for left in range(num_steps - 1, -1, -1):
            actions = lanes.act()
            if hooks is not None:
                hooks.act(actions)
            if output is not None and self._shown is not None:
                output.act(self._shown, actions, book.episodes)
            step = self._shown = self.env.step(actions)
            if output is not None:
                output.step(step)
            for episode in book.count(step):
                episodes.returns.append(episode.total_reward)
                episodes.lengths.append(episode.length)
                log_returns(episode, self._logger)
                if self.config.league is not None:
                    episodes.matches.append(match_of(episode))
            episodes.num_env_steps += self.num_envs - int(np.count_nonzero(step.resets))
            if hooks is not None:
                hooks.create(step.resets)
            lanes.observe(step, book, left)
            if hooks is not None:
                hooks.row(step)
            if lanes.num_agent_steps >= most:
                break
        follows, self._follows = self._follows, True
        rollouts = lanes.end(self.weights_version, follows)
        episodes.num_agent_steps = lanes.num_agent_steps
        total = self.env.num_restarts
        episodes.num_restarts, self._num_restarts = total - self._num_restarts, total
        return self._sampled(rollouts, episodes)

    def get_state(self) -> dict[str, Any]:
        self._begin()
        if self._output is not None:
            self._output.flush()  # what a checkpoint knows of is in whole files
        return {
            "env": self.env.get_state(),
            "lanes": self._lanes.get_state(),
            "book": self._book.get_state(),
            "follows": self._follows,
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        lanes = state["lanes"]
        for module_id, recorder in self.recorders.items():
            if module_id in lanes["modules"]:
                recorder.set_moments(lanes["modules"][module_id])
        if state["env"] is None:
            return False
        self._begin()  # lanes go on only after a reset
        self._shown = None
        if self._output is not None:
            self._output.cut()
        if not self._lanes.fits(lanes):
            return False
        self.env.set_state(state["env"])
        self._lanes.set_state(lanes)
        self._book.set_state(state["book"])
        self._follows = bool(state["follows"])
        if self._hooks is not None:
            self._hooks.forget()  # what callbacks know of the running episodes was not saved
        return True

    def change_policies(self, config: AlgorithmConfig, policies: Mapping[str, Policy]) -> None:
        """Go on with other policies, for agents that begin an episode from here on."""
        super().change_policies(config, policies)
        self._lanes.change(config, policies)
        self.recorders = {m: lanes.recorder for m, lanes in self._lanes.recorded.items()}

    def write_output(self, plan: OutputPlan) -> None:
        self._output = AgentsOutput(self.config, plan, self.env.groups, self.worker_index)

    def end_output(self) -> None:
        """Write what has been sampled and is not in whole files yet; record no more.

        Raises:
            DataError: if it cannot be written.
        """
        output, self._output = self._output, None
        if output is not None:
            output.close()

    def choose_tasks(self, task_fn: Callable[..., Any], result: dict[str, Any]) -> list[Any]:
        """Raise: environments with several agents have no tasks.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("env_task_fn is not supported with several agents")

    def set_tasks(self, tasks: list[Any]) -> None:
        """Raise: environments with several agents have no tasks.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("env_task_fn is not supported with several agents")
