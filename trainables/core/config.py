"""`AlgorithmConfig`: the settings that all algorithms share, and how settings are given.

An algorithm subclasses `AlgorithmConfig` as a dataclass and declares its own settings with
`setting`. Names of the reference API that are no settings here live in `core.compatibility`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import gymnasium as gym

from trainables.core import compatibility
from trainables.core.model_config import ModelConfig, OptimizerConfig
from trainables.core.sections import Section
from trainables.core.settings import (
    ConfigError,
    Settings,
    contains_search_domain,
    is_search_domain,
    setting,
)

DEFAULT_MODULE_ID = "default_policy"

# What can differ in an evaluation; the policy acts as it is (filter, actions, networks).
EVALUATION_SETTINGS = ("env", "env_config", "explore")


@dataclass
class AlgorithmConfig(Settings):
    """Settings that every algorithm has, each in its section.

    A value may be a Tune search domain; such a config is a `param_space`, not one to build from.

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
    # Older names that stand for several settings, with these; `check` expands them.
    composites: ClassVar[dict[str, str]] = {}
    # Whether it learns from the log-probabilities of what was done.
    uses_logp: ClassVar[bool] = True

    # environment
    env: str | type | Callable[..., Any] | None = setting(
        None,
        "environment",
        "gymnasium id, name given to tune.register_env, class, callable, 'module:name', "
        "or 'envpool:' and an EnvPool id",
    )
    env_config: dict[str, Any] = setting(
        {}, "environment", "what the environment is made with: keyword arguments, or an EnvContext"
    )
    observation_space: gym.Space | None = setting(
        None, "environment", "overrides the environment's own observation space"
    )
    action_space: gym.Space | None = setting(
        None, "environment", "overrides the environment's own action space"
    )
    clip_rewards: bool | float | list[float] | None = setting(
        None,
        "environment",
        "what the learner sees of a reward: True its sign, c clipped to [-c, c], [a, b] to [a, b]",
    )
    normalize_actions: bool = setting(
        True,
        "environment",
        "learn in [-1, 1] and stretch to the bounds of a bounded Box (then clip)",
    )
    clip_actions: bool = setting(
        False, "environment", "clip Box actions to the environment's bounds without stretching"
    )

    # env_runners
    num_env_runners: int = setting(
        0, "env_runners", "env-runner actors; 0 samples in the trial's own process", ge=0
    )
    num_envs_per_env_runner: int = setting(
        8, "env_runners", "environment slots that an env runner steps together", ge=1
    )
    rollout_fragment_length: int | str = setting(
        "auto", "env_runners", "steps per slot and sample; 'auto' fits the train batch", ge=1
    )
    observation_filter: str = setting(
        "NoFilter",
        "env_runners",
        "MeanStdFilter scales each observation element by running mean and standard deviation",
        choices=("NoFilter", "MeanStdFilter"),
    )
    num_cpus_per_env_runner: int | float = setting(
        1, "env_runners", "CPUs of an env-runner actor", ge=0
    )
    custom_resources_per_env_runner: dict[str, Any] = setting(
        {}, "env_runners", "custom Ray resources of an env-runner actor"
    )

    # training
    gamma: float = setting(0.99, "training", "discount factor, gamma", ge=0, le=1)
    lr: float | list[Any] = setting(
        3e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
    train_batch_size_per_learner: int = setting(
        2048, "training", "environment steps per training iteration", ge=1
    )
    num_epochs: int = setting(1, "training", "passes over the train batch", ge=1)
    minibatch_size: int | None = setting(
        None, "training", "rows of one gradient step; None takes the whole batch", ge=1
    )
    shuffle_batch_per_epoch: bool = setting(True, "training", "a new permutation of rows per epoch")
    grad_clip: float | None = setting(None, "training", "bound of the gradient clipping", gt=0)
    grad_clip_by: str = setting(
        "global_norm",
        "training",
        "clip elements by value, each tensor by its norm, or all by their global norm",
        choices=("value", "norm", "global_norm"),
    )
    model: dict[str, Any] = setting(
        {},
        "training",
        "settings of the networks, see ModelConfig",
        fixed="it is what the networks are built of",
    )
    optimizer: dict[str, Any] = setting(
        {}, "training", "settings of the optimiser, see OptimizerConfig"
    )

    # learners and resources
    num_gpus_per_learner: int | float = setting(
        0, "learners", "GPUs of the learner, in the driver bundle; may be a fraction", ge=0
    )
    num_cpus_for_main_process: int | float = setting(
        1, "resources", "CPUs of the trial's own process, the driver bundle", ge=0
    )
    fake_gpus: bool = setting(
        False, "resources", "request GPUs but compute on the CPU, to test on a machine without one"
    )
    placement_strategy: str = setting(
        "PACK",
        "resources",
        "how Ray places the trial's bundles on nodes",
        choices=("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"),
    )

    # exploration and evaluation
    explore: bool = setting(True, "exploration", "sample actions; False takes the most likely ones")
    evaluation_interval: int | None = setting(
        None, "evaluation", "training iterations between evaluations; None or 0: never", ge=0
    )
    evaluation_duration: int = setting(10, "evaluation", "length of an evaluation", ge=1)
    evaluation_duration_unit: str = setting(
        "episodes",
        "evaluation",
        "unit of evaluation_duration",
        choices=("episodes", "timesteps"),
    )
    evaluation_config: dict[str, Any] = setting(
        {"explore": False},
        "evaluation",
        "what differs in an evaluation: env, env_config, explore",
    )
    always_attach_evaluation_results: bool = setting(
        True,
        "evaluation",
        "every result carries the latest evaluation (the first one follows iteration 1)",
    )

    # reporting, checkpointing, debugging
    metrics_num_episodes_for_smoothing: int = setting(
        100, "reporting", "episode statistics cover at least this many last episodes", ge=1
    )
    min_time_s_per_iteration: float | None = setting(
        None, "reporting", "seconds that train() lasts at least", ge=0
    )
    min_train_timesteps_per_iteration: int | None = setting(
        None, "reporting", "environment steps that train() trains on at least", ge=0
    )
    min_sample_timesteps_per_iteration: int | None = setting(
        None, "reporting", "environment steps that train() samples at least", ge=0
    )
    max_env_steps_without_episode: int = setting(
        1_000_000,
        "reporting",
        "environment steps after which a first episode must have ended",
        ge=1,
    )
    export_native_model_files: bool = setting(
        False, "checkpointing", "checkpoints also hold each policy as a torch.export program"
    )
    log_level: str = setting(
        "WARN",
        "debugging",
        "level of the loggers of trainables",
        choices=("DEBUG", "INFO", "WARN", "ERROR"),
    )
    log_sys_usage: bool = setting(
        False, "debugging", "results carry CPU and memory use (needs psutil)"
    )
    seed: int | None = setting(
        None, "debugging", "root of every random stream; None draws one", ge=0
    )

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
    fault_tolerance = Section("Fault tolerance: not supported yet.")
    offline_data = Section("Offline data: not supported yet.")
    multi_agent = Section("Multi-agent training: not supported yet.")
    callbacks = Section("Callbacks: not supported yet.", "callbacks_class")
    python_environment = Section("Environment variables per process: not supported yet.")

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
        checked = super().check(cls._canonical(values))
        for name, value in checked.items():
            cls._check_has_effect(name, value)
            nested = cls.nested_settings().get(name)
            if nested is not None and isinstance(value, dict) and not is_search_domain(value):
                checked[name] = nested.check(value)
        cls._check_model(checked.get("model"))
        overrides = checked.get("evaluation_config")
        if isinstance(overrides, dict) and not is_search_domain(overrides):
            checked["evaluation_config"] = cls._check_evaluation(overrides)
        return checked

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        """The settings that are dicts of settings."""
        return {"model": ModelConfig, "optimizer": OptimizerConfig}

    @classmethod
    def why_fixed(cls, path: Sequence[str]) -> str | None:
        return cls.without.get(path[0]) or super().why_fixed(path)

    @classmethod
    def _check_has_effect(cls, name: str, value: Any) -> None:
        """Refuse what would be accepted and ignored; the default passes, as in a round trip."""
        if name in cls.without and value != cls.settings()[name].default:
            raise ConfigError(
                f"{name} = {value!r} has no effect on {cls._algorithm()}: {cls.without[name]}"
            )

    @classmethod
    def _check_model(cls, model: Any) -> None:
        for name in model if isinstance(model, dict) else ():
            if name in cls.model_without:
                raise ConfigError(
                    f"model setting {name!r} has no effect on {cls._algorithm()}: "
                    f"{cls.model_without[name]}"
                )

    @classmethod
    def _algorithm(cls) -> str:
        return cls.__name__.removesuffix("Config")

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
        for name, value in type(self).check(values).items():
            setattr(self, name, value)
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
            if home is not None and home not in near:
                raise ConfigError(
                    f"{name!r} is not a setting of .{section}(); it belongs to .{home}()"
                )
        return self.update_from_dict(values)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") and _home_section(name, type(self).settings()) is None:
            return object.__setattr__(self, name, value)
        if self.is_frozen:
            raise ConfigError(f"{name}: this config is frozen; change a copy(copy_frozen=False)")
        for canonical, checked in type(self).check({name: value}).items():
            object.__setattr__(self, canonical, checked)

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Older names can be read, too. Called only where there is no such attribute."""
            if name in compatibility.ALIASES:
                return getattr(self, compatibility.ALIASES[name])
            raise compatibility.missing_attribute(type(self), name)

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """A deep copy, frozen or not as asked; None keeps this one's state."""
        copied = type(self)(**self.to_dict())
        copied._is_frozen = self.is_frozen if copy_frozen is None else copy_frozen
        return copied

    def freeze(self) -> None:
        """Make this config read-only."""
        self._is_frozen = True

    @property
    def is_frozen(self) -> bool:
        """Whether this config is read-only."""
        return bool(self.__dict__.get("_is_frozen", False))

    # ------------------------------------------------------------------ names

    @classmethod
    def _canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Map older names, drop what is always so, refuse what is not supported."""
        canonical: dict[str, Any] = {}
        # `lr_schedule` and its like come last: where both are given, the schedule is what is meant.
        for name in sorted(values, key=lambda name: str(name).endswith("_schedule")):
            value, target = values[name], compatibility.ALIASES.get(name, name)
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
        return [*cls.settings(), *compatibility.ALIASES]

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
        self._validate_clip_rewards()
        if not self.num_cpus_for_main_process + self.num_gpus_per_learner:
            raise ConfigError(
                "num_cpus_for_main_process = 0 needs num_gpus_per_learner > 0: Ray places no trial "
                "whose own process asks for nothing"
            )

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
        return self.train_batch_size_per_learner

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

    @property
    def algo_class(self) -> Any:
        """The `Algorithm` subclass that this config builds.

        A property and no class attribute: Ray disassembles a class with all that hangs on it, and
        would not end on one that points at a config class which points back.
        """
        return None

    def is_multi_agent(self) -> bool:
        """Whether several policies act. Never so far."""
        return False

    def build(self, env: Any = None, logger_creator: None = None, use_copy: bool = True) -> Any:
        """The algorithm of this config, ready to train.

        Args:
            env: Overrides the `env` setting.
            logger_creator: Not supported: Tune's callbacks log results.
            use_copy: False hands this very object to the algorithm, which freezes it.
        """
        if self.algo_class is None:
            raise ConfigError(f"{type(self).__name__} belongs to no algorithm; use e.g. PPOConfig")
        if logger_creator is not None:
            raise ConfigError(f"logger_creator: {compatibility.REFUSED['logger_creator'].why}")
        config = self.copy(copy_frozen=False) if use_copy else self
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
