"""`Algorithm`: the loop that Tune drives.

What it stands on is in `lifecycle`, a class on the other: `folder_trainable` ends and restores it,
`built_trainable` makes its parts of its settings, `policy_access` has what it offers through its
policies, `checkpointing` its state.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from ray.tune.tune import _Config

from trainables import registry
from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.features import feature
from trainables.core.learning.schedules import scheduled
from trainables.core.logs import is_debug, logger
from trainables.core.reported_metrics import Reported, older_names
from trainables.lifecycle.checkpoints import Checkpointing
from trainables.lifecycle.folder_trainable import running
from trainables.runtime.envs.make import env_name
from trainables.runtime.metrics import reserved
from trainables.runtime.sampling.group import EnvRunnerGroup

# Parts that `stop` takes down.
_PARTS = ("env_runners", "eval_env_runner_group", "learners", "workers")
_STEPS_FOR_AN_EPISODE = 2_000  # that the first result waits at most for the end of an episode

registry.register_names()
_Config.register(AlgorithmConfig)  # tune.Tuner(param_space=PPOConfig()…) calls its to_dict()


class Algorithm(Checkpointing):
    """Base of every algorithm: a Tune `Trainable` that samples, learns, evaluates and saves.

    A subclass sets `config_class`, declares `reported_metrics` and writes `training_step`. It may
    override

    - `spaces`: what its policies see and do, where no environment says it;
    - `module_options`: what its policies are made of;
    - `module_ids`, `module_of_slot`, `policy_options`: several modules, each with slots of its own;
    - `trained_modules`: which of them learn;
    - `learner_options`: groups of parameters with optimisers of their own, and target networks;
    - `set_up_learning`: what else it needs to learn, e.g. room for experience;
    - `modules_changed`: the same of policies that are added, and what is left of removed ones;
    - `make_learner_parts`: networks that train beside its policies, and may change their rewards;
    - `make_learner_connectors`: what happens to rollouts before anything is learned of them;
    - `exploration_at`: what schedules of exploration say;
    - `iteration_metrics`, `iteration_is_full`: what an iteration reports, and when it ends;
    - `get_learned_state`, `set_learned_state`: what it has learned besides weights;
    - `state_besides_policies`, `set_state`: what else a checkpoint holds, e.g. experience.

    Args:
        config: A config object, or a dict of settings.
        env: Overrides the `env` setting.
        weights: By module id, those that `set_state` will give its policies; see `Policy`.

    Attributes:
        config: The settings in use, read-only.
        policies: By module id.
        agent_groups: The groups of agents of its environment; None if that has one agent, or it has
            no environment.
        seed_entropy: The root of all its random streams.
        env_runners: The actors that sample, or this process; none where training steps no
            environment, as `needs_env` of its config says.
        eval_env_runner_group: Plays evaluations, in process or over actors.
        evaluation: Evaluates, and has the latest evaluation.
        learners: Train, see `LearnerGroup.run`.
        learner_connectors: What happens to rollouts before, by id of the modules that learn.
        useds: What features do in it, by name; what has a state is in checkpoints.
        keeps_columns: Whether a rollout must have columns of env runners that failed, too.
        part_hook: The method of a `LearnerPart` that its update calls; None: either may be.
        reported_metrics: What its results hold besides what every algorithm's do, with units and
            meanings; names below the same prefix (`learner/`) are taken in specs, too.
    """

    config: AlgorithmConfig  # type: ignore[assignment]  # here, too, for those of subclasses
    keeps_columns: ClassVar[bool] = False
    reported_metrics: ClassVar[tuple[Reported, ...]] = ()

    # ------------------------------------------------------------------ the loop

    def training_step(self) -> dict[str, float]:
        """Sample, learn and sync once; returns flat metrics.

        Raises:
            NotImplementedError: if a subclass does not say how: there is no loss that every
                algorithm has.
        """
        name, theirs = type(self).__name__, type(self.config).__name__.removesuffix("Config")
        raise NotImplementedError(
            f"{name} has no training_step. To learn as {theirs} does, subclass it: "
            f"`class {name}({theirs})`; else write training_step(self): sample with self.sample(), "
            "learn with self.learners, then self.sync_weights(); it returns a dict of numbers"
        )

    def iteration_metrics(self) -> dict[str, float]:
        """Return what is reported once an iteration, however many training steps it has."""
        return {}

    @running
    def train(self) -> dict[str, Any]:
        """Train for one iteration. Returns flat metrics, see `trainables/metrics.md`."""
        result: dict[str, Any] = super().train()
        return result

    def train_buffered(self, *args: Any, **kwargs: Any) -> Any:
        """Raise with the reason: not supported. Tune calls it only where it is told to buffer."""
        raise feature("reference").missing_attribute(type(self), "train_buffered")

    @running
    def step(self) -> dict[str, Any]:
        """Train for one iteration: `training_step` until the reporting minima are met."""
        self.evaluation.begin_if_due()
        start, sampled, trained = (
            time.perf_counter(),
            self.num_env_steps_sampled,
            self.num_env_steps_trained,
        )
        while True:
            self.learners.num_env_steps = self.num_env_steps
            metrics = self.training_step()
            self.num_training_steps += 1
            self._check_finite(metrics)
            elapsed = time.perf_counter() - start
            if self.iteration_is_full(elapsed, sampled, trained):
                break
        self.learners.pull_weights()
        self.learners.remember()
        metrics |= self.iteration_metrics()
        self._check_finite(metrics)
        num_env_steps = self.num_env_steps_sampled - sampled
        if is_debug():
            logger.debug("iteration of %d env steps, %.3f s: %s", num_env_steps, elapsed, metrics)
        if self.config.restart_failed_env_runners:
            self.env_runners.probe()
            self.env_runners.restore(wait=False)  # they join the others once they are built
        if self.config.needs_env:
            metrics |= self._sampling_metrics(num_env_steps, elapsed)
        metrics |= {
            "num_env_steps_trained_lifetime": self.num_env_steps_trained,
            "num_training_step_calls_lifetime": self.num_training_steps,
        }
        metrics |= reserved(self._trial_info)
        if self.config.num_learners:
            metrics["num_learner_restarts"] = self.learners.num_restarts
        metrics |= {f"evaluation/{k}": v for k, v in self.evaluation.evaluate_if_due().items()}
        metrics |= self.timers.metrics()
        metrics |= self.episodes.custom.metrics()
        for used in self.running_features.values():
            metrics |= used.end_iteration()
        metrics |= older_names(metrics)
        if self._task_fn is not None:
            last_result = {**metrics, "training_iteration": self.iteration + 1}
            self.env_runners.choose_tasks(self._task_fn, last_result)
        return metrics

    def _sampling_metrics(self, num_env_steps: int, elapsed: float) -> dict[str, float]:
        """Return what is reported of the environment that training steps."""
        return {
            **self.episodes.metrics(),
            "num_env_steps_sampled": num_env_steps,
            "num_env_steps_sampled_lifetime": self.num_env_steps_sampled,
            **self._agent_steps(),
            "env_steps_per_second": num_env_steps / elapsed,
            "num_healthy_workers": self.env_runners.num_healthy_env_runners,
            "num_env_runner_restarts": self.env_runners.num_restarts,
        }

    def _agent_steps(self) -> dict[str, float]:
        """Return how often agents have acted, where there are several."""
        if self.agent_groups is None:
            return {}
        return {"num_agent_steps_sampled_lifetime": self.num_agent_steps_sampled}

    def log_result(self, result: dict[str, Any]) -> None:
        """Have callbacks change a result: what Tune does last with it."""
        self.callbacks.end_iteration(result)

    def iteration_is_full(self, elapsed: float, sampled: int, trained: int) -> bool:
        """Tell whether the minima are met, and the first result has waited for an episode.

        Few tools do well with a return that is NaN, so the first result waits for an episode; not
        for long, since nobody sees a step, nor stops a trial, without a result. Where training
        steps no environment there is nothing to wait for: time and what it trains on count alone.
        """
        config, sampled_now = self.config, self.num_env_steps_sampled - sampled
        if config.needs_env and self.episodes.num_lifetime == 0:
            self._endless.look(self.num_env_steps_sampled)
            if self.num_env_steps_sampled < _STEPS_FOR_AN_EPISODE:
                return False
        return (
            elapsed >= (config.min_time_s_per_iteration or 0)
            and (
                not config.needs_env
                or sampled_now >= (config.min_sample_timesteps_per_iteration or 0)
            )
            and self.num_env_steps_trained - trained
            >= (config.min_train_timesteps_per_iteration or 0)
        )

    def _check_finite(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if not np.isfinite(value):
                after = f"{self.num_env_steps_trained} steps that it has learned from"
                if self.config.needs_env:
                    env = env_name(self.config.env)
                    after = f"{self.num_env_steps} steps of {env!r}, which gave finite numbers"
                raise RuntimeError(
                    f"training diverged: {name} = {value} after {after}; a lower lr or grad_clip "
                    "may help"
                )

    @running
    def sample(self) -> dict[str, Rollout]:
        """Return rollouts of all env runners, of modules that learn, through learner connectors.

        Counts their steps and episodes, whose returns are those of the environment's rewards. Where
        nobody stepped, as every environment was replaced, there is nothing to learn from: again.
        """
        num_env_steps = 0
        while not num_env_steps:
            with self.timers("sample"):
                rollouts, episodes = self.env_runners.sample(all_columns=self.keeps_columns)
            self.episodes.add(episodes)
            self.num_agent_steps_sampled += episodes.num_agent_steps
            num_env_steps = episodes.num_env_steps
            if self.keeps_columns:
                break
        self.num_env_steps_sampled += num_env_steps
        connectors = self.learner_connectors
        return {
            m: connectors[m](rollout, self.policies[m])
            for m, rollout in rollouts.items()
            if m in connectors
        }

    def sync_weights(self) -> None:
        """Give the trial's own policies and all env runners what has been learned."""
        self.learners.pull_weights()
        self.env_runners.sync_weights()

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup | None = None) -> list[int]:
        """Make env runners that have failed again, and wait for them.

        With `restart_failed_env_runners` that happens by itself.

        Args:
            env_runner_group: Those of training if it is None.

        Returns:
            Indices of those that were made again.
        """
        group = env_runner_group or self.env_runners
        group.probe()
        return group.restore()

    restore_workers = restore_env_runners

    def scheduled(self, value: float | list[Any], num_env_steps: int | None = None) -> float:
        """Return the value of a setting that may be a schedule over environment steps.

        Args:
            value: Of the setting.
            num_env_steps: When; None: now.
        """
        return scheduled(value, self.num_env_steps if num_env_steps is None else num_env_steps)

    @property
    def num_env_steps(self) -> int:
        """Environment steps so far, as schedules count them.

        Those that were sampled; where training steps no environment, those that were trained on.
        """
        if self.config.needs_env:
            return self.num_env_steps_sampled
        return self.num_env_steps_trained

    @property
    def workers(self) -> EnvRunnerGroup:
        """Another name of `env_runners`."""
        return self.env_runners

    env_runner_group = workers

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Say what becomes of the reference's methods that are not here."""
            if name in _PARTS:
                if self._why_ended is not None:
                    self._refuse_if_ended(name)
                raise AttributeError(f"{type(self).__name__}.{name} does not exist")
            raise feature("reference").missing_attribute(type(self), name)
