"""`AlgorithmConfig`: the settings that all algorithms share.

An algorithm subclasses `AlgorithmConfig` as a dataclass and declares its own settings with
`setting`. The shared ones are declared by section in `environment`, `sampling`, `training`,
`reporting`, `experience`, `callbacks` and `policies`; what must hold between them is in `rules`.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import gymnasium as gym

from trainables.core.callables import refuse_uncalled, resolve_callable
from trainables.core.config.algorithm_traits import check_traits, why_no_option, why_not_inside
from trainables.core.config.callbacks import CallbackSettings
from trainables.core.config.environment import (
    ENVPOOL_ARGUMENTS,
    FRAME_STACK,
    LIFE_LOSS,
    PREPROCESS,
    EnvironmentSettings,
    is_ale,
    is_envpool,
)
from trainables.core.config.experience import (
    SAMPLER,
    EstimationSettings,
    InputKey,
    OfflineSettings,
)
from trainables.core.config.exploration import (
    ExplorationConfig,
    how_actions_are_chosen,
    is_intrinsic,
    is_per_worker,
    plain_type,
)
from trainables.core.config.model import ModelConfig, OptimizerConfig
from trainables.core.config.own_settings import (
    StaysHere,
    check_defaults,
    checked_algorithm,
    how_to_declare,
)
from trainables.core.config.policies import (
    DEFAULT_POLICY,
    OLDER_DICT,
    LeagueConfig,
    MultiAgentSettings,
    PolicySpec,
)
from trainables.core.config.reporting import OF_EVALUATION, ReportingSettings
from trainables.core.config.resolved import CompileOptions, Resolved
from trainables.core.config.rules import RULES, check_gpus_per_learner, critic_key, features_given
from trainables.core.config.sampling import SamplingSettings
from trainables.core.config.sections import SAME_SECTION, Section
from trainables.core.config.settings import (
    SAY_NOTHING,
    Settings,
    contains_search_domain,
    gathers,
    is_one_of,
    is_search_domain,
)
from trainables.core.config.training import FrameworkSettings, TrainingSettings
from trainables.core.errors import ConfigError
from trainables.core.features import feature, feature_settings

DEFAULT_MODULE_ID = DEFAULT_POLICY
Spaces = tuple[gym.Space, gym.Space]
R = TypeVar("R", bound=Resolved)

CONNECTOR_SETTINGS = ("env_to_module_connector", "module_to_env_connector", "learner_connector")

# Slots that evaluations step together. Not those of training: episodes would depend on them.
_SLOTS = 8
_CLASSES = {"learner_class": "LEARNER", "env_runner_cls": "ENV_RUNNER"}

# What is made of a config when it is first asked for, while it is frozen.
_MADE = ("_resolved", "_module_configs")
# What is no setting, and not copied with them.
_OWN = ("_is_frozen", "_is_given_away", *_MADE)
# What is no setting, and begins with an underscore as some of the reference's names do.
_KEPT = ("_algo_class", *_OWN)

_PLAIN = (bool, int, float, str, type(None))

if TYPE_CHECKING:

    class _Sections(
        MultiAgentSettings,
        CallbackSettings,
        FrameworkSettings,
        EstimationSettings,
        OfflineSettings,
        ReportingSettings,
        TrainingSettings,
        SamplingSettings,
        EnvironmentSettings,
    ):
        """The sections as type checkers see them: `gathers` copies their fields."""

else:
    _Sections = Settings


@dataclass(kw_only=True)
@gathers(
    EnvironmentSettings,
    SamplingSettings,
    TrainingSettings,
    ReportingSettings,
    OfflineSettings,
    EstimationSettings,
    FrameworkSettings,
    CallbackSettings,
    MultiAgentSettings,
)
class AlgorithmConfig(_Sections):
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
    # Settings of `model` that it does without, each with the reason.
    model_without: ClassVar[dict[str, str]] = {}
    # Settings of the hidden layers that a custom model takes the place of.
    _custom_model_replaces: ClassVar[tuple[str, ...]] = ("fcnet_activation",)
    # Why it cannot train networks with a memory, if it cannot.
    without_memory: ClassVar[str | None] = None
    # Why it cannot train policies of several agents; None: it can.
    several_agents: ClassVar[str | None] = "it trains one agent so far"
    # Whether its loss is of whole fragments, `[T, N]`, whose shape is part of what is compiled.
    compiles_fragments: ClassVar[bool] = False
    # Whether its updates hand on what policies of one encoder learn: `LearnerWorker.share_encoder`.
    shares_encoders: ClassVar[bool] = False
    # Whether all agents of an environment are one agent to it, a team.
    plays_as_team: ClassVar[bool] = False
    # Types of exploration that it can have, the first by default, and why it has no others.
    exploration_types: ClassVar[tuple[str, ...]] = ("StochasticSampling",)
    why_no_exploration: ClassVar[str] = "it learns from actions that its policy sampled"
    # Why it can have no intrinsic rewards; None: it can.
    why_no_intrinsic: ClassVar[str | None] = "nothing says that its updates ask for them"
    # Options of these that it does without, each with the reason.
    intrinsic_without: ClassVar[dict[str, str]] = {
        "intrinsic_gamma": "bonuses are added to the rewards there"
    }
    # Whether updates of several trials in one process can be made together.
    learns_together: ClassVar[bool] = False
    # Whether it learns from the log-probabilities of what was done.
    uses_logp: ClassVar[bool] = True

    # Older names that stand for several settings, or for an entry of a dict of them, with these.
    composites: ClassVar[dict[str, str]] = {}
    # Those of an entry: the setting that is a dict, and the name in it.
    older_entries: ClassVar[dict[str, tuple[str, str]]] = {}
    # Whether several learners share out the slots of rollouts, of which each needs one.
    learners_share_slots: ClassVar[bool] = True
    # Whether the algorithm can learn from what another policy did.
    learns_from_data: ClassVar[bool] = False
    # Why not, in words, if it cannot.
    why_no_data: ClassVar[str] = "it learns from what its present policy has just sampled"
    # Settings of other sections that the reference has in `.training()` of this algorithm.
    also_in_training: ClassVar[tuple[str, ...]] = ()
    # `module:name` of the algorithm that the config class belongs to. A name and not the class: Ray
    # disassembles a class with all that hangs on it, and would not end on one that points back.
    algorithm: ClassVar[str | None] = None

    # It is no setting: neither a search nor a checkpoint gives it.
    algo_class: Any = dataclasses.field(
        default=None, repr=False, metadata={"setting": None}, kw_only=False
    )

    def __new__(cls, *args: Any, **values: Any) -> Self:
        """Refuse a class whose own defaults would be passed over."""
        config_class: Any = cls
        check_defaults(config_class)
        return super().__new__(cls, *args, **values)

    # ------------------------------------------------------------------ sections

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
    offline_data = Section("Set what recorded experience is read, and what is recorded.")
    multi_agent = Section("Set policies, which agents they act for, and which are trained.")
    callbacks = Section("Set what is called as the algorithm runs.", "callbacks_class")
    python_environment = Section("Set environment variables of a trial's processes.")

    def rollouts(self, **values: Any) -> Self:
        """Set the same as `env_runners`, of which it is the older name."""
        return self.env_runners(**values)

    def set_section(self, section: str, values: Mapping[str, Any]) -> Self:
        """Set the settings of one section, as its fluent method does.

        Raises:
            ConfigError: naming the section that a setting belongs to, if it is another one.
        """
        known = type(self).settings()
        for name in values:
            older = None if name in known else feature("reference")
            home = older.section_of(type(self), name) if older else known[name].section
            near = {section, *SAME_SECTION.get(section, ())}
            is_older_place = (older is not None and older.is_older_place(name, section)) or (
                section == "training" and name in self.also_in_training
            )
            if home is not None and home not in near and not is_older_place:
                raise ConfigError(
                    f"{name!r} is not a setting of .{section}(); it belongs to .{home}()"
                )
        return self.update_from_dict(values)

    # ------------------------------------------------------------------ names and values

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return canonical names and checked values of a dict; search domains pass.

        Raises:
            ConfigError: for an unknown or unsupported name, or a value that is not allowed.
        """
        canonical = cls._canonical(cls._with_entries(values))
        if isinstance(canonical.get("evaluation_config"), AlgorithmConfig):
            given = canonical["evaluation_config"]
            canonical["evaluation_config"] = feature_settings("evaluation").overrides(given, cls())
        check_gpus_per_learner(canonical.get("num_gpus_per_learner"), canonical.get("num_learners"))
        used = [feature_settings(name) for name in features_given(cls, canonical)]
        for meant in used:
            canonical = {**meant.plain(cls, canonical)}
        checked = super().check(canonical)
        for meant in used:
            meant.check_values(cls, checked)
        checked = check_traits(cls, checked)
        for name, kind in _CLASSES.items():  # those that are names are looked at when found
            if isinstance(checked.get(name), type):
                refuse_uncalled(checked[name], kind)
        overrides = checked.get("evaluation_config")
        is_own = isinstance(overrides, dict) and not _is_default(
            cls, "evaluation_config", overrides
        )
        if is_own and not is_search_domain(overrides):
            checked |= feature_settings("evaluation").checked(cls, overrides, checked)
        return checked

    @classmethod
    def settings_inside(cls, name: str) -> type[Settings] | None:
        if name == "evaluation_config":
            return cls
        declared = cls.settings().get(name)
        if declared is not None and declared.feature is not None:
            found: type[Settings] | None = feature_settings(declared.feature).inside(cls, name)
            if found is not None:
                return found
        return super().settings_inside(name)

    @classmethod
    def nested_settings(cls) -> dict[str, type[Settings]]:
        """Return the settings that are dicts of settings."""
        return {
            "model": ModelConfig,
            "optimizer": OptimizerConfig,
            "exploration_config": ExplorationConfig,
            "league": LeagueConfig,
        }

    @classmethod
    def why_fixed(cls, path: Sequence[str]) -> str | None:
        if path[0] == "exploration_config" and len(path) > 1:
            why = why_no_option(cls, path[1])
            if why is not None:
                return why
        return cls.without.get(path[0]) or super().why_fixed(path)

    @classmethod
    def why_not_inside(cls, outer: str, inner: str) -> str | None:
        """Return why the algorithm does without a setting inside a dict of them, or None."""
        return why_not_inside(cls, outer, inner)

    def update_from_dict(self, values: Mapping[str, Any]) -> Self:
        """Set each given setting (older names are mapped) and return this config."""
        given = self._with_entries(values, self)
        if not isinstance(given.get("evaluation_config"), AlgorithmConfig):
            return self._update(given)
        evaluation = given.pop("evaluation_config")
        self._update(given)
        # Last, for it counts where it differs from this.
        self.evaluation_config = evaluation
        return self

    def _update(self, given: Mapping[str, Any]) -> Self:
        for name, value in type(self).check(given).items():
            self._store(name, value)
        return self

    @classmethod
    def _stands_for(cls, name: str) -> bool:
        """Tell whether a name is that of a setting, or one of the reference's for some."""
        return name in cls.settings() or feature("reference").section_of(cls, name) is not None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _KEPT or (name.startswith("_") and not self._stands_for(name)):
            return object.__setattr__(self, name, value)
        self._refuse_if_frozen(name)
        if _is_default(type(self), name, value):
            # Checking every one takes most of making a config.
            return self._store(name, copy.deepcopy(value))
        if name == "algo_class":
            return self._store("_algo_class", value and checked_algorithm(type(self), value))
        if name == "evaluation_config" and isinstance(value, AlgorithmConfig):
            value = feature_settings("evaluation").overrides(value, self)
        given = self._with_entries({name: value}, self)
        number = self.__dict__.get("evaluation_num_env_runners")
        if name == "evaluation_config" and number:  # which it may say otherwise
            given["evaluation_num_env_runners"] = number
        for canonical, checked in type(self).check(given).items():
            self._store(canonical, checked)

    @classmethod
    def _with_entries(cls, values: Mapping[str, Any], present: Any = None) -> dict[str, Any]:
        """Return values with those that stand for entries of dicts in the dicts.

        Args:
            values: By the names that they were given under.
            present: The config so far, the dicts' other entries of which stay; None: there is none.

        Raises:
            ConfigError: if an entry is given by both names, with different values.
        """
        if values.keys() <= cls.settings().keys():
            return dict(values)
        return feature("reference").with_entries(cls, values, present)

    @classmethod
    def _canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by names of settings, without those that ask for nothing.

        Raises:
            ConfigError: for a name that is none, or is not supported.
        """
        known = cls.settings()
        for name, value in values.items():
            is_plain = name in known and not is_one_of(SAY_NOTHING.get(name, ()), value)
            if not is_plain or (name in cls.without and value != known[name].default):
                return feature("reference").canonical(cls, values)
        return dict(values)

    @classmethod
    def composed(cls, name: str, value: Any) -> list[tuple[str, ...]]:
        """Return paths of the settings that one of `composites` stands for with this value."""
        found: list[tuple[str, ...]] = feature("reference").composed(cls, name, value)
        return found

    @classmethod
    def known_names(cls) -> Iterable[str]:
        return feature("reference").known_names(cls)

    @classmethod
    def unknown_names(cls, names: Iterable[str]) -> set[str]:
        """Return those that are no setting of any algorithm, nor any name of the reference's."""
        return feature("reference").unknown_names(cls, names)

    @classmethod
    def _called_now(cls, name: str) -> str:
        return name if name in cls.settings() else str(feature("reference").called_now(name))

    @classmethod
    def hint(cls, name: str) -> str:
        words = feature("reference").hint(cls, name)
        if words is not None:
            return f"; {words}"
        return super().hint(name) or how_to_declare(cls, name)

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Older names can be read, too. Called only where there is no such attribute."""
            if name.startswith("__"):  # what copying asks for
                raise AttributeError(f"{type(self).__name__}.{name} does not exist")
            return feature("reference").attribute(self, name)

    @classmethod
    def overrides(cls, **values: Any) -> dict[str, Any]:
        """Return some settings, checked, as a dict, e.g. for `evaluation_config`."""
        return cls.check(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return a config of this class with the given settings; others keep their defaults."""
        return cls().update_from_dict(values)

    def _store(self, name: str, value: Any) -> None:
        """Set a setting to a value that is checked already.

        Raises:
            ConfigError: if this config is frozen.
        """
        self._refuse_if_frozen(name)
        object.__setattr__(self, name, value)

    def _refuse_if_frozen(self, name: str) -> None:
        """Refuse to set a setting of a read-only config.

        Raises:
            ConfigError: naming the setting.
        """
        if self.is_frozen:
            raise ConfigError(f"{name}: this config is frozen; change a copy(copy_frozen=False)")

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """Return a deep copy, frozen or not as asked; None keeps this one's state."""
        copied = object.__new__(type(self))
        self._give_extras(copied)
        for name, value in self.to_dict().items():  # checked when it was set
            object.__setattr__(copied, name, value)
        copied._is_frozen = self.is_frozen if copy_frozen is None else copy_frozen
        return copied

    def with_settings(self, values: Mapping[str, Any]) -> Self:
        """Return a config of this one's class and algorithm, with these settings alone."""
        made = type(self)().update_from_dict(values)
        self._give_extras(made)
        return made

    def _give_extras(self, other: Self) -> None:
        """Give another config what a subclass keeps besides settings."""
        for name, value in vars(self).items():
            if name not in (*type(self).settings(), *_OWN):
                object.__setattr__(other, name, copy.copy(value))

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process is made of; it resolves for itself."""
        return {name: value for name, value in vars(self).items() if name not in _MADE}

    def freeze(self) -> None:
        """Make this config read-only."""
        for name in _MADE:
            self.__dict__.pop(name, None)
        self._is_frozen = True

    @property
    def is_frozen(self) -> bool:
        """Whether this config is read-only."""
        return bool(self.__dict__.get("_is_frozen", False))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting, like a dict's `get`."""
        return self[key] if key in self else default  # noqa: SIM401 - that would call itself

    def pop(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting; it is a config, so nothing is removed."""
        return self.get(key, default)

    def keys(self) -> Iterator[str]:
        """Return names of all settings."""
        return iter(type(self).settings())

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __len__(self) -> int:
        return len(type(self).settings())

    def values(self) -> Iterator[Any]:
        """Return values of all settings."""
        return (getattr(self, name) for name in self.keys())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return names and values of all settings."""
        return ((name, getattr(self, name)) for name in self.keys())

    def __contains__(self, key: object) -> bool:
        return key == OLDER_DICT or self._called_now(str(key)) in type(self).settings()

    def __getitem__(self, key: str) -> Any:
        if key == OLDER_DICT:
            return self.multiagent
        target = self._called_now(key)
        if target not in type(self).settings():
            raise type(self).unknown(key)
        return getattr(self, target)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    # ------------------------------------------------------------------ what settings mean

    def validate(self) -> None:
        """Check what concerns several settings at once.

        Raises:
            ConfigError: naming the settings that do not fit together.
        """
        refuse_uncalled(type(self), "CONFIG")
        searched = [name for name, value in self.items() if contains_search_domain(value)]
        if searched:
            raise ConfigError(
                f"{', '.join(searched)}: a search domain can be swept by tune.Tuner, not built from"
            )
        for rule in RULES:
            rule.check(self)

    @property
    def needs_env(self) -> bool:
        """Whether training steps an environment, `env`.

        Of an algorithm that learns from what is there already it is False: `env` may then be None,
        and otherwise says the spaces and what evaluations play in.
        """
        return True

    @property
    def _plays_atari(self) -> bool:
        """Whether the environment is an Atari game that is preprocessed."""
        return is_ale(self.env) if self.is_atari is None else self.is_atari

    @property
    def _num_frames(self) -> int:
        """How many observations a policy sees as one."""
        if self.frame_stack is not None:
            return self.frame_stack
        return FRAME_STACK if self._plays_atari else 1

    @property
    def _reward_bound(self) -> bool | float | list[float]:
        """What the learner sees of a reward: `clip_rewards`, or what it stands for."""
        return self._plays_atari if self.clip_rewards is None else self.clip_rewards

    def env_config_for(self, *, training: bool) -> dict[str, Any]:
        """Return `env_config` with what other settings say of the environment."""
        if not self._plays_atari:
            return {PREPROCESS: False, **self.env_config} if is_ale(self.env) else self.env_config
        more = ENVPOOL_ARGUMENTS if is_envpool(self.env) else {}
        return {LIFE_LOSS: training, **more, **self.env_config}

    @property
    def num_slots(self) -> int:
        """Environment slots over all env runners."""
        return self.num_envs_per_env_runner * max(1, self.num_env_runners)

    @property
    def total_train_batch_size(self) -> int:
        """Environment steps per training iteration over all learners."""
        return self.train_batch_size_per_learner * max(1, self.num_learners)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return the steps per slot in a sample of the env runner with this index (actors: from 1).

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

    @property
    def evaluation_env(self) -> Any:
        """What evaluations play in: `env`, or what `evaluation_config` puts in its place."""
        return self.evaluation_config.get("env", self.env)

    @property
    def evaluation_slots(self) -> int:
        """Slots that an evaluation steps together.

        Of several slots that play timesteps, each has an episode cut off, and "auto" ends with
        training: they would play further than was asked.
        """
        given: int | None = self.evaluation_config.get("num_envs_per_env_runner")
        if given is not None:
            return given
        in_episodes = self.evaluation_duration_unit == "episodes"
        return _SLOTS if in_episodes and self.evaluation_duration != "auto" else 1

    def acting_compile_options(self, has_memory: bool) -> CompileOptions | None:
        """Return how what acts is compiled; None: it is not.

        Raises:
            ConfigError: if it is asked of networks with a memory.
        """
        return self._compile_options(
            "torch_compile_worker",
            has_memory,
            "it looks where episodes begin, which no compiled program can, and its pieces take "
            "longer",
        )

    def compile_options(self, has_memory: bool) -> CompileOptions | None:
        """Return how losses are compiled; None: they are not.

        Raises:
            ConfigError: if it is asked of networks with a memory.
        """
        return self._compile_options(
            "torch_compile_learner",
            has_memory,
            "its sequences are cut where episodes end, so every batch would be another program",
        )

    def _compile_options(
        self, setting_name: str, has_memory: bool, why_without: str
    ) -> CompileOptions | None:
        """Return what a setting and its `_dynamo_backend` and `_dynamo_mode` say together."""
        if not getattr(self, setting_name):
            return None
        if has_memory:
            raise ConfigError(
                f"{setting_name} = True is not possible with a memory (model): {why_without}"
            )
        backend, mode = (getattr(self, f"{setting_name}_dynamo_{n}") for n in ("backend", "mode"))
        return CompileOptions(backend, mode)

    @property
    def input_shares(self) -> dict[InputKey, float]:
        """The sources that `input_` names, each with its share of a batch; they sum to 1.

        A key is "sampler", a path, glob, URL or name; a tuple of such that are read as one; or a
        callable.
        """
        if self.input_ == SAMPLER:
            return {SAMPLER: 1.0}
        shares: dict[InputKey, float] = feature_settings("offline").shares(self.input_)
        return shares

    @property
    def may_sample(self) -> bool:
        """Whether `input_` has the sampler among its sources, in a search: any value of it."""
        return self.input_ == SAMPLER or bool(feature_settings("offline").may_sample(self.input_))

    @property
    def estimation_inputs(self) -> list[Any]:
        """What estimates are made from: files, without shares; callables, too, as they are given.

        That of `evaluation_config`, else of training, without what is sampled.
        """
        inputs: list[Any] = feature_settings("estimates").inputs(self)
        return inputs

    def is_multi_agent(self) -> bool:
        """Tell whether there are several policies, or one that is not `default_policy`."""
        return isinstance(self.policies, dict) and {*self.policies} != {DEFAULT_POLICY}

    def resolve(self) -> Resolved:
        """Return what the settings mean together, typed; of a frozen config made once.

        Raises:
            ConfigError: for a value that is not allowed.
        """
        return self._resolved_as(Resolved)

    def _resolved_as(self, kind: type[R]) -> R:
        """Return `resolved_values` as an object of the config class's own kind."""
        made: R | None = self.__dict__.get("_resolved") if self.is_frozen else None
        if made is None:
            made = kind(**self.resolved_values())
            if self.is_frozen:
                self._resolved = made
        return made

    def resolved_values(self) -> dict[str, Any]:
        """Return the attributes of what `resolve` returns, by name."""
        model = ModelConfig.of({**self.model_defaults, **self.model})
        given = self.exploration_config
        acting = how_actions_are_chosen(given)
        kind = acting.get("type")
        exploration = {**acting, "type": plain_type(kind or self.exploration_types[0])}
        return {
            "model": model,
            "optimizer": OptimizerConfig.of({**self.optimizer_defaults, **self.optimizer}),
            "exploration": ExplorationConfig.of(exploration),
            "intrinsic": ExplorationConfig.of(given) if is_intrinsic(given) else None,
            "explores_per_worker": self.num_env_runners > 0 and is_per_worker(kind),
            "plays_atari": self._plays_atari,
            "num_frames": self._num_frames,
            "critic_key": critic_key(self),
            "reward_bound": self._reward_bound,
            "state_stride": model.max_seq_len if model.memory else 0,
            "compile": self.compile_options(bool(model.memory)),
            "compile_acting": self.acting_compile_options(bool(model.memory)),
        }

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
        """Return a copy of this config with `evaluation_config` applied."""
        overrides = {**OF_EVALUATION, "render_env": False, **self.evaluation_config}
        return self.copy(copy_frozen=False).update_from_dict(overrides)

    def own_algorithm(self) -> Any:
        """Return the `Algorithm` subclass that the config class belongs to."""
        return None if self.algorithm is None else resolve_callable(self.algorithm)

    @property
    def multiagent(self) -> dict[str, Any]:
        """The settings of several agents as a dict, which is their older form."""
        return {n: self[n] for n, s in type(self).settings().items() if s.section == "multi_agent"}

    def get_multi_agent_setup(
        self,
        *,
        policies: Any = None,
        env: Any = None,
        spaces: Mapping[str, Spaces] | None = None,
        default_policy_class: type | None = None,
    ) -> tuple[dict[str, PolicySpec], Callable[..., bool]]:
        """Return complete specs of all policies by id, and a function that tells which are trained.

        Spaces are those of a policy's spec, else of `spaces`, else of `env`, else of the settings
        `observation_space` and `action_space`, else of the setting `env`, which is made to ask it.
        The config of a policy that learns holds its `algorithm_config_overrides_per_module`, too.

        Args:
            policies: In the place of the setting, in any of its forms.
            env: An environment of one or several agents. A policy has the spaces of the agents that
                `policy_mapping_fn` gives it.
            spaces: Observation and action space by policy id.
            default_policy_class: The `policy_class` in the specs of policies that learn.

        Returns:
            The specs, and `is_policy_to_train(policy_id, batch=None) -> bool`.

        Raises:
            ConfigError: for a policy whose spaces nothing says, or whose agents have different
                ones.
        """
        found: tuple[dict[str, PolicySpec], Callable[..., bool]] = feature_settings("agents").setup(
            self, policies, env, spaces, default_policy_class
        )
        return found

    def module_config(self, module_id: str) -> Self:
        """Return the config of one policy: this one with the settings that it has of its own.

        Of a policy that has none it is this very object. Else it is frozen, and names no policies
        itself; of a frozen config it is made once.

        Raises:
            ConfigError: if there is no such policy.
        """
        is_alone = self.policies is None and not self.algorithm_config_overrides_per_module
        if is_alone and module_id == DEFAULT_POLICY:
            return self
        agents = feature_settings("agents")
        if not agents.module_overrides(self, module_id):
            return self
        made: dict[str, Self] = self.__dict__.get("_module_configs", {}) if self.is_frozen else {}
        if module_id not in made:
            made[module_id] = agents.make_module_config(self, module_id)
        if self.is_frozen:
            self._module_configs = made
        return made[module_id]

    def build(self, env: Any = None, logger_creator: None = None, use_copy: bool = True) -> Any:
        """Return the algorithm of this config, ready to train.

        Args:
            env: Overrides the `env` setting.
            logger_creator: Not supported: Tune's callbacks log results.
            use_copy: False hands this very object to the algorithm, which freezes it.

        Raises:
            ConfigError: if the config is of no algorithm, or a setting is not allowed.
        """
        refuse_uncalled(type(self), "CONFIG")  # the algorithm makes a config of its own class
        if self.algo_class is None:
            raise ConfigError(
                f"{type(self).__name__} belongs to no algorithm; use e.g. PPOConfig, or give one: "
                f"{type(self).__name__}(algo_class=MyAlgorithm)"
            )
        if logger_creator is not None:
            raise ConfigError(
                f"logger_creator: {feature('reference').why_refused('logger_creator')}"
            )
        config = self.copy(copy_frozen=False) if use_copy else self
        # A mark and no argument: an algorithm of one's own may have a constructor of its own.
        config._is_given_away = True
        return self.algo_class(config=config, env=env)

    build_algo = build


def _algo_class(config: AlgorithmConfig) -> Any:
    """The `Algorithm` subclass that this config builds."""
    given = config.__dict__.get("_algo_class") or config.own_algorithm()
    return given.get() if isinstance(given, StaysHere) else given


if not TYPE_CHECKING:  # a field for mypy and for the constructor, which must come first
    AlgorithmConfig.algo_class = property(_algo_class)


def _is_default(cls: type[AlgorithmConfig], name: str, value: Any) -> bool:
    """Whether a value is the declared default itself, or a dict or list with the same in it."""
    declared = cls.settings().get(name)
    if declared is None:
        return False
    default = declared.default
    if type(value) is not type(default) or not isinstance(value, (dict, list)):
        return value is default and isinstance(value, _PLAIN)
    if len(value) != len(default) or (isinstance(value, dict) and value.keys() != default.keys()):
        return False
    keys = default if isinstance(value, dict) else range(len(default))
    pairs = [(value[key], default[key]) for key in keys]
    # 0 and False are equal, and so is a number of numpy's.
    return all(isinstance(d, _PLAIN) and type(v) is type(d) and v == d for v, d in pairs)
