"""`EnvRunnerActor`: an env runner in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.logs import logger, set_log_level
from trainables.runtime.actors.worker_actor import Recipes, States, WorkerActor, made_policies
from trainables.runtime.envs.curriculum import set_tasks
from trainables.runtime.envs.make import env_name, make_slots, training_options
from trainables.runtime.offline.output import OutputPlan
from trainables.runtime.process_environment import num_threads
from trainables.runtime.sampling.env_runner import make_env_runner
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.sampling_worker import SampleReport, SamplingWorker


@dataclass(frozen=True)
class RunnerPlan:
    """What an env runner is built from.

    Attributes:
        config: The algorithm's config.
        recipes: The arguments of its policies, by module id.
        module_slots: Which module acts in which slot.
        seed: The root of its random streams.
        index: Its number, from 1.
        video_folder: Where videos go; None if there are none.
        tasks: The tasks of its slots, where an earlier env runner had some.
        output: Where what it samples is recorded; None: nowhere.
    """

    config: AlgorithmConfig
    recipes: Recipes
    module_slots: ModuleSlots
    seed: np.random.SeedSequence
    index: int
    video_folder: str | None = None
    tasks: list[Any] | None = None
    output: OutputPlan | None = None


class EnvRunnerActor(WorkerActor[SamplingWorker]):
    """An env runner in a process of its own."""

    def build(self, plan: RunnerPlan) -> None:
        """(Re)build the env runner."""
        config, index = plan.config, plan.index
        set_log_level(config.log_level)
        variables = config.extra_python_environs_for_worker
        torch.set_num_threads(num_threads(variables, config.num_cpus_per_env_runner))
        if hasattr(self, "runner"):
            self.runner.stop()
        env = make_slots(
            config,
            config.env,
            config.env_config_for(training=True),
            config.num_envs_per_env_runner,
            worker_index=index,
            num_workers=config.num_env_runners,
            options=training_options(config, index, plan.video_folder),
        )
        if plan.tasks is not None and isinstance(env, VectorEnv):
            set_tasks(env, plan.tasks)  # its first episodes are of these tasks already
        policies = made_policies(config, plan.recipes)
        given = (config, policies, env, plan.seed, index, plan.module_slots, plan.output)
        self.runner = make_env_runner(*given)
        logger.info("env runner %d: %d slots of %r", index, env.num_envs, env_name(config.env))

    def sample(
        self,
        num_steps: int,
        exploration: dict[str, dict[str, Any]],
        version: int,
        states: States | None,
    ) -> tuple[SampleReport, dict[str, Rollout]]:
        """Take over weights, and step every slot `num_steps` times."""
        self._take_over(version, states)
        # Apart from the weights, which are the same for a while: it changes with every round.
        for module_id, values in exploration.items():
            self.runner.policies[module_id].set_exploration(**values)
        rollouts, episodes = self.runner.sample(num_steps)
        return self.runner.report(rollouts, episodes), rollouts
