"""`AlgorithmConfig`: the settings that all algorithms share, and how settings are given.

An algorithm subclasses `AlgorithmConfig` as a dataclass and declares its own settings with
`setting`. Names of the reference API that are no settings here live in
`core.config.reference.compatibility`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from trainables.core.callables import resolve_callable
from trainables.core.config.atari import (
    ENVPOOL_ARGUMENTS,
    FRAME_STACK,
    LIFE_LOSS,
    PREPROCESS,
    is_ale,
    is_envpool,
)
from trainables.core.config.callbacks import CALLBACK_SETTINGS, CallbackSettings, check_callbacks
from trainables.core.config.environment import EnvironmentSettings
from trainables.core.config.evaluation import EvaluationSettings
from trainables.core.config.exploration import OPTIONS, ExplorationConfig
from trainables.core.config.model import MEMORIES, ModelConfig, OptimizerConfig
from trainables.core.config.own_settings import (
    BuildsAlgorithm,
    StaysHere,
    checked_algorithm,
    how_to_declare,
)
from trainables.core.config.per_worker import is_per_worker, plain_type
from trainables.core.config.reference import compatibility
from trainables.core.config.reference import defaults as reference_defaults
from trainables.core.config.reference.defaults import is_model_default
from trainables.core.config.reference.name_hints import setting_hint
from trainables.core.config.reference.other_libraries import SETTINGS
from trainables.core.config.reference.uncalled_hooks import (
    CONFIG,
    LEARNER,
    check_given,
    refuse_uncalled,
)
from trainables.core.config.reporting import ReportingSettings
from trainables.core.config.resources import (
    ResourceSettings,
    check_gpus_per_learner,
    check_variables,
)
from trainables.core.config.sampling import SamplingSettings
from trainables.core.config.sections import Section
from trainables.core.config.settings import Settings, contains_search_domain, is_search_domain
from trainables.core.config.training import TrainingSettings
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner
from trainables.core.policy.connectors.given import check_connectors

DEFAULT_MODULE_ID = "default_policy"

# What can differ in an evaluation; the policy acts as it is (filter, actions, networks).
EVALUATION_SETTINGS = ("env", "env_config", "explore", "num_envs_per_env_runner")

# What has no effect where a failure ends the trial, and where there are no env-runner actors.
_OF_TOLERANCE = (
    "num_consecutive_env_runner_failures_tolerance",
    "env_runner_health_probe_timeout_s",
)
_OF_ENV_RUNNER_ACTORS = (
    "ignore_env_runner_failures",
    "restart_failed_env_runners",
    "sample_timeout_s",
    *_OF_TOLERANCE,
)

CONNECTOR_SETTINGS = ("env_to_module_connector", "module_to_env_connector", "learner_connector")


@dataclass(kw_only=True)
class AlgorithmConfig(  # the last base's settings are listed first
    CallbackSettings,
    ReportingSettings,
    EvaluationSettings,
    ResourceSettings,
    TrainingSettings,
    SamplingSettings,
    EnvironmentSettings,
    BuildsAlgorithm,
):
    """Settings that every algorithm has, each in its section.

    The first parameter is the `Algorithm` subclass that `build` makes, where it is not the one that
    the config class belongs to; settings are given by name. A value may be a Tune search domain;
    such a config is a `param_space`, not one to build from.

    Example:
        >>> config = PPOConfig().environment("CartPole-v1").training(lr=3e-4, gamma=0.98)
        >>> algo = config.build()
    """

    # What an algorithm's networks and optimiser are where `model` and `optimizer` do not say so.
    model_defaults: ClassVar[dict[str, Any]] = {}
    optimizer_defaults: ClassVar[dict[str, Any]] = {}
    # Settings of this class, and of `model`, that an algorithm does without, each with the reason.
    without: ClassVar[dict[str, str]] = {}
    model_without: ClassVar[dict[str, str]] = {}
    # Settings of the hidden layers that a custom model takes the place of.
    _custom_model_replaces: ClassVar[tuple[str, ...]] = ("fcnet_activation",)
    # Why it cannot train networks with a memory, if it cannot.
    without_memory: ClassVar[str | None] = None
    # Settings of other sections that the reference has in `.training()` of this algorithm.
    also_in_training: ClassVar[tuple[str, ...]] = ()
    # Whether it learns in the trial's own process only, without `num_learners`.
    one_learner: ClassVar[bool] = False
    # Older names that stand for several settings, with these; `check` expands them.
    composites: ClassVar[dict[str, str]] = {}
    # Types of exploration that it can have, the first by default, and why it has no others.
    exploration_types: ClassVar[tuple[str, ...]] = ("StochasticSampling",)
    why_no_exploration: ClassVar[str] = "it learns from actions that its policy sampled"
    # Whether it learns from the log-probabilities of what was done.
    uses_logp: ClassVar[bool] = True

    environment = Section("Set the environment and what happens to rewards and actions.", "env")
    env_runners = Section("Set how environments are sampled.")
    training = Section("Set how the algorithm learns.")
    learners = Section("Set where the learner computes.")
    resources = Section("Set the resources of a trial.")
    exploration = Section("Set how actions explore.")
    evaluation = Section("Set how the policy is evaluated during training.")
    reporting = Section("Set what a training iteration and its metrics cover.")
    checkpointing = Section("Set what checkpoints hold.")
    debugging = Section("Set logging and the seed.")
    framework = Section("Everything is PyTorch: only framework='torch' is accepted.", "framework")
    rl_module = Section("Set the module; `model_config` is another name of `model`.")
    api_stack = Section("There is one API stack: only True is accepted.")
    experimental = Section("Flags of the reference, accepted where they mean what is always so.")
    fault_tolerance = Section("Set what happens when environments fail.")
    offline_data = Section("Offline data: not supported yet.")
    multi_agent = Section("Multi-agent training: not supported yet.")
    callbacks = Section("Set what is called as the algorithm runs.", "callbacks_class")
    python_environment = Section("Set environment variables of a trial's processes.")

    # ------------------------------------------------------------------ setting values

    def rollouts(self, **values: Any) -> Self:
        """The older name of `env_runners`."""
        return self.env_runners(**values)

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Canonical names and checked values of a dict; search domains pass.

        Raises:
            ConfigError: for an unknown or unsupported name, or a value that is not allowed.
        """
        canonical = cls._canonical(values)
        if isinstance(canonical.get("evaluation_config"), AlgorithmConfig):
            given = canonical["evaluation_config"]
            canonical["evaluation_config"] = evaluation_overrides(given, cls())
        check_gpus_per_learner(canonical.get("num_gpus_per_learner"), one_learner=cls.one_learner)
        checked = super().check(canonical)
        for name, value in checked.items():
            cls._check_has_effect(name, value)
            nested = cls.nested_settings().get(name)
            if nested is not None and isinstance(value, dict) and not is_search_domain(value):
                checked[name] = cls._without_defaults(nested, nested.check(value))
        check_given(checked)
        cls._check_model(checked.get("model"))
        cls._check_exploration(checked.get("exploration_config"))
        overrides = checked.get("evaluation_config")
        if isinstance(overrides, dict) and not is_search_domain(overrides):
            checked["evaluation_config"] = cls._check_evaluation(overrides)
        return checked

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        """The settings that are dicts of settings."""
        return {
            "model": ModelConfig,
            "optimizer": OptimizerConfig,
            "exploration_config": ExplorationConfig,
        }

    @classmethod
    def settings_inside(cls, name: str) -> type[Settings] | None:
        return cls if name == "evaluation_config" else super().settings_inside(name)

    @classmethod
    def why_fixed(cls, path: Sequence[str]) -> str | None:
        if path[0] == "exploration_config" and len(path) > 1:
            why = cls._why_no_option(path[1])
            if why is not None:
                return why
        return cls.without.get(path[0]) or super().why_fixed(path)

    @classmethod
    def _check_has_effect(cls, name: str, value: Any) -> None:
        """Refuse what would be accepted and ignored; the default passes, as in a round trip."""
        if name in cls.without and value != cls.settings()[name].default:
            raise ConfigError(
                f"{name} = {value!r} has no effect on {cls._algorithm()}: {cls.without[name]}"
            )

    @classmethod
    def _without_defaults(cls, nested: type[Settings], values: dict[str, Any]) -> dict[str, Any]:
        """A checked `model` dict without the reference's defaults that do nothing here."""
        if nested is not ModelConfig:
            return values
        without = cls.model_without
        return {
            name: value
            for name, value in values.items()
            if name not in without or not is_model_default(name, value)
        }

    @classmethod
    def _check_model(cls, model: Any) -> None:
        """Refuse what would be ignored, or what the algorithm cannot train, in a `model` dict."""
        if not isinstance(model, dict):
            return
        for name in model:
            if name in cls.model_without:
                raise ConfigError(
                    f"model setting {name!r} has no effect on {cls._algorithm()}: "
                    f"{cls.model_without[name]}"
                )
        for name in MEMORIES:
            if cls.without_memory is not None and model.get(name):
                raise ConfigError(
                    f"model setting {name} = {model[name]!r} is not possible with "
                    f"{cls._algorithm()}: {cls.without_memory}"
                )
        ModelConfig.check_given(model, cls._custom_model_replaces)

    @classmethod
    def _check_exploration(cls, given: Any) -> None:
        if not isinstance(given, dict) or is_search_domain(given):
            return
        kind = given.get("type")
        if isinstance(kind, str) and kind not in cls.exploration_types:
            raise ConfigError(
                f"exploration_config: type = {kind!r} is not supported by {cls._algorithm()}: "
                f"{cls.why_no_exploration}; allowed: {', '.join(cls.exploration_types)}"
            )
        for name in given:
            why = cls._why_no_option(name)
            if why is not None:
                raise ConfigError(f"exploration_config: {name!r}: {why}")
        if cls.uses_logp and given.get("random_timesteps"):
            raise ConfigError(
                f"exploration_config: random_timesteps = {given['random_timesteps']!r} is not "
                f"supported by {cls._algorithm()}: {cls.why_no_exploration}"
            )

    @classmethod
    def _why_no_option(cls, name: str) -> str | None:
        """Why an option of `exploration_config` is none of the algorithm's; None if it is one."""
        options = {option for kind in cls.exploration_types for option in OPTIONS[kind]}
        if name in ("type", *options):
            return None
        return f"{cls._algorithm()} does not explore so: {cls.why_no_exploration}"

    @classmethod
    def why_not_inside(cls, outer: str, inner: str) -> str | None:
        """Why the algorithm does without a setting inside a dict of them; None if it has it."""
        if outer == "exploration_config":
            return cls._why_no_option(inner)
        if outer == "model" and inner in cls.model_without:
            return f"it has no effect on {cls._algorithm()}: {cls.model_without[inner]}"
        if outer == "model" and inner in MEMORIES and cls.without_memory is not None:
            return f"it is not possible with {cls._algorithm()}: {cls.without_memory}"
        return None

    @property
    def full_exploration(self) -> dict[str, Any]:
        """`exploration_config` with the type that each env runner has."""
        kind = self.exploration_config.get("type") or self.exploration_types[0]
        return {**self.exploration_config, "type": plain_type(kind)}

    @property
    def explores_per_worker(self) -> bool:
        """Whether each env runner explores by a constant of its own; see `per_worker`."""
        return self.num_env_runners > 0 and is_per_worker(self.exploration_config.get("type"))

    @property
    def exploring(self) -> ExplorationConfig:
        """`full_exploration` as an object."""
        return ExplorationConfig(**ExplorationConfig.check(self.full_exploration))

    @classmethod
    def _algorithm(cls) -> str:
        return cls.__name__.removesuffix("Config")

    @property
    def plays_atari(self) -> bool:
        """Whether the environment is an Atari game that is preprocessed."""
        return is_ale(self.env) if self.is_atari is None else self.is_atari

    @property
    def num_frames(self) -> int:
        """How many observations a policy sees as one."""
        if self.frame_stack is not None:
            return self.frame_stack
        return FRAME_STACK if self.plays_atari else 1

    @property
    def reward_bound(self) -> bool | float | list[float]:
        """What the learner sees of a reward: `clip_rewards`, or what it stands for."""
        return self.plays_atari if self.clip_rewards is None else self.clip_rewards

    def env_config_for(self, *, training: bool) -> dict[str, Any]:
        """`env_config` with what other settings say of the environment."""
        if not self.plays_atari:
            return {PREPROCESS: False, **self.env_config} if is_ale(self.env) else self.env_config
        more = ENVPOOL_ARGUMENTS if is_envpool(self.env) else {}
        return {LIFE_LOSS: training, **more, **self.env_config}

    @property
    def learner_type(self) -> type[Learner]:
        """`learner_class`, found by its name if need be.

        Raises:
            ConfigError: if it is no subclass of `Learner`.
        """
        given = self.learner_class
        if given is None:
            return Learner
        found = resolve_callable(given) if isinstance(given, str) else given
        if not (isinstance(found, type) and issubclass(found, Learner)):
            raise ConfigError(
                f"learner_class = {given!r} is not allowed; allowed: a subclass of "
                "trainables.core.learning.learner.Learner, or its name as 'module:Name'"
            )
        refuse_uncalled(found, LEARNER)
        return found

    @property
    def full_model(self) -> dict[str, Any]:
        """`model` over the algorithm's own defaults."""
        return {**self.model_defaults, **self.model}

    @property
    def full_optimizer(self) -> dict[str, Any]:
        """`optimizer` over the algorithm's own defaults."""
        return {**self.optimizer_defaults, **self.optimizer}

    @classmethod
    def overrides(cls, **values: Any) -> dict[str, Any]:
        """Some settings, checked, as a dict, e.g. for `evaluation_config`."""
        return cls.check(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A config of this class with the given settings; the others keep their defaults."""
        return cls().update_from_dict(values)

    def update_from_dict(self, values: Mapping[str, Any]) -> Self:
        """Set each given setting (older names are mapped) and return this config."""
        given = dict(values)
        evaluation = given.pop("evaluation_config", None)
        for name, value in type(self).check(given).items():
            setattr(self, name, value)
        if "evaluation_config" in values:  # last, for an object counts where it differs from this
            self.evaluation_config = evaluation
        return self

    def set_section(self, section: str, values: Mapping[str, Any]) -> Self:
        """Set the settings of one section, as its fluent method does.

        Raises:
            ConfigError: naming the section that a setting belongs to, if it is another one.
        """
        known = type(self).settings()
        for name in values:
            home = _home_section(name, known)
            near = {section, *_SAME_SECTION.get(section, ())}
            is_older_place = compatibility.ALIAS_SECTIONS.get(name) == section or (
                section == "training" and name in self.also_in_training
            )
            if home is not None and home not in near and not is_older_place:
                raise ConfigError(
                    f"{name!r} is not a setting of .{section}(); it belongs to .{home}()"
                )
        return self.update_from_dict(values)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") and _home_section(name, type(self).settings()) is None:
            return object.__setattr__(self, name, value)
        if self.is_frozen:
            raise ConfigError(f"{name}: this config is frozen; change a copy(copy_frozen=False)")
        if name == "algo_class":
            given = value and checked_algorithm(type(self), value)
            return object.__setattr__(self, "_algo_class", given)
        if name == "evaluation_config" and isinstance(value, AlgorithmConfig):
            value = evaluation_overrides(value, self)
        for canonical, checked in type(self).check({name: value}).items():
            object.__setattr__(self, canonical, checked)

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Older names can be read, too. Called only where there is no such attribute."""
            if name in compatibility.ALIASES:
                return getattr(self, compatibility.ALIASES[name])
            if name in SETTINGS:
                raise AttributeError(
                    f"{type(self).__name__}.{name} does not exist{self.hint(name)}"
                )
            raise compatibility.missing_attribute(type(self), name)

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """A deep copy, frozen or not as asked; None keeps this one's state."""
        copied = self.with_settings(self.to_dict())
        copied._is_frozen = self.is_frozen if copy_frozen is None else copy_frozen
        return copied

    def with_settings(self, values: Mapping[str, Any]) -> Self:
        """A config like this one, of the same class and algorithm, with these settings alone."""
        made = type(self)().update_from_dict(values)
        for name, value in vars(self).items():  # what a subclass keeps besides settings
            if name not in (*type(self).settings(), "_is_frozen", "_is_given_away"):
                object.__setattr__(made, name, copy.copy(value))
        return made

    def freeze(self) -> None:
        """Make this config read-only."""
        self._is_frozen = True

    @property
    def is_frozen(self) -> bool:
        """Whether this config is read-only."""
        return bool(self.__dict__.get("_is_frozen", False))

    # ------------------------------------------------------------------ names

    @classmethod
    def composed(cls, name: str, value: Any) -> list[tuple[str, ...]]:
        """Paths of the settings that one of `composites` stands for with this value."""
        return []

    @classmethod
    def _canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Map older names, drop what is always so, refuse what is not supported."""
        canonical: dict[str, Any] = {}
        # `lr_schedule` and its like come last: where both are given, the schedule is what is meant.
        for name in sorted(values, key=lambda name: str(name).endswith("_schedule")):
            value, target = values[name], compatibility.ALIASES.get(name, name)
            if cls._asks_for_nothing(name, value, values):
                continue
            if target in cls.settings():
                is_schedule = str(name).endswith("_schedule")
                if is_schedule and value is None:
                    continue
                if target in canonical and canonical[target] != value and not is_schedule:
                    raise ConfigError(f"{target!r} is given twice with different values")
                canonical[target] = value
            elif name in compatibility.CONSTANTS:
                cls._check_constant(name, value)
            elif target in compatibility.SOME_HAVE:
                raise ConfigError(
                    f"{name} = {value!r} is no setting of {cls._algorithm()}; it belongs to "
                    f"{compatibility.SOME_HAVE[target]}"
                )
            elif name in compatibility.PLANNED:
                feature = compatibility.PLANNED[name].feature
                raise ConfigError(f"{name} = {value!r} is not supported yet ({feature})")
            elif name in compatibility.REFUSED:
                raise ConfigError(f"{name} is not supported: {compatibility.REFUSED[name].why}")
            else:
                raise cls.unknown(str(name))
        return canonical

    @classmethod
    def _asks_for_nothing(cls, name: str, value: Any, values: Mapping[str, Any]) -> bool:
        """Whether a value is the reference's default of what does nothing here; see there."""
        target = compatibility.ALIASES.get(name, name)
        if reference_defaults.says_nothing(name, value):
            return True
        if target not in cls.settings():
            return reference_defaults.is_default(name, value)
        if reference_defaults.yields(name, value, values):
            return True
        return target in cls.without and reference_defaults.is_default(target, value)

    @classmethod
    def _check_constant(cls, name: str, value: Any) -> None:
        constant = compatibility.CONSTANTS[name]
        if value is None or value == constant.value:
            return
        if isinstance(constant.value, dict) and value == {}:
            return
        raise ConfigError(
            f"{name} = {value!r} is not supported{' yet' if constant.later else ''}; it is always "
            f"{constant.value!r} here: {constant.why}"
        )

    @classmethod
    def known_names(cls) -> Iterable[str]:
        having = cls.settings().keys() - cls.without
        older = (old for old, new in compatibility.ALIASES.items() if new in having)
        return [*filter(having.__contains__, cls.settings()), *older]

    @classmethod
    def unknown_names(cls, names: Iterable[str]) -> set[str]:
        """Those that are no setting of any algorithm, nor any name of the reference's."""
        tables: tuple[Container[str], ...] = (
            cls.settings(),
            cls.composites,
            compatibility.ALIASES,
            compatibility.CONSTANTS,
            compatibility.SOME_HAVE,
            compatibility.PLANNED,
            compatibility.REFUSED,
        )
        return {name for name in names if not any(name in table for table in tables)}

    @classmethod
    def _called_now(cls, name: str) -> str:
        return compatibility.ALIASES.get(name, name)

    @classmethod
    def hint(cls, name: str) -> str:
        found = setting_hint(cls, name)
        if found is not None:
            return f"; {found.words}"
        return super().hint(name) or how_to_declare(cls, name)

    @classmethod
    def _check_evaluation(cls, overrides: Mapping[str, Any]) -> dict[str, Any]:
        checked = cls.check(overrides)
        for name in checked:
            if name not in EVALUATION_SETTINGS:
                raise ConfigError(
                    f"evaluation_config: {name!r} has no effect on an evaluation; allowed: "
                    f"{', '.join(EVALUATION_SETTINGS)}"
                )
        return checked

    # ------------------------------------------------------------------ the config as a dict

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a setting, like a dict's `get`."""
        return self[key] if key in self else default  # noqa: SIM401 - that would call itself

    def pop(self, key: str, default: Any = None) -> Any:
        """The value of a setting; it is a config, so nothing is removed."""
        return self.get(key, default)

    def keys(self) -> Iterator[str]:
        """Names of all settings."""
        return iter(type(self).settings())

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __len__(self) -> int:
        return len(type(self).settings())

    def values(self) -> Iterator[Any]:
        """Values of all settings."""
        return (getattr(self, name) for name in self.keys())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and values of all settings."""
        return ((name, getattr(self, name)) for name in self.keys())

    def __contains__(self, key: object) -> bool:
        return compatibility.ALIASES.get(str(key), key) in type(self).settings()

    def __getitem__(self, key: str) -> Any:
        target = compatibility.ALIASES.get(key, key)
        if target not in type(self).settings():
            raise type(self).unknown(key)
        return getattr(self, target)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    # ------------------------------------------------------------------ use

    def validate(self) -> None:
        """Check what concerns several settings at once.

        Raises:
            ConfigError: naming the settings that do not fit together.
        """
        refuse_uncalled(type(self), CONFIG)
        if self.env is None:
            raise ConfigError("env is not set: give an environment, e.g. env='CartPole-v1'")
        searched = [name for name, value in self.items() if contains_search_domain(value)]
        if searched:
            raise ConfigError(
                f"{', '.join(searched)}: a search domain can be swept by tune.Tuner, not built from"
            )
        if isinstance(self.rollout_fragment_length, str) and self.rollout_fragment_length != "auto":
            raise ConfigError(
                f"rollout_fragment_length = {self.rollout_fragment_length!r} is not allowed; "
                "allowed: 'auto' or an integer >= 1"
            )
        minibatch, batch = self.minibatch_size, self.total_train_batch_size
        if minibatch is not None and minibatch > batch:
            raise ConfigError(
                f"minibatch_size = {minibatch} is larger than the train batch of {batch} steps "
                "(train_batch_size_per_learner)"
            )
        check_variables(self)
        self._validate_clip_rewards()
        self._validate_env_runners()
        self.validate_evaluation()
        ExplorationConfig.check(self.full_exploration)
        if self.explores_per_worker:
            self._validate_per_worker()
        if self.is_atari and not (is_ale(self.env) or is_envpool(self.env)):
            raise ConfigError(
                f"is_atari = True is not allowed with env = {self.env!r}; allowed: games of "
                "gymnasium, 'ALE/…', and of EnvPool; wrap others yourself"
            )
        for name in CONNECTOR_SETTINGS:
            check_connectors(self[name], name)
        for name in CALLBACK_SETTINGS:
            check_callbacks(name, self[name])
        self._validate_learners()
        if self.render_env and self.record_env:
            raise ConfigError(
                "render_env and record_env are both set; an environment renders to a window or to "
                "arrays: choose one"
            )
        if (
            not self.record_env
            and self.video_interval != type(self).settings()["video_interval"].default
        ):
            raise ConfigError(
                f"video_interval = {self.video_interval} has no effect without record_env"
            )
        if self.remote_env_batch_wait_ms and not self.remote_worker_envs:
            raise ConfigError(
                f"remote_env_batch_wait_ms = {self.remote_env_batch_wait_ms} has no effect without "
                "remote_worker_envs=True"
            )

    def _validate_learners(self) -> None:
        _ = self.learner_type
        if not self.num_learners:
            self._refuse_given("num_cpus_per_learner", "num_learners = 0: nothing learns in actors")
        if self.num_learners > self.num_slots:
            raise ConfigError(
                f"num_learners = {self.num_learners} is more than the {self.num_slots} environment "
                "slots (num_env_runners x num_envs_per_env_runner) that they share: each needs one"
            )
        if self.local_gpu_idx and (self.num_learners or not self.num_gpus_per_learner):
            raise ConfigError(
                f"local_gpu_idx = {self.local_gpu_idx} has no effect with num_learners = "
                f"{self.num_learners} and num_gpus_per_learner = {self.num_gpus_per_learner:g}: it "
                "is the GPU of a learner in the trial's own process"
            )

    def _validate_env_runners(self) -> None:
        if self.ignore_env_runner_failures and self.restart_failed_env_runners:
            raise ConfigError(
                "ignore_env_runner_failures and restart_failed_env_runners are both set; a failed "
                "env runner is either left out or made again: choose one"
            )
        num_actors = self.num_env_runners + self.evaluation_num_env_runners
        if not num_actors + self.num_learners:
            self._refuse_given(
                "extra_python_environs_for_worker",
                "num_env_runners = 0, evaluation_num_env_runners = 0 and num_learners = 0: there "
                "is only the trial's own process (extra_python_environs_for_driver)",
            )
        if not num_actors:
            for name in _OF_ENV_RUNNER_ACTORS:
                self._refuse_given(
                    name,
                    "num_env_runners = 0 and evaluation_num_env_runners = 0: the trial's own "
                    "process samples, and fails with its environments",
                )
        elif not (self.ignore_env_runner_failures or self.restart_failed_env_runners):
            for name in _OF_TOLERANCE:
                self._refuse_given(
                    name,
                    "neither ignore_env_runner_failures nor restart_failed_env_runners: the first "
                    "failure ends the trial",
                )
        if self.num_gpus_per_env_runner and not num_actors:
            raise ConfigError(
                f"num_gpus_per_env_runner = {self.num_gpus_per_env_runner} has no effect with "
                "num_env_runners = 0: the trial's process samples on num_gpus_per_learner"
            )

    def _validate_per_worker(self) -> None:
        scheduled = ExplorationConfig.scheduled_options()
        given = [name for name in self.exploration_config if name in scheduled]
        if given:
            raise ConfigError(
                f"exploration_config: {', '.join(given)} has no effect with type = "
                f"{self.exploration_config['type']!r} and num_env_runners = "
                f"{self.num_env_runners}: each env runner has a constant of its own"
            )

    def _refuse_given(self, name: str, others: str) -> None:
        """Refuse a setting that has no effect with what others are, unless it is a default."""
        if reference_defaults.is_default(name, self[name]):
            return
        if self[name] != type(self).settings()[name].default:
            raise ConfigError(f"{name} = {self[name]!r} has no effect with {others}")

    def _validate_clip_rewards(self) -> None:
        bound = self.clip_rewards
        if bound is None or isinstance(bound, bool):
            return
        bounds = bound if isinstance(bound, list) else [-bound, bound]
        if len(bounds) != 2 or not bounds[0] < bounds[1]:
            raise ConfigError(
                f"clip_rewards = {bound!r} is not allowed; allowed: True, False, None, a number "
                "> 0, or two bounds [a, b] with a < b"
            )

    @property
    def total_train_batch_size(self) -> int:
        """Environment steps per training iteration over all learners."""
        return self.train_batch_size_per_learner * max(1, self.num_learners)

    @property
    def state_stride(self) -> int:
        """Rows from one stored recurrent state to the next; 0 without a memory."""
        model = self.full_model
        if not any(model.get(name) for name in MEMORIES):
            return 0
        # Without a check of the whole dict: it is asked for in every round.
        return int(model.get("max_seq_len", ModelConfig.max_seq_len))

    @property
    def num_slots(self) -> int:
        """Environment slots over all env runners."""
        return self.num_envs_per_env_runner * max(1, self.num_env_runners)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Steps per slot in one sample of the env runner with this index (actors start at 1).

        'auto' divides the train batch over all slots; where it does not divide, the first env
        runners take one step more, so that the sum is the train batch or up to a step above it.
        """
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        if worker_index == 0:
            return math.ceil(self.total_train_batch_size / self.num_slots)
        length, rest = divmod(self.total_train_batch_size, self.num_slots)
        takes_one_more = (worker_index - 1) * self.num_envs_per_env_runner < rest
        return max(1, length + takes_one_more)

    def validate_train_batch_size_vs_rollout_fragment_length(self) -> None:
        """Raise unless fragment length x slots is within 10% of the train batch."""
        if self.rollout_fragment_length == "auto":
            return
        sampled = int(self.rollout_fragment_length) * self.num_slots
        batch = self.total_train_batch_size
        if abs(sampled - batch) > 0.1 * batch:
            raise ConfigError(
                f"rollout_fragment_length = {self.rollout_fragment_length} x {self.num_slots} "
                f"slots samples {sampled} steps, the train batch is {batch}: set "
                f"rollout_fragment_length='auto' or train_batch_size_per_learner={sampled}"
            )

    def get_evaluation_config_object(self) -> Self:
        """A copy of this config with `evaluation_config` applied."""
        return self.copy(copy_frozen=False).update_from_dict(self.evaluation_config)

    def _own_algorithm(self) -> Any:
        """The `Algorithm` subclass that the config class belongs to.

        A method and no class attribute: Ray disassembles a class with all that hangs on it, and
        would not end on one that points at a config class which points back.
        """
        return None

    if not TYPE_CHECKING:  # for mypy it is a field, and none may be a property

        @property
        def algo_class(self) -> Any:
            """The `Algorithm` subclass that this config builds."""
            given = self.__dict__.get("_algo_class") or self._own_algorithm()
            return given.get() if isinstance(given, StaysHere) else given

    def is_multi_agent(self) -> bool:
        """Whether several policies act. Never so far."""
        return False

    def build(self, env: Any = None, logger_creator: None = None, use_copy: bool = True) -> Any:
        """The algorithm of this config, ready to train.

        Args:
            env: Overrides the `env` setting.
            logger_creator: Not supported: Tune's callbacks log results.
            use_copy: False hands this very object to the algorithm, which freezes it.

        Raises:
            ConfigError: if the config is of no algorithm, or a setting is not allowed.
        """
        refuse_uncalled(type(self), CONFIG)  # the algorithm makes a config of its own class
        if self.algo_class is None:
            raise ConfigError(
                f"{type(self).__name__} belongs to no algorithm; use e.g. PPOConfig, or give one: "
                f"{type(self).__name__}(algo_class=MyAlgorithm)"
            )
        if logger_creator is not None:
            raise ConfigError(f"logger_creator: {compatibility.REFUSED['logger_creator'].why}")
        config = self.copy(copy_frozen=False) if use_copy else self
        # A mark and no argument: an algorithm of one's own may have a constructor of its own.
        config._is_given_away = True
        return self.algo_class(config=config, env=env)

    build_algo = build


# Sections of the reference whose settings moved between its generations: either one is accepted.
_SAME_SECTION: dict[str, tuple[str, ...]] = {
    "env_runners": ("fault_tolerance", "resources"),
    "resources": ("env_runners", "learners"),
    "learners": ("resources",),
    "rl_module": ("training",),
    "experimental": ("api_stack", "training"),
    "fault_tolerance": ("env_runners",),
}


def _home_section(name: str, known: Mapping[str, Any]) -> str | None:
    """The section that a name belongs to, None if it is unknown."""
    target = compatibility.ALIASES.get(name, name)
    tables: tuple[Mapping[str, Any], ...] = (
        known,
        compatibility.CONSTANTS,
        compatibility.PLANNED,
        compatibility.REFUSED,
    )
    return next((str(table[target].section) for table in tables if target in table), None)


def evaluation_overrides(given: AlgorithmConfig, training: AlgorithmConfig) -> dict[str, Any]:
    """What a config object given as `evaluation_config` changes of the training's config.

    That is what was set in it and is different there.

    Raises:
        ConfigError: naming what has no effect on an evaluation.
    """
    found = {
        name: value
        for name, value in given.items()
        if value != type(given).settings()[name].default
        and not (name in training and training[name] == value)
        and not name.startswith("evaluation_")
    }
    ignored = [name for name in found if name not in EVALUATION_SETTINGS]
    if ignored:
        raise ConfigError(
            f"evaluation_config: {', '.join(ignored)}: not as in the training's config, which has "
            f"no effect on an evaluation; allowed: {', '.join(EVALUATION_SETTINGS)}"
        )
    return found
