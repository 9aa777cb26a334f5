"""`AlgorithmConfig`: the settings that all algorithms share.

An algorithm subclasses `AlgorithmConfig` as a dataclass and declares its own settings with
`setting`. Sections of settings are in `environment`, `sampling`, `training`, `reporting`,
`framework`, `callbacks` and `multi_agent`, names of the reference in `older_names`, fluent methods
and what a config can do as a dict in `sections`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from trainables.core.callables import refuse_uncalled, resolve_callable
from trainables.core.config.agents.policy_specs import DEFAULT_POLICY, PolicySpec
from trainables.core.config.agents.several_agents import (
    Spaces,
    check_multi_agent,
    make_module_config,
    module_overrides,
    multi_agent_setup,
)
from trainables.core.config.algorithm_traits import AlgorithmTraits
from trainables.core.config.critic_observations import check_critic, critic_key
from trainables.core.config.estimation import OF_DATA
from trainables.core.config.exploration import ExplorationConfig, is_per_worker, plain_type
from trainables.core.config.intrinsic import how_actions_are_chosen, is_intrinsic
from trainables.core.config.model import ModelConfig, OptimizerConfig
from trainables.core.config.own_settings import StaysHere, checked_algorithm
from trainables.core.config.policies import OLDER_DICT, MultiAgentSettings
from trainables.core.config.recorded.no_env import check_no_env
from trainables.core.config.reporting import OF_EVALUATION
from trainables.core.config.resolved import Resolved
from trainables.core.config.sections import _OWN, HasSections
from trainables.core.config.settings import Settings, contains_search_domain, is_search_domain
from trainables.core.config.training import check_gpus_per_learner
from trainables.core.errors import ConfigError
from trainables.core.features import feature

DEFAULT_MODULE_ID = DEFAULT_POLICY
R = TypeVar("R", bound=Resolved)

# What can differ in an evaluation; the policy acts as it is (filter, actions, networks).
EVALUATION_SETTINGS = (
    "env",
    "env_config",
    "explore",
    "num_env_runners",
    "num_envs_per_env_runner",
    "policy_mapping_fn",
    "seed",
    "render_env",
    "callbacks_class",
    *OF_DATA,
)

CONNECTOR_SETTINGS = ("env_to_module_connector", "module_to_env_connector", "learner_connector")

_CLASSES = {"learner_class": "LEARNER", "env_runner_cls": "ENV_RUNNER"}
# What is no setting, and begins with an underscore as some of the reference's names do.
_KEPT = ("_algo_class", *_OWN)

_PLAIN = (bool, int, float, str, type(None))


@dataclass(kw_only=True)
class AlgorithmConfig(HasSections, AlgorithmTraits, MultiAgentSettings):
    """Settings that every algorithm has, each in its section.

    The first parameter is the `Algorithm` subclass that `build` makes, where it is not the one that
    the config class belongs to; settings are given by name. A value may be a Tune search domain;
    such a config is a `param_space`, not one to build from.

    Example:
        >>> config = PPOConfig().environment("CartPole-v1").training(lr=3e-4, gamma=0.98)
        >>> algo = config.build()
    """

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return canonical names and checked values of a dict; search domains pass.

        Raises:
            ConfigError: for an unknown or unsupported name, or a value that is not allowed.
        """
        canonical = cls._canonical(cls._with_entries(values))
        if isinstance(canonical.get("evaluation_config"), AlgorithmConfig):
            given = canonical["evaluation_config"]
            canonical["evaluation_config"] = evaluation_overrides(given, cls())
        check_gpus_per_learner(canonical.get("num_gpus_per_learner"), canonical.get("num_learners"))
        checked = cls._check_traits(super().check(canonical))
        for name, kind in _CLASSES.items():  # those that are names are looked at when found
            if isinstance(checked.get(name), type):
                refuse_uncalled(checked[name], kind)
        overrides = checked.get("evaluation_config")
        if isinstance(overrides, dict) and not is_search_domain(overrides):
            checked |= cls._check_evaluation(overrides, checked)
        return checked

    @classmethod
    def settings_inside(cls, name: str) -> type[Settings] | None:
        return cls if name == "evaluation_config" else super().settings_inside(name)

    @classmethod
    def _check_evaluation(
        cls, overrides: Mapping[str, Any], beside: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return `evaluation_config`, checked, and how many actors it says that evaluate."""
        own = cls.check(overrides)
        for name in [name for name in own if name not in EVALUATION_SETTINGS]:
            if name in cls.without and feature("reference").is_default(name, own[name]):
                del own[name]  # as in a whole config of the reference
            else:
                raise ConfigError(
                    f"evaluation_config: {name!r} has no effect on an evaluation; allowed: "
                    f"{', '.join(EVALUATION_SETTINGS)}"
                )
        if "num_env_runners" not in own:
            return {"evaluation_config": own}
        number, given = own.pop("num_env_runners"), beside.get("evaluation_num_env_runners")
        if given is not None and given != number:
            raise ConfigError(
                f"evaluation_config: num_env_runners = {number} is how many actors evaluate, and "
                f"evaluation_num_env_runners = {given} says otherwise; allowed: one of the two"
            )
        return {"evaluation_config": own, "evaluation_num_env_runners": number}

    def update_from_dict(self, values: Mapping[str, Any]) -> Self:
        """Set each given setting (older names are mapped) and return this config."""
        given = self._with_entries(values, self)
        if not isinstance(given.get("evaluation_config"), AlgorithmConfig):
            return super().update_from_dict(given)
        evaluation = given.pop("evaluation_config")
        super().update_from_dict(given)
        # Last, for it counts where it differs from this.
        self.evaluation_config = evaluation
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
            return self._store(name, value)  # checking every one takes most of making a config
        if name == "algo_class":
            return self._store("_algo_class", value and checked_algorithm(type(self), value))
        if name == "evaluation_config" and isinstance(value, AlgorithmConfig):
            value = evaluation_overrides(value, self)
        given = self._with_entries({name: value}, self)
        number = self.__dict__.get("evaluation_num_env_runners")
        if name == "evaluation_config" and number:  # which it may say otherwise
            given["evaluation_num_env_runners"] = number
        for canonical, checked in type(self).check(given).items():
            self._store(canonical, checked)

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
        super().validate()
        if not self.needs_env:
            check_no_env(self)
        if self.resolve().explores_per_worker:
            self._validate_per_worker()
        check_multi_agent(self)
        check_critic(self)
        self._validate_counts()

    def _validate_counts(self) -> None:
        intrinsic = self.resolve().intrinsic
        if intrinsic is None or intrinsic.type != "Counts":
            return
        if self.observation_filter == "MeanStdFilter":
            raise ConfigError(
                "observation_filter = 'MeanStdFilter' does not go with exploration_config of the "
                "type 'Counts': its scale moves, and with it the states that are counted; allowed: "
                "'NoFilter', as Counts has a scale of its own"
            )

    def _validate_per_worker(self) -> None:
        scheduled = ExplorationConfig.scheduled_options()
        acting = how_actions_are_chosen(self.exploration_config)
        given = [name for name in acting if name in scheduled]
        if given:
            raise ConfigError(
                f"exploration_config: {', '.join(given)} has no effect with type = "
                f"{acting['type']!r} and num_env_runners = "
                f"{self.num_env_runners}: each env runner has a constant of its own"
            )

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

    if not TYPE_CHECKING:  # for mypy it is a field, and none may be a property

        @property
        def algo_class(self) -> Any:
            """The `Algorithm` subclass that this config builds."""
            given = self.__dict__.get("_algo_class") or self.own_algorithm()
            return given.get() if isinstance(given, StaysHere) else given

    @property
    def multiagent(self) -> dict[str, Any]:
        """The settings of several agents as a dict, which is their older form."""
        return {n: self[n] for n, s in type(self).settings().items() if s.section == "multi_agent"}

    def __contains__(self, key: object) -> bool:
        return key == OLDER_DICT or super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        return self.multiagent if key == OLDER_DICT else super().__getitem__(key)

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
        return multi_agent_setup(self, policies, env, spaces, default_policy_class)

    def module_config(self, module_id: str) -> Self:
        """Return the config of one policy: this one with the settings that it has of its own.

        Of a policy that has none it is this very object. Else it is frozen, and names no policies
        itself; of a frozen config it is made once.

        Raises:
            ConfigError: if there is no such policy.
        """
        if not module_overrides(self, module_id):
            return self
        made: dict[str, Self] = self.__dict__.get("_module_configs", {}) if self.is_frozen else {}
        if module_id not in made:
            made[module_id] = make_module_config(self, module_id)
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


def evaluation_overrides(given: AlgorithmConfig, training: AlgorithmConfig) -> dict[str, Any]:
    """Return what a config object given as `evaluation_config` changes of the training's config.

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


def _is_default(cls: type[AlgorithmConfig], name: str, value: Any) -> bool:
    """Whether a value is the declared default itself, and cannot be changed in place."""
    declared = cls.settings().get(name)
    return declared is not None and value is declared.default and isinstance(value, _PLAIN)
