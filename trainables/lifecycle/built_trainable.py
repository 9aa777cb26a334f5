"""`BuiltTrainable`: what an algorithm is built of, from its settings, and how it is taken down."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from types import MappingProxyType
from typing import Any, ClassVar, cast, overload

import gymnasium as gym
import numpy as np
import torch

from trainables.core.callables import refuse_uncalled, resolve_callable
from trainables.core.config.agents.agent_mapping import named_to_train
from trainables.core.config.agents.several_agents import all_policies, config_of_module
from trainables.core.config.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.features import Running, feature, features_of
from trainables.core.learning.connectors import LearnerConnectors
from trainables.core.learning.learner import Learner, learner_type
from trainables.core.learning.part import PartHook, Parts, check_parts
from trainables.core.logs import logger, set_log_level
from trainables.core.networks.modules import PolicyModule
from trainables.core.policy.policy import Policy
from trainables.lifecycle import building
from trainables.lifecycle.agents import encoder_sharing
from trainables.lifecycle.configuring import Configures, merged, with_one_name_each
from trainables.lifecycle.evaluation import Evaluation
from trainables.lifecycle.folder_trainable import FolderTrainable, running
from trainables.lifecycle.restoring.initial_weights import load_initial_weights
from trainables.lifecycle.spaces import Spaces, module_spaces, open_env
from trainables.registry import is_ours
from trainables.runtime.callbacks.hooks import algorithm_hooks
from trainables.runtime.envs.make import EnvContext
from trainables.runtime.envs.multi_agent.make import AnyVectorEnv
from trainables.runtime.envs.multi_agent.vector_env import AgentsVectorEnv
from trainables.runtime.envs.video import check_display, check_encoder
from trainables.runtime.learners.group import make_worker
from trainables.runtime.metrics import EpisodeWindow, Timers
from trainables.runtime.process_environment import ProcessEnvironment
from trainables.runtime.random_streams import RandomStreams, draw_seed, random_streams
from trainables.runtime.sampling.endless import EndlessWatch
from trainables.runtime.sampling.group import EnvRunnerGroup
from trainables.runtime.sampling.module_slots import ModuleSlots, module_seeds
from trainables.runtime.sampling.workers import policy_of
from trainables.runtime.trial_log import tell_set_up


class BuiltTrainable(FolderTrainable):
    """Base of `Algorithm`, which lists what it has: policies, env runners, learners and the like.

    Args:
        config: A config object, or a dict of settings.
        env: Overrides the `env` setting.
        weights: By module id, those that `set_state` will give its policies; see `Policy`.
    """

    config_class: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    part_hook: ClassVar[PartHook | None] = None
    running_features: Mapping[str, Running] = MappingProxyType({})
    config: AlgorithmConfig  # type: ignore[assignment]  # Tune hands over a dict; setup replaces it

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
        if self.config.render_env or self.config.evaluation_config.get("render_env"):
            check_display()
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
            encoder_sharing.begin_with_loaded(
                self.config, self.trained_policies, restored=self._stored_weights
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
        self.agent_groups = env.groups if isinstance(env, AgentsVectorEnv) else None
        self._policy_changes: Any = None
        spaces = module_spaces(self.config, env, self._spaces_of, module_ids)
        self.policies = self._make_policies(spaces, seed)
        if self.config.load_state_path is not None:
            load_initial_weights(
                self.config.load_state_path, self.policies, restored=self._stored_weights
            )
        for policy in self.policies.values():
            refuse_uncalled(type(policy), "POLICY")
        self.learner_connectors = {
            m: self.make_learner_connectors(self.policies[m])
            for m in building.trained_ids(self.trained_modules(self.config), self.policies)
        }

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

    def _random_streams(self, *key: int) -> RandomStreams:
        """Return independent streams; others for other keys."""
        return random_streams(self.seed_entropy, *key)

    @property
    def _own_trial_id(self) -> str | None:
        return self.trial_id if self._trial_info else None

    def _video_folder(self) -> str | None:
        return building.video_folder(self.config, self._own_trial_id, self._storage, self.logdir)

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

    def _spaces_of(self, module_id: str) -> tuple[gym.Space, gym.Space] | None:
        said: tuple[gym.Space, gym.Space] | None
        said = self._of_module(module_id, self.spaces, self.config)
        return said

    def _make_policies(
        self, spaces: Mapping[str, Spaces], seed: np.random.SeedSequence
    ) -> dict[str, Policy]:
        seeds = module_seeds(self.module_slots.module_ids, seed)
        policies = {}
        shelf = None
        if self.config.policy_map_capacity is not None:
            shelf = feature("shelf").shelf_for(self.config, len(seeds))
        for module_id, own_seed in seeds.items():
            policies[module_id] = building.make_policy(
                self.config_of(module_id),
                spaces[module_id],
                self._of_module(module_id, self.module_options),
                draw_seed(own_seed),
                self._stored_weights.get(module_id),
                self.policy_options(module_id),
            )
            if shelf is not None:
                shelf.add(policies[module_id])
        has_memory = bool(self.config.resolve().state_stride)
        for module_id, policy in policies.items():
            if policy.is_recurrent != has_memory:  # what is learned from is cut into sequences
                raise ConfigError(
                    f"the module {module_id!r} and the setting model differ in whether there is a "
                    "memory (use_lstm, use_gru, use_attention); allowed: all modules have one, or "
                    "none has"
                )
        return policies

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
        policies = all_policies(config)
        return tuple(m for m, spec in policies.items() if not spec.is_fixed)

    @classmethod
    def trained_modules(cls, config: Any) -> Collection[str]:
        """Return the ids of the modules that learn; the others only act, e.g. as opponents.

        Where the setting `policies_to_train` is [] each has a learner, which never updates it.

        Args:
            config: The algorithm's config.
        """
        return named_to_train(config.policies_to_train) or cls.module_ids(config)

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
        return config_of_module(self.config, module_id)

    def _config_of_policy(self, policy: Policy) -> Any:
        """Return the config that a policy's module learns by; of a stranger, the algorithm's."""
        own = (self.config_of(m) for m, known in self.policies.items() if known is policy)
        return next(own, self.config)

    def _of_module(self, module_id: str, method: Callable[..., Any], *args: Any) -> Any:
        """Return what a method says of a module; one of a subclass may take no `module_id`."""
        return building.of_module(module_id, method, *args)

    def make_learner_connectors(self, policy: Policy) -> LearnerConnectors:
        """Return what happens to the rollouts of a policy before anything is learned of them."""
        config = self._config_of_policy(policy)
        return LearnerConnectors(config.learner_connector, config.resolve().reward_bound, policy)

    def module_options(self) -> dict[str, Any]:
        """Return what policies are made of: a type in `core.networks.catalog` and its options."""
        return {"type": "actor_critic"}

    def _set_up_learners(self, seed: int) -> None:
        self.learners = building.make_learners(
            getattr(self, "learners", None),
            self.config,
            self.trained_policies,
            type(self).make_learner,
            type(self).checked_parts,
            self.learner_connectors,
            seed,
        )

    def why_alone(self) -> str | None:
        """Return why updates are not made together with those of other trials in this process.

        None if they are, where a host trains several: see `runtime.members`.
        """
        if not self.config.learns_together:
            return f"updates of {type(self).__name__} are not written for several trials"
        rows = getattr(self.config, "minibatch_size", None)
        return self.learners.why_alone(rows or self.config.train_batch_size_per_learner)

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
        return learner_type(config.learner_class)(
            module, resolved.optimizer, config.grad_clip, config.grad_clip_by, **options
        )

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

    def set_up_learning(self, seed: np.random.SeedSequence) -> None:
        """Set up what else an algorithm needs to learn, e.g. room for experience.

        Before any actor is started, and cleaned up after if it fails.
        """

    def modules_changed(self, seed: np.random.SeedSequence) -> None:
        """Take over that other modules learn from here on, see `add_policy`.

        Args:
            seed: The seed of what is made for those that are new.
        """

    def _set_up_env_runners(self, env: AnyVectorEnv | None, seed: np.random.SeedSequence) -> None:
        existing: EnvRunnerGroup | None = getattr(self, "env_runners", None)
        self.env_runners = building.make_env_runners(
            existing,
            self.config,
            self.policies,
            self.module_slots,
            env,
            seed,
            self._video_folder(),
            building.output_plan(self.config, self._own_trial_id, self._storage, self.logdir),
        )
        self.env_runners.on_recreated = self._env_runners_recreated
        self.env_runners.push_policies = self._weights_were_set
        if self.env_runners.local_env_runner is not None:  # a callback may set weights there
            self.env_runners.local_env_runner.push_policies = self._weights_were_set

    def _weights_were_set(self, policy_ids: Collection[str]) -> None:
        """Let all that learn go on with weights that somebody has set here.

        Args:
            policy_ids: Whose they are; others may have the encoder of one of them.
        """
        encoder_sharing.go_on_with(self.config, self.trained_policies, policy_ids)
        self.learners.push_policies()

    def _set_up_evaluation(self, seed: np.random.SeedSequence) -> None:
        existing: Evaluation | None = getattr(self, "evaluation", None)
        own: int | None = self.config.evaluation_config.get("seed")
        seed = seed if own is None else random_streams(own).evaluation
        self.evaluation = Evaluation(self, seed, self._video_folder(), existing)

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

    @property
    def eval_env_runner_group(self) -> Any:
        """What plays evaluations, an `EvaluationGroup`: in process or over actors."""
        self._refuse_if_ended("eval_env_runner_group")
        return self.evaluation.player.group

    @property
    def evaluation_workers(self) -> Any:
        """The older name of `eval_env_runner_group`."""
        return self.eval_env_runner_group

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

    def _env_runners_recreated(self, indices: list[int]) -> None:
        logger.info("env runners %s are there again", indices)
        self.callbacks(
            "on_env_runners_recreated",
            env_runner_group=self.env_runners,
            env_runner_indices=indices,
            is_evaluation=False,
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

    @property
    def league(self) -> Any:
        """Self-play against frozen copies, a `LeaguePlay`; None without the setting `league`."""
        return self.running_features.get("league")

    def _refuse_reset(self, called: str) -> None:
        if self._is_stopped:
            self._refuse_if_ended(called)

    # ------------------------------------------------------------------ resources

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
            check_encoder()
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

    # ------------------------------------------------------------------ for Tune's bookkeeping

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
        return merged(cls.config_class, config1, config2, bool(_allow_unknown_configs))

    merge_trainer_configs = merge_algorithm_configs


def _complete(config: AlgorithmConfig) -> None:
    """Let features set what the settings leave to them."""
    for used in features_of(config):
        used.complete(config)
