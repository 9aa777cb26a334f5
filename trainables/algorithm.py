"""`Algorithm`: the loop that Tune drives, and all that users call on an algorithm.

Its parts are in `lifecycle`: `policies` makes policies, acts and tells of them, `checkpoints` has
its state, `evaluation` says when it evaluates, `building` makes what it is built of, and
`folder_trainable`, its base, ends and restores it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast, overload

import gymnasium as gym
import numpy as np
import torch
from ray.tune.tune import _Config

from trainables import registry
from trainables.core.callables import refuse_uncalled, resolve_callable
from trainables.core.checkpoint import AnyCheckpoint
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.core.features import Running, feature, features_of
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.learner import Learner, learner_type
from trainables.core.learning.part import PartHook, Parts, check_parts
from trainables.core.learning.schedules import scheduled
from trainables.core.logs import is_debug, logger, set_log_level
from trainables.core.networks.memory import AnyState
from trainables.core.networks.modules import PolicyModule
from trainables.core.own_folders import may_note, note_own
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import Reported, older_names
from trainables.lifecycle import building
from trainables.lifecycle.checkpoints import Checkpoints
from trainables.lifecycle.configuring import Configures, with_one_name_each
from trainables.lifecycle.evaluation import Evaluation
from trainables.lifecycle.folder_trainable import FolderTrainable, running
from trainables.lifecycle.policies import PolicySet
from trainables.lifecycle.spaces import Spaces, module_spaces, open_env
from trainables.registry import is_ours
from trainables.runtime.callbacks.hooks import algorithm_hooks
from trainables.runtime.envs.kinds import AgentSlots, AnyVectorEnv
from trainables.runtime.envs.make import EnvContext, env_name
from trainables.runtime.learners.group import LocalLearnerGroup, make_worker
from trainables.runtime.metrics import EpisodeWindow, Timers, reserved
from trainables.runtime.process_environment import ProcessEnvironment
from trainables.runtime.random_streams import RandomStreams, draw_seed, random_streams
from trainables.runtime.sampling.endless import EndlessWatch
from trainables.runtime.sampling.group import EnvRunnerGroup, LocalEnvRunnerGroup, NoEnvRunners
from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.workers import policy_of
from trainables.runtime.trial_log import tell_set_up

# Parts that `stop` takes down.
_PARTS = ("env_runners", "eval_env_runner_group", "learners", "workers")
_STEPS_FOR_AN_EPISODE = 2_000  # that the first result waits at most for the end of an episode

registry.register_names()
_Config.register(AlgorithmConfig)  # tune.Tuner(param_space=PPOConfig()…) calls its to_dict()


class Algorithm(FolderTrainable):
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
        running_features: What features do in it, by name; what has a state is in checkpoints.
        keeps_columns: Whether a rollout must have columns of env runners that failed, too.
        part_hook: The method of a `LearnerPart` that its update calls; None: either may be.
        reported_metrics: What its results hold besides what every algorithm's do, with units and
            meanings; names below the same prefix (`learner/`) are taken in specs, too.
    """

    config_class: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    part_hook: ClassVar[PartHook | None] = None
    keeps_columns: ClassVar[bool] = False
    reported_metrics: ClassVar[tuple[Reported, ...]] = ()
    running_features: Mapping[str, Running] = MappingProxyType({})
    config: AlgorithmConfig  # type: ignore[assignment]  # Tune hands over a dict; setup replaces it
    _policy_changes: Any = None  # made when it is first used

    def __init__(
        self,
        config: AlgorithmConfig | dict[str, Any] | None = None,
        env: Any = None,
        logger_creator: None = None,
        *,
        weights: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        self._configures = Configures(self.config_class, config)
        given = self._configures.given
        if env is not None:
            given["env"] = env
        if logger_creator is not None:
            raise ConfigError("logger_creator is not supported: Tune's callbacks log results")
        self._environment = ProcessEnvironment()
        self._stored_weights: Mapping[str, Any] = weights or {}
        super().__init__(given, **kwargs)
        self._stored_weights = {}
        self._begin_features()

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
        of_agents = {}
        if self.agent_groups is not None:
            of_agents["num_agent_steps_sampled_lifetime"] = self.num_agent_steps_sampled
        return {
            **self.episodes.metrics(),
            "num_env_steps_sampled": num_env_steps,
            "num_env_steps_sampled_lifetime": self.num_env_steps_sampled,
            **of_agents,
            "env_steps_per_second": num_env_steps / elapsed,
            "num_healthy_workers": self.env_runners.num_healthy_env_runners,
            "num_env_runner_restarts": self.env_runners.num_restarts,
        }

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

    # ------------------------------------------------------------------ set up and take down

    def setup(self, config: dict[str, Any]) -> None:
        """Build everything that the settings describe. Called by Tune, and by `reset_config`."""
        start = time.perf_counter()
        self._why_ended = None
        self._given_config = config
        self.config = self._validated(config)
        self.config.freeze()
        set_log_level(self.config.log_level)
        torch.set_num_threads(building.trial_threads(self.config, self._trial_info))
        self._zero_counters()
        self.callbacks = algorithm_hooks(self, self.config, self.episodes.custom)
        task_fn = self.config.env_task_fn
        self._task_fn = resolve_callable(task_fn) if isinstance(task_fn, str) else task_fn
        for used in features_of(self.config):
            used.prepare(self.config)
        env: AnyVectorEnv | None = None
        try:
            self._environment.set(self.config.extra_python_environs_for_driver)
            env = building.make_env(self.config, self._video_folder(), self.validate_env)
            self.seed_entropy = (
                int(cast(int, np.random.SeedSequence().entropy))
                if self.config.seed is None
                else self.config.seed
            )
            seeds = self._random_streams()
            self._set_up_policies(env, seeds.module)
            if self.config.shared_encoders:
                feature("agents").begin_with_loaded(
                    self.config, self.trained_policies, self._stored_weights
                )
            self._set_up_learners(draw_seed(seeds.learner))
            self.set_up_learning(seeds.storage)
            self._set_up_env_runners(env, seeds.env_runners)
            self._set_up_evaluation(seeds.evaluation)
            self.running_features = self._set_up_features()
            self.callbacks("on_algorithm_init")
        except BaseException:
            # Actors that outlive a failed set-up would keep the trial's bundles for ever.
            self.cleanup()
            self._why_ended = (
                "its last reset failed and left it without environments; reset it again"
            )
            if env is not None:
                env.close()
            raise
        name, seconds = type(self).__name__, time.perf_counter() - start
        tell_set_up(name, self.config, self.policies, self.seed_entropy, seconds)

    def _set_up_policies(self, env: AnyVectorEnv | None, seed: np.random.SeedSequence) -> None:
        module_ids = type(self).module_ids(self.config)
        self.agent_groups = env.groups if isinstance(env, AgentSlots) else None
        self._policy_changes: Any = None
        spaces = module_spaces(self.config, env, self._spaces_of, module_ids)
        self.policies = self._make_policies(spaces, seed)
        if self.config.load_state_path is not None:
            feature("restoring").load_initial_weights(
                self.config.load_state_path, self.policies, restored=self._stored_weights
            )
        for policy in self.policies.values():
            refuse_uncalled(type(policy), "POLICY")
        self.learner_connectors = {
            m: self.make_learner_connectors(self.policies[m])
            for m in building.trained_ids(self.trained_modules(self.config), self.policies)
        }

    def _make_policies(
        self, spaces: Mapping[str, Spaces], seed: np.random.SeedSequence
    ) -> dict[str, Policy]:
        return PolicySet(self).made(spaces, seed, self._stored_weights)

    def _spaces_of(self, module_id: str) -> tuple[gym.Space, gym.Space] | None:
        said: tuple[gym.Space, gym.Space] | None
        said = self._of_module(module_id, self.spaces, self.config)
        return said

    @classmethod
    def try_build(cls, config: AlgorithmConfig, env: AnyVectorEnv) -> None:
        """Make the policies and learners of a config on the CPU, and drop them.

        No trial is needed for that, no actor is started and no callback called. A class outside
        this package that sets itself up in a way of its own is not tried.

        Args:
            config: The config, which is valid.
            env: Any number of slots of its environment. They are not stepped.

        Raises:
            ConfigError: The settings and the environment's spaces do not fit each other.
        """
        for method in ("__init__", "setup"):
            if not is_ours(next(base for base in cls.__mro__ if method in vars(base))):
                return
        tried = cls.__new__(cls)  # what its constructor does besides is for a trial
        tried.config = config.copy(copy_frozen=False)
        tried.config.fake_gpus = True
        tried.config.torch_compile_learner = tried.config.torch_compile_worker = False
        _complete(tried.config)
        tried._stored_weights = {}
        cls.validate_env(env, EnvContext(config.env_config))
        tried._set_up_policies(env, np.random.SeedSequence(0))
        make_worker(
            tried.config,
            tried.trained_policies,
            cls.make_learner,
            cls.checked_parts,
            tried.learner_connectors,
            seed=0,
        )

    def _validated(self, given: dict[str, Any]) -> AlgorithmConfig:
        refuse_uncalled(type(self), "ALGORITHM")
        if self._storage is not None:  # within Tune, whose schedulers know no other names
            given = with_one_name_each(self.config_class, given)
        config = self._configures.made_of(given, type(self))
        config.validate()
        _complete(config)
        learner_type(config.learner_class)  # not first in a process that learns
        return config

    def _zero_counters(self) -> None:
        self.num_env_steps_sampled = 0
        self.num_agent_steps_sampled = 0
        self.num_env_steps_trained = 0
        self.num_training_steps = 0
        self.timers = Timers()
        self.episodes = EpisodeWindow(self.config.metrics_num_episodes_for_smoothing)
        config = self.config
        self._endless = EndlessWatch(
            config.env, config.max_env_steps_without_episode, config.num_slots
        )

    def _set_up_learners(self, seed: int) -> None:
        config, existing = self.config, self.__dict__.get("learners")  # of the trial before
        actors = existing.handed_over(config) if existing is not None else None
        cls, policies = type(self), self.trained_policies
        if config.num_learners:
            self.learners = feature("actors").learner_group(
                config, policies, cls.make_learner, seed, actors, cls.checked_parts
            )
            return
        connectors = self.learner_connectors
        worker = make_worker(
            config, policies, cls.make_learner, cls.checked_parts, connectors, seed
        )
        self.learners = LocalLearnerGroup(worker)

    def _set_up_env_runners(self, env: AnyVectorEnv | None, seed: np.random.SeedSequence) -> None:
        existing: EnvRunnerGroup | None = self.__dict__.get("env_runners")
        actors = existing.handed_over(self.config) if existing is not None else None
        group = self.env_runners = self._made_env_runners(env, seed, actors)
        group.on_recreated = self._env_runners_recreated
        group.push_policies = self._weights_were_set
        if group.local_env_runner is not None:  # a callback may set weights there
            group.local_env_runner.push_policies = self._weights_were_set

    def _made_env_runners(
        self, env: AnyVectorEnv | None, seed: np.random.SeedSequence, actors: Any
    ) -> EnvRunnerGroup:
        """Return what samples, in this process or in actors; of some algorithms nothing does."""
        config, policies, module_slots = self.config, self.policies, self.module_slots
        if not config.needs_env:
            if env is not None:
                env.close()
            return NoEnvRunners(config, policies)
        assert env is not None  # see `core.config.rules`
        module_slots.check(config)
        output = self._output_plan()
        if config.num_env_runners == 0:
            return LocalEnvRunnerGroup(config, policies, env, seed, module_slots, output)
        group: EnvRunnerGroup = feature("actors").env_runner_group(
            config, policies, seed, self._video_folder(), actors, module_slots, output
        )
        env.close()
        return group

    def _env_runners_recreated(self, indices: list[int]) -> None:
        logger.info("env runners %s are there again", indices)
        self.callbacks(
            "on_env_runners_recreated",
            env_runner_group=self.env_runners,
            env_runner_indices=indices,
            is_evaluation=False,
        )

    def _set_up_evaluation(self, seed: np.random.SeedSequence) -> None:
        existing: Evaluation | None = self.__dict__.get("evaluation")
        own: int | None = self.config.evaluation_config.get("seed")
        seed = seed if own is None else random_streams(own).evaluation
        self.evaluation = Evaluation(self, seed, self._video_folder(), existing)

    def _set_up_features(self) -> dict[str, Running]:
        """Return what features do in this algorithm, by name."""
        made = [used.set_up(self, self.seed_entropy) for used in features_of(self.config)]
        return {running.name: running for running in made if running is not None}

    def _begin_features(self) -> None:
        """Let features begin, once subclasses, too, are set up."""
        try:
            for running in self.running_features.values():
                running.begin()
        except BaseException:
            self.cleanup()
            raise

    def _random_streams(self, *key: int) -> RandomStreams:
        """Return independent streams; others for other keys."""
        return random_streams(self.seed_entropy, *key)

    def _video_folder(self) -> str | None:
        """Return where `record_env` writes, None if it does not."""
        record = self.config.record_env
        if isinstance(record, str) and record:
            return str(Path(record) / (self.own_trial_id or ""))
        return str(self.trial_folder / "videos") if record else None

    def _output_plan(self) -> Any:
        """Return the plan of where what is sampled is recorded, None if it is not."""
        config = self.config
        if config.output is None:
            return None
        log_dir = str(self.trial_folder)
        return feature("offline").output_plan(
            config, log_dir, self.own_trial_id, env_name(config.env)
        )

    def cleanup(self) -> None:
        """Close environments and end actors. Called by `stop`."""
        logger.info("stops after %d training steps", self.__dict__.get("num_training_steps", 0))
        self._environment.take_back()
        with ExitStack() as stack:  # each is stopped even if another one raises
            own, evaluation = self.__dict__, self.__dict__.get("evaluation")
            for part in (own.pop("learners", None), evaluation, own.pop("env_runners", None)):
                if part is not None:
                    stack.callback(part.stop)

    def reset(self, new_config: AlgorithmConfig | dict[str, Any], storage: Any = None) -> bool:
        """Become a new trial with other settings, a config object or a dict, and counters of 0.

        Raises:
            StoppedError: after `stop()`.
            ConfigError: for settings that are not allowed.
        """
        self._refuse_reset("reset()")
        before = self.config
        try:
            return bool(super().reset(self._configures.take(new_config), storage))
        except BaseException:
            self.config = before  # Tune's method replaces it by the dict first
            raise

    def reset_config(self, new_config: AlgorithmConfig | dict[str, Any]) -> bool:
        """Become a new trial in this process. Tune hangs on False, so it rebuilds or raises.

        Args:
            new_config: A config object or a dict of settings.
        """
        self._refuse_reset("reset_config()")
        logger.info("this process becomes another trial")
        self.setup(self._configures.take(new_config))
        self._begin_features()
        return True

    def _refuse_reset(self, called: str) -> None:
        if self._is_stopped:
            self._refuse_if_ended(called)

    # ------------------------------------------------------------------ what subclasses say

    @staticmethod
    def validate_env(env: Any, env_context: EnvContext) -> None:
        """Override to refuse environments: raise with the reason.

        Args:
            env: The vector environment.
            env_context: What it was made with.
        """

    @staticmethod
    def open_env(config: AlgorithmConfig) -> AbstractContextManager[AnyVectorEnv]:
        """Make one slot of a config's environment, to ask it; leaving the `with` block closes it.

        Args:
            config: The algorithm's config.

        Raises:
            ConfigError: if it cannot be made.
        """
        return open_env(config, training=True)

    @classmethod
    def spaces(cls, config: Any) -> tuple[gym.Space, gym.Space] | None:
        """Return the observation and action space of what is learned from, if that says them.

        Asked where the setting `env` is None: of an algorithm whose training steps no environment.
        If this says nothing, the settings `observation_space` and `action_space` do, or the
        environment of evaluations. One that takes a `module_id`, too, says it of each module.

        Args:
            config: The algorithm's config.
        """
        return None

    @property
    def module_slots(self) -> ModuleSlots:
        """Which module acts in which slot."""
        module_ids = type(self).module_ids(self.config)
        if self.agent_groups is not None:
            slots: ModuleSlots = feature("agents").module_slots(module_ids, self.agent_groups)
            return slots
        return ModuleSlots(module_ids, type(self).module_of_slot)

    @classmethod
    def module_ids(cls, config: Any) -> tuple[str, ...]:
        """Return the ids of the modules, each with a policy and a learner of its own.

        Where there are several, `module_of_slot` says which acts where, and `trained_modules` which
        learn.

        Args:
            config: The algorithm's config.
        """
        if not config.policies:
            return (DEFAULT_MODULE_ID,)
        return tuple(m for m, spec in config.policies.items() if not spec.is_fixed)

    @classmethod
    def trained_modules(cls, config: Any) -> Collection[str]:
        """Return the ids of the modules that learn; the others only act, e.g. as opponents.

        Where the setting `policies_to_train` is [] each has a learner, which never updates it.

        Args:
            config: The algorithm's config.
        """
        chosen = config.policies_to_train  # ids, a function, or None
        return chosen if isinstance(chosen, list) and chosen else cls.module_ids(config)

    @property
    def trained_policies(self) -> dict[str, Policy]:
        """The policies that learn, by module id."""
        return {module_id: self.policies[module_id] for module_id in self.learner_connectors}

    @staticmethod
    def module_of_slot(slot: int, worker_index: int) -> str:
        """Return the id of the module that acts in a slot; not called where there is one module.

        Args:
            slot: The number of the slot in its env runner, from 0.
            worker_index: The index of the env runner: 0 in process, 1, 2, … for actors.
        """
        return DEFAULT_MODULE_ID

    def policy_options(self, module_id: str) -> dict[str, Any]:
        """Return arguments of `Policy` in place of those that the config gives, e.g. `model`.

        A dict `model` has the settings that differ from the config's; the others stay.

        Args:
            module_id: The module that the policy is of.
        """
        return {}

    def config_of(self, module_id: str) -> Any:
        """Return the config that a module learns by: with the settings that it has of its own."""
        known = self.config.policies or (DEFAULT_MODULE_ID,)
        # A module of `module_ids` may be none of the config's policies.
        return self.config.module_config(module_id) if module_id in known else self.config

    def _config_of_policy(self, policy: Policy) -> Any:
        """Return the config that a policy's module learns by; of a stranger, the algorithm's."""
        own = (self.config_of(m) for m, known in self.policies.items() if known is policy)
        return next(own, self.config)

    def _of_module(self, module_id: str, method: Callable[..., Any], *args: Any) -> Any:
        """Return what a method says of a module; one of a subclass may take no `module_id`."""
        return building.of_module(module_id, method, *args)

    def module_options(self) -> dict[str, Any]:
        """Return what policies are made of: a type in `core.networks.catalog` and its options."""
        return {"type": "actor_critic"}

    @classmethod
    def make_learner(cls, config: Any, module: PolicyModule) -> Learner:
        """Return the learner of a module, in whatever process it learns.

        Args:
            config: The algorithm's config.
            module: Of a policy of that process.
        """
        resolved, options = config.resolve(), cls.learner_options(config, module)
        if resolved.compile is not None:
            options = {"compile": resolved.compile, **options}
        kind = learner_type(config.learner_class)
        for used in features_of(config):
            kind = used.replace_learner(kind)
        return kind(module, resolved.optimizer, config.grad_clip, config.grad_clip_by, **options)

    @classmethod
    def checked_parts(cls, config: Any, policy: Policy) -> Parts:
        """Return all parts of a policy's module: those of the algorithm and of features.

        Args:
            config: The config of the module.
            policy: Of the process that learns.

        Raises:
            ConfigError: if two have one name, or one does not fit.
        """
        parts = cls.make_learner_parts(config, policy)
        added: Parts = {}
        for used in features_of(config):
            added = {**added, **used.learner_parts(config, policy)}
        if twice := parts.keys() & added.keys():
            raise ConfigError(
                f"make_learner_parts: {min(twice)!r} is the name of what exploration_config adds; "
                "give the part another one"
            )
        return check_parts({**parts, **added}, policy, cls.part_hook)

    @classmethod
    def make_learner_parts(cls, config: Any, policy: Policy) -> Parts:
        """Return networks that train beside a policy, by name, in whatever process it learns.

        Args:
            config: The algorithm's config.
            policy: Of that process.
        """
        return {}

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        """Return what else a `Learner` is made with, e.g. groups of parameters and targets."""
        return {}

    def make_learner_connectors(self, policy: Policy) -> LearnerConnectors:
        """Return what happens to the rollouts of a policy before anything is learned of them."""
        config = self._config_of_policy(policy)
        return LearnerConnectors(config.learner_connector, config.resolve().reward_bound, policy)

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        """Set up what else an algorithm needs to learn, e.g. room for experience.

        Before any actor is started, and cleaned up after if it fails.
        """

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        """Take over that other modules learn from here on, see `add_policy`.

        Args:
            seed: The seed of what is made for those that are new.
        """

    def exploration_at(self, num_env_steps: int) -> dict[str, Any]:
        """Return what schedules of exploration say, if any, as `Policy.set_exploration` takes it.

        Args:
            num_env_steps: Environment steps since the trial began.
        """
        return {}

    def why_alone(self) -> str | None:
        """Return why updates are not made together with those of other trials in this process.

        None if they are, where a host trains several: see `runtime.members`.
        """
        reason: str | None = feature("batching").why_alone(self)
        return reason

    # ------------------------------------------------------------------ policies

    @overload
    def get_policy(self) -> Policy: ...

    @overload
    def get_policy(self, policy_id: str) -> Policy | None: ...

    def get_policy(self, policy_id: str | None = None) -> Policy | None:
        """Return the learner's policy of an id, None if there is none of it.

        Without an id it is that of `default_policy`.

        Raises:
            KeyError: naming the ids there are, without one.
        """
        if policy_id is None:
            return policy_of(self.policies, DEFAULT_MODULE_ID)
        return self.policies.get(policy_id)

    get_module = get_policy

    @running
    def compute_single_action(
        self,
        observation: Any = None,
        state: AnyState = None,
        *,
        policy_id: str | None = None,
        timestep: int | None = None,
        **options: Any,
    ) -> Any:
        """Return the action for one observation; more options: `Policy.compute_single_action`.

        Args:
            observation: Raw; None if `input_dict` holds it.
            state: Of a policy that has one.
            policy_id: Which policy acts; None: `default_policy`.
            timestep: Explore as the schedules say for so many environment steps; None: as now.
            options: `prev_action`, `prev_reward`, `info`, `input_dict`, `full_fetch`, `explore`,
                `episode`, `unsquash_action`, `clip_action`.

        Raises:
            KeyError: if there is no such policy; it names those there are.
        """
        return PolicySet(self).single_action(policy_id, timestep, observation, state, **options)

    @running
    def compute_actions(
        self,
        observations: Any = None,
        state: Any = None,
        *,
        policy_id: str | None = None,
        timestep: int | None = None,
        **options: Any,
    ) -> Any:
        """Return actions for a batch, or for a dict of observations; see `Policy.compute_actions`.

        Args:
            observations: A batch, or observations by keys of yours. Of several policies, where
                `policy_id` is None, a dict is by agent: each agent's policy acts, as
                `policy_mapping_fn` says it of an episode of number 0.
            state: Of a policy that has one; with keys, a state for each, or for some.
            policy_id: Which policy acts; None: each agent's, or else `default_policy`.
            timestep: Explore as the schedules say for so many environment steps; None: as now.
            options: `prev_action`, `prev_reward` (with keys: by the same keys, or batches in their
                order), `info`, `input_dict`, `full_fetch`, `explore`, `episodes`,
                `unsquash_actions`, `clip_actions`.

        Returns:
            Of a dict with other keys than the observation space's: actions by its keys; with
            `full_fetch`, or of a policy that has a state, also states by its keys, and what else
            there is as batches in the order of its keys; by policy id, where each agent's acts.

        Raises:
            KeyError: if there is no such policy; it names those there are.
            ConfigError: if an agent has no policy, or one that is written by hand.
        """
        return PolicySet(self).actions(policy_id, timestep, observations, state, **options)

    def get_weights(
        self, policies: Collection[str] | None = None
    ) -> dict[str, dict[str, np.ndarray]]:
        """Return copies of the weights by policy id; None: of all policies."""
        return {p: policy_of(self.policies, p).get_weights() for p in policies or self.policies}

    @running
    def set_weights(self, weights: dict[str, dict[str, np.ndarray]]) -> None:
        """Set weights by policy id, here, on learners and on all env runners.

        Policies with the encoder of one of them (`shared_encoders`) take that over.

        Raises:
            ConfigError: if names or shapes are others, or two that have one encoder are given
                different ones.
        """
        PolicySet(self).set_weights(weights)
        self._weights_were_set(weights)
        self.env_runners.sync_weights()

    def _weights_were_set(self, policy_ids: Collection[str]) -> None:
        """Let all that learn go on with weights that somebody has set here.

        Args:
            policy_ids: Whose they are; others may have the encoder of one of them.
        """
        PolicySet(self).go_on_with_encoders(policy_ids)
        self.learners.push_policies()

    @running
    def add_policy(
        self,
        policy_id: str,
        policy_cls: Any = None,
        policy: Policy | None = None,
        *,
        observation_space: gym.Space | None = None,
        action_space: gym.Space | None = None,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        policy_state: Mapping[str, Any] | None = None,
        policy_mapping_fn: Any = None,
        policies_to_train: Any = None,
        shared_encoders: Any = None,
        evaluation_workers: bool = True,
        workers: Any = None,
    ) -> Policy | None:
        """Add a policy, which acts from the next sample on, and is in the next checkpoint.

        Args:
            policy_id: An id that no policy of this run has. That of one that was removed is free.
            policy_cls: None: a policy that learns; else one written by hand, see `PolicySpec`.
            policy: One whose weights and filter are taken over, e.g. `Policy.load` of another run.
            observation_space: What its agents see; None: what the agents see that are mapped to it.
            action_space: What its agents do, likewise.
            config: Settings in which it differs.
            policy_state: Of `Policy.get_state`, taken over.
            policy_mapping_fn: The mapping from here on; None: as before.
            policies_to_train: Which policies are trained from here on; None: as before, so that the
                new one is trained unless the setting names others.
            shared_encoders: Which policies have one encoder from here on; None: as before, so that
                the new one is among them if the setting is True. It takes over what they have
                learned, also where `policy` or `policy_state` has other weights of it.
            evaluation_workers: Only True: evaluations play with the policies that act.
            workers: Only None: all env runners have it.

        Returns:
            The learner's policy; None of one written by hand.

        Raises:
            ConfigError: if it cannot be added, with the reason.
        """
        added: Policy | None = self.policy_changes.add(
            policy_id,
            policy_cls,
            policy,
            observation_space=observation_space,
            action_space=action_space,
            config=config,
            policy_state=policy_state,
            policy_mapping_fn=policy_mapping_fn,
            policies_to_train=policies_to_train,
            shared_encoders=shared_encoders,
            evaluation_workers=evaluation_workers,
            workers=workers,
        )
        return added

    @running
    def remove_policy(
        self,
        policy_id: str = DEFAULT_MODULE_ID,
        *,
        policy_mapping_fn: Any = None,
        policies_to_train: Any = None,
        evaluation_workers: bool = True,
    ) -> None:
        """Remove a policy. Where it still acts, it does so until these episodes end.

        One that is left alone with an encoder (`shared_encoders`) goes on with it by itself.

        Args:
            policy_id: Its id.
            policy_mapping_fn: The mapping from here on; None: as before.
            policies_to_train: Which policies are trained from here on; None: as before, but for it.
            evaluation_workers: Only True: evaluations play with the policies that act.

        Raises:
            KeyError: if there is no such policy, naming those there are.
            ConfigError: if it cannot be removed, with the reason.
        """
        self.policy_changes.remove(
            policy_id,
            policy_mapping_fn=policy_mapping_fn,
            policies_to_train=policies_to_train,
            evaluation_workers=evaluation_workers,
        )

    def change_policies(
        self, config: AlgorithmConfig, states: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Go on with other policies: what `add_policy`, `remove_policy` and a league come to.

        Args:
            config: This one's, with other policies.
            states: The states of policies that are new, by id; of others the initial one.
        """
        self.policy_changes.become(config, states)

    @property
    def policy_changes(self) -> Any:
        """What changes policies while this runs, a `PolicyChanges`; made when it is first used."""
        if self._policy_changes is None:
            self._policy_changes = feature("agents").policy_changes(self)
        return self._policy_changes

    @property
    def changed_policies(self) -> dict[str, Any]:
        """What a checkpoint holds of policies that came and went; nothing if none has."""
        changes: dict[str, Any] = {}
        if self._policy_changes is not None:
            changes = self._policy_changes.state()
        return changes

    @property
    def league(self) -> Any:
        """Self-play against frozen copies, a `LeaguePlay`; None without the setting `league`."""
        return self.running_features.get("league")

    def export_policy_checkpoint(self, export_dir: str, policy_id: str = DEFAULT_MODULE_ID) -> Path:
        """Write a policy to a folder that `Policy.load` serves without Ray or an environment."""
        is_mine = may_note(Path(export_dir), "policy")
        policies = PolicySet(self)
        folder = policies.save(policy_id, export_dir, policies.metadata())
        if is_mine:
            note_own(folder)
        return folder

    def export_policy_model(
        self,
        export_dir: str,
        policy_id: str = DEFAULT_MODULE_ID,
        onnx: int | None = None,
        *,
        with_env: bool = True,
    ) -> Path:
        """Write a policy as one graph from observations to actions: `model.pt2` or `policy.onnx`.

        It is compared with the policy before it is written; see `core/export/torch_program.py`.

        Args:
            export_dir: Made if missing.
            policy_id: Which policy.
            onnx: An ONNX opset version; None writes a `torch.export` program.
            with_env: Compare on observations of the environment, too, not only of its space. With
                several agents it is on those of the space alone.

        Returns:
            The file. Beside it a JSON file says what it takes and gives.

        Raises:
            ConfigError: if the policy cannot be exported so, a library is missing, or the graph
                acts otherwise than the policy.
        """
        return PolicySet(self).write_model(policy_id, export_dir, onnx, with_env=with_env)

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        """Write each format; of several policies each to a folder of its id."""
        exported: dict[str, str] = feature("export").write_each(self, export_formats, export_dir)
        return exported

    # ------------------------------------------------------------------ evaluation

    @running
    def evaluate(self, duration_fn: Callable[[int], int] | None = None) -> dict[str, float]:
        """Play `evaluation_duration` episodes (or steps) with the present policy.

        With "auto" each actor plays one episode, since there is no training to play beside.

        Args:
            duration_fn: Decides instead of `evaluation_duration`: it is given how many episodes (or
                steps) were played and says how many more are to be; 0 ends the evaluation.

        Returns:
            Flat metrics; those of the last evaluation if no actor answered in time, and if there is
            none, NaN for means and 0 for numbers of episodes and steps.

        Raises:
            ConfigError: if `duration_fn` says no number, or a function of the config evaluates.
        """
        return self.evaluation.evaluate(duration_fn)

    @property
    def eval_env_runner_group(self) -> Any:
        """What plays evaluations, an `EvaluationGroup`: in process or over actors."""
        self._refuse_if_ended("eval_env_runner_group")
        return self.evaluation.player.group

    @property
    def evaluation_workers(self) -> Any:
        """The older name of `eval_env_runner_group`."""
        return self.eval_env_runner_group

    # ------------------------------------------------------------------ state

    @running
    def get_state(self) -> dict[str, Any]:
        """Return everything that `from_state` needs to go on exactly."""
        return Checkpoints(self).whole_state()

    def state_besides_policies(self) -> dict[str, Any]:
        """Return what a checkpoint holds besides the policies, each of which has its own folder."""
        return Checkpoints(self).state_besides_policies()

    @running
    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what another run has learned; the settings of this one stay.

        The same run goes on with its random streams and episodes. A clone (another trial's state,
        as in population-based training) gets new ones. A policy that the state does not hold keeps
        the weights that it has.
        """
        feature("restoring").set_state(self, state)

    @property
    def counters(self) -> dict[str, Any]:
        """What this run, and those that it goes on with, have counted, as checkpoints hold it."""
        return {
            "iteration": self._iteration,
            "time_total_s": self._time_total,
            "num_env_steps_sampled": self.num_env_steps_sampled,
            "num_agent_steps_sampled": self.num_agent_steps_sampled,
            "num_env_steps_trained": self.num_env_steps_trained,
            "num_training_steps": self.num_training_steps,
        }

    @counters.setter
    def counters(self, counters: Mapping[str, Any]) -> None:
        self._iteration = counters["iteration"]
        self._time_total = counters["time_total_s"]
        self.num_env_steps_sampled = counters["num_env_steps_sampled"]
        self.num_agent_steps_sampled = counters.get("num_agent_steps_sampled", 0)
        self.num_env_steps_trained = counters["num_env_steps_trained"]
        self.num_training_steps = counters["num_training_steps"]
        if self.config.needs_env:  # else no result has it
            self._timesteps_total = self.num_env_steps_sampled  # type: ignore[assignment]

    def clone_streams(self) -> RandomStreams:
        """Return streams of its own for a clone that has just taken over its donor's counters."""
        return self._random_streams(zlib.crc32(self.trial_id.encode()), self._iteration)

    def is_clone_of(self, state: dict[str, Any]) -> bool:
        """Tell whether the state is another trial's, as in population-based training."""
        theirs = state["trial_id"]
        return None not in (theirs, self.own_trial_id) and theirs != self.own_trial_id

    def get_learned_state(self) -> dict[str, Any]:
        """Return what an algorithm has learned besides weights, e.g. an adaptive coefficient."""
        return {}

    def set_learned_state(self, state: dict[str, Any]) -> None:
        """Take over `get_learned_state`'s."""

    @running
    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write JSON and safetensors. `checkpoint.json` comes last: without it there is none."""
        Checkpoints(self).save(Path(checkpoint_dir))

    @running
    def load_checkpoint(self, checkpoint: Any) -> None:
        """Read what `save_checkpoint` wrote."""
        folder = feature("restoring").load(self, checkpoint)
        logger.info("loaded checkpoint %s, of %d env steps", folder, self.num_env_steps_sampled)
        self.callbacks("on_checkpoint_loaded")

    @classmethod
    def from_checkpoint(
        cls,
        path: AnyCheckpoint,
        trust: Collection[str] = (),
        *,
        policy_ids: Collection[str] | None = None,
        policy_mapping_fn: Any = None,
        policies_to_train: Any = None,
    ) -> Any:
        """Rebuild an algorithm from its checkpoint and go on from there.

        A class of one's own is rebuilt as that class if this is called on it, if it was registered
        (`register_algorithm`), or if `trust` names it. Checkpoints of before this was recorded are
        of the nearest algorithm of this package.

        Args:
            path: A checkpoint folder, Ray's `Checkpoint` (`results.get_best_result().checkpoint`),
                or what `save` returned.
            trust: What the checkpoint may ask for besides harmless settings: code by its name,
                `module:qualname` (an environment for example), anything else by the setting's, e.g.
                "record_env". The error names what is missing. Without it, loading imports no code,
                writes no folder, sets no environment variable, and starts no more processes than
                the settings' declarations call harmless.
            policy_ids: The policies to recover, of several; None: all. What is stored of the others
                is left out, and `policies_to_train` trains those that are left. Policies written by
                hand stay only if they are named.
            policy_mapping_fn: Which policy acts for an agent from here on, in place of the setting
                that is stored: see there. It must be given where that was a lambda or another
                function without a name by which it is found, or names a policy that is left out. A
                stored replay buffer is left out if it gives a policy more agents, or fewer.
            policies_to_train: Which policies are trained from here on: see the setting. None: as
                stored. One that was not trained before begins with a new optimizer.

        With any of the last three, running episodes are dropped.

        Raises:
            ConfigError: if there is no such policy, or the settings do not fit together.
            CheckpointError: if it is damaged or asks for what is not trusted.
        """
        algorithm = feature("restoring").from_checkpoint(
            cls,
            path,
            trust,
            policy_ids=policy_ids,
            policy_mapping_fn=policy_mapping_fn,
            policies_to_train=policies_to_train,
        )
        algorithm.callbacks("on_checkpoint_loaded")
        return algorithm

    @classmethod
    def from_state(
        cls, state: dict[str, Any], trust: Collection[str] = (), what: str = "the state"
    ) -> Any:
        """Rebuild an algorithm from `get_state`'s; see `from_checkpoint`."""
        return feature("restoring").from_state(cls, state, trust, what)

    # ------------------------------------------------------------------ for Tune

    @classmethod
    def default_resource_request(cls, config: AlgorithmConfig | dict[str, Any]) -> Any:
        """Return the trial's bundles: of the driver, env runners, evaluation, learners.

        Tune calls this in its own process, before a trial begins.

        Raises:
            ConfigError: if a Ray is joined that can never place them, which Tune would wait for; or
                if videos are to be recorded, and the extra that writes them is not installed.
        """
        config = cls._config_object(config)
        if config.record_env:
            feature("video").check_encoder()
        return feature("actors").resource_request(config, lambda: cls.resource_help(config))

    @classmethod
    def resource_help(cls, config: AlgorithmConfig | dict[str, Any]) -> str:
        """Return which settings decide the resources of a trial."""
        needs = feature("actors").resource_help(cls._config_object(config))
        return f"This config asks for {needs}."

    @classmethod
    def _config_object(cls, config: AlgorithmConfig | dict[str, Any]) -> AlgorithmConfig:
        refuse_uncalled(cls, "ALGORITHM")  # here in the driver, before a trial begins
        if isinstance(config, AlgorithmConfig):
            return config
        return cls.config_class.from_dict(with_one_name_each(cls.config_class, config))

    def get_auto_filled_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return Tune's own metrics; `config` holds the settings as they were given."""
        filled = super().get_auto_filled_metrics(*args, **kwargs)
        if "config" in filled:
            filled["config"] = self._given_config
        return filled

    @classmethod
    def merge_algorithm_configs(
        cls,
        config1: dict[str, Any],
        config2: dict[str, Any],
        _allow_unknown_configs: bool | None = None,
    ) -> dict[str, Any]:
        """Return `config1` with the settings of `config2` on top, nested dicts merged.

        Args:
            config1: Settings.
            config2: Settings that come before those of `config1`.
            _allow_unknown_configs: Names that are no settings stay as they are, e.g. for a
                subclass to read. `build` refuses them all the same.

        Raises:
            ConfigError: if a name is no setting, unless that is allowed.
        """
        merged: dict[str, Any] = feature("reference").merged(
            cls.config_class, config1, config2, any_name=bool(_allow_unknown_configs)
        )
        return merged

    merge_trainer_configs = merge_algorithm_configs

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Say what becomes of the reference's methods that are not here."""
            if name in _PARTS:
                if self._why_ended is not None:
                    self._refuse_if_ended(name)
                raise AttributeError(f"{type(self).__name__}.{name} does not exist")
            raise feature("reference").missing_attribute(type(self), name)


def _complete(config: AlgorithmConfig) -> None:
    """Let features set what the settings leave to them."""
    for used in features_of(config):
        used.complete(config)
