"""The settings inside the `exploration_config` dict: a type of exploration and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.model import ACTIVATIONS, MAX_WIDTH
from trainables.core.config.settings import MEMORY, Settings, is_search_domain, setting
from trainables.core.errors import ConfigError
from trainables.core.features import feature_settings
from trainables.core.suggestions import suggestion

_OF_NETWORKS = (
    "lr",
    "feature_net_config",
    "normalize_observations",
    "num_epochs",
    "minibatch_size",
)
_OF_ALL = ("eta", "normalize_bonus", "intrinsic_gamma", "sub_exploration")
# The options of each type, besides those of how actions are chosen.
INTRINSIC_OPTIONS: dict[str, tuple[str, ...]] = {
    "Curiosity": (
        *_OF_ALL,
        *_OF_NETWORKS,
        "feature_dim",
        "beta",
        "detach_features",
        "inverse_net_hiddens",
        "inverse_net_activation",
        "forward_net_hiddens",
        "forward_net_activation",
    ),
    "RND": (*_OF_ALL, *_OF_NETWORKS, "feature_dim", "predictor_hiddens", "predictor_activation"),
    "Counts": (*_OF_ALL, "cells_per_deviation", "hash_bits", "table_size"),
}
_NOISE = (
    "base",
    "random_timesteps",
    "initial_scale",
    "final_scale",
    "scale_timesteps",
    "scale_schedule",
)
# The options of each type.
OPTIONS: dict[str, tuple[str, ...]] = {
    "StochasticSampling": ("random_timesteps",),
    "Random": (),
    "EpsilonGreedy": (
        "initial_epsilon",
        "final_epsilon",
        "warmup_timesteps",
        "epsilon_timesteps",
        "epsilon_schedule",
    ),
    "SoftQ": ("temperature",),
    "GaussianNoise": (*_NOISE, "stddev"),
    "OrnsteinUhlenbeckNoise": (*_NOISE, "ou_theta", "ou_sigma", "ou_base_scale", "ou_dt"),
    "ParameterNoise": ("random_timesteps", "initial_stddev", "target_distance"),
}
# Types that differ between env runners have the options of the plain ones.
OPTIONS |= {
    f"PerWorker{kind}": OPTIONS[kind]
    for kind in ("EpsilonGreedy", "GaussianNoise", "OrnsteinUhlenbeckNoise")
}
# And those that add a reward of their own for what is new.
OPTIONS |= INTRINSIC_OPTIONS
# A schedule, and what it stands for.
_SCHEDULES: dict[str, tuple[str, ...]] = {
    "epsilon_schedule": OPTIONS["EpsilonGreedy"][:4],
    "scale_schedule": ("initial_scale", "final_scale", "scale_timesteps"),
}
_SHAPE = "it is what the networks are built of"
_INTRINSIC = frozenset(name for options in INTRINSIC_OPTIONS.values() for name in options)
_AT_START = "it only counts at the start of a run"


@dataclass
class ExplorationConfig(Settings):
    """Settings of what `explore=True` does, given as `exploration_config={"type": …, …}`.

    Names and formulas are the reference's. Noise on actions is in units of the space that they are
    learned in: [-1, 1] for a squashed Gaussian. The types of `INTRINSIC_OPTIONS` leave actions as
    they are, and add to the rewards that are learned from: `eta` times a bonus, which is divided by
    its running root mean square unless `normalize_bonus` is off.
    """

    what: ClassVar[str] = "exploration_config setting"

    eta: float | list[Any] | None = setting(
        None,
        "exploration",
        "weight of a bonus relative to the environment's rewards; 0: no effect; None: 0.05, with "
        "intrinsic_gamma 1 (Curiosity, RND, Counts)",
        ge=0,
        schedule=True,
    )
    normalize_bonus: bool | None = setting(
        None,
        "exploration",
        "divide bonuses by their running root mean square, so that eta is the usual size of a "
        "bonus; None: for all but Counts, whose bonuses have a fixed scale (Curiosity, RND, "
        "Counts)",
    )
    intrinsic_gamma: float | None = setting(
        None,
        "exploration",
        "discount factor of bonuses with a separate value function. Bonuses then continue over "
        "the ends of episodes, as in RND's paper, and are multiplied by 1 - intrinsic_gamma; eta "
        "weighs their advantages, about 1. None: bonuses are added to the rewards (PPO, A2C with "
        "Curiosity, RND, Counts)",
        ge=0,
        lt=1,
        fixed="it says whether there is such a network",
    )
    sub_exploration: dict[str, Any] | None = setting(
        None,
        "exploration",
        "how actions are chosen, a nested exploration_config; None: the algorithm's default "
        "(Curiosity, RND, Counts)",
        fixed="what a donor has learned, it has learned with its own type of exploration",
    )
    lr: float = setting(
        1e-3, "exploration", "learning rate of the networks of the bonus (Curiosity, RND)", ge=0
    )
    feature_net_config: dict[str, Any] = setting(
        {},
        "exploration",
        "hidden layers before the features, as in `model`: fcnet_hiddens (by default [64]), "
        "fcnet_activation (relu), conv_filters, … (Curiosity, RND)",
        fixed=_SHAPE,
    )
    normalize_observations: bool = setting(
        True,
        "exploration",
        "scale the inputs of the bonus networks by their running mean and deviation, clipped to 5 "
        "deviations (Curiosity, RND)",
        fixed="what they have learned means nothing in another scale",
    )
    num_epochs: int = setting(
        1,
        "exploration",
        "training passes of the bonus networks over a rollout; with a replay buffer they take one "
        "step for each drawn batch (Curiosity, RND)",
        ge=1,
    )
    minibatch_size: int = setting(
        256, "exploration", "rows per gradient step on a rollout (Curiosity, RND)", ge=1
    )
    feature_dim: int = setting(
        64, "exploration", "features, units (Curiosity, RND)", ge=1, le=MAX_WIDTH, fixed=_SHAPE
    )
    beta: float = setting(
        0.2,
        "exploration",
        "weight of the forward model's loss; the inverse model's is 1 - beta (Curiosity)",
        ge=0,
        le=1,
    )
    detach_features: bool = setting(
        False,
        "exploration",
        "the forward model's loss does not train the features (Curiosity)",
    )
    inverse_net_hiddens: list[int] = setting(
        [64],
        "exploration",
        "hidden layers of the inverse model, units (Curiosity)",
        ge=1,
        le=MAX_WIDTH,
        fixed=_SHAPE,
    )
    inverse_net_activation: str = setting(
        "relu", "exploration", "and their activation", choices=ACTIVATIONS, fixed=_SHAPE
    )
    forward_net_hiddens: list[int] = setting(
        [64],
        "exploration",
        "hidden layers of the forward model, units (Curiosity)",
        ge=1,
        le=MAX_WIDTH,
        fixed=_SHAPE,
    )
    forward_net_activation: str = setting(
        "relu", "exploration", "and their activation", choices=ACTIVATIONS, fixed=_SHAPE
    )
    predictor_hiddens: list[int] = setting(
        [64],
        "exploration",
        "additional hidden layers of the predictor, units (RND)",
        ge=1,
        le=MAX_WIDTH,
        fixed=_SHAPE,
    )
    predictor_activation: str = setting(
        "relu", "exploration", "and their activation", choices=ACTIVATIONS, fixed=_SHAPE
    )
    cells_per_deviation: float = setting(
        2.0,
        "exploration",
        "cells per standard deviation of each number, as measured in the first rollout or drawn "
        "batch; observations in the same cells are the same state. Images are the same state only "
        "if all bytes are (Counts)",
        gt=0,
        fixed="states would be others",
    )
    hash_bits: int | None = setting(
        None,
        "exploration",
        "number of random planes; observations on the same sides of all are the same state "
        "(SimHash), for many numbers; None: cells (Counts)",
        ge=1,
        le=62,
        fixed="states would be others",
    )
    table_size: int = setting(
        2**18,
        "exploration",
        "number of counters; more states than these share counters (Counts)",
        ge=2,
        le=2**26,
        fixed="states would be others",
        harmless=(2, 2**22),
        risk=MEMORY,
    )
    type: str | None = setting(
        None,
        "exploration",
        "how to explore; None: EpsilonGreedy (DQN), StochasticSampling (others). Curiosity, RND, "
        "Counts: with a reward for new states. PerWorker…: with the constant 0.4^(1 + 7 (i - 1) / "
        "(N - 1)) for env runner i of N, in place of epsilon or scale; with num_env_runners = 0 "
        "the plain type",
        choices=OPTIONS,
        fixed="what a donor has learned, it has learned with its own type of exploration",
    )
    random_timesteps: int | None = setting(
        None,
        "exploration",
        "environment steps of uniform actions at the start; None: the steps of SAC's "
        "random_warmup, else 0 (all but Random, EpsilonGreedy, SoftQ)",
        ge=0,
        fixed=_AT_START,
    )
    initial_epsilon: float = setting(
        1.0, "exploration", "probability of a uniform action at first (EpsilonGreedy)", ge=0, le=1
    )
    final_epsilon: float = setting(
        0.05,
        "exploration",
        "probability of a uniform action in the end (EpsilonGreedy)",
        ge=0,
        le=1,
    )
    warmup_timesteps: int = setting(
        0, "exploration", "environment steps before epsilon changes (EpsilonGreedy)", ge=0
    )
    epsilon_timesteps: int = setting(
        10_000,
        "exploration",
        "environment steps during which epsilon changes (EpsilonGreedy)",
        ge=1,
    )
    epsilon_schedule: float | list[Any] | None = setting(
        None,
        "exploration",
        "epsilon itself, instead of the four options before (EpsilonGreedy)",
        ge=0,
        le=1,
        schedule=True,
    )
    temperature: float = setting(
        1.0, "exploration", "tau of softmax(Q / tau), the distribution of actions (SoftQ)", gt=0
    )
    base: str = setting(
        "sample",
        "exploration",
        "add noise to an action sampled from the policy, or to its most likely one, as in RLlib "
        "(GaussianNoise, OrnsteinUhlenbeckNoise)",
        choices=("sample", "mode"),
    )
    stddev: float = setting(
        0.1, "exploration", "standard deviation of the noise (GaussianNoise)", ge=0
    )
    ou_theta: float = setting(
        0.15, "exploration", "pull of the process x towards 0 (OrnsteinUhlenbeckNoise)", gt=0
    )
    ou_sigma: float = setting(
        0.2, "exploration", "standard deviation of its steps (OrnsteinUhlenbeckNoise)", ge=0
    )
    ou_base_scale: float = setting(
        0.1,
        "exploration",
        "base scale of the noise: base scale x scale x width of the actions' range (2 if they are "
        "squashed) x x (OrnsteinUhlenbeckNoise)",
        ge=0,
    )
    ou_dt: float = setting(
        1.0,
        "exploration",
        "time that passes in one step: x <- x - theta x dt + sigma sqrt(dt) N(0, 1) "
        "(OrnsteinUhlenbeckNoise)",
        gt=0,
    )
    initial_scale: float = setting(
        1.0, "exploration", "factor of the noise at first (both noises on actions)", ge=0
    )
    final_scale: float = setting(
        0.02, "exploration", "factor of the noise in the end (both noises on actions)", ge=0
    )
    scale_timesteps: int = setting(
        10_000,
        "exploration",
        "environment steps, after random_timesteps, during which the factor changes (both noises "
        "on actions)",
        ge=1,
    )
    scale_schedule: float | list[Any] | None = setting(
        None,
        "exploration",
        "the factor itself, instead of the three options before (both noises on actions)",
        ge=0,
        schedule=True,
    )
    initial_stddev: float = setting(
        0.1,
        "exploration",
        "standard deviation of the noise on each parameter at first; it adapts (ParameterNoise)",
        gt=0,
        fixed="it is where an adapted value starts, and a clone goes on with its donor's",
    )
    target_distance: float | None = setting(
        None,
        "exploration",
        "target to which the noise adapts: the distance between actions with and without noise, "
        "in [-1, 1]; for discrete actions their divergence in nats. None: 0.2; for discrete "
        "actions the divergence of epsilon-greedy with epsilon 0.1 (ParameterNoise)",
        gt=0,
    )

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked values of a dict; search domains pass.

        Raises:
            ConfigError: for an unknown name, a value that is not allowed, or an option that the
                type has not.
        """
        kind = values.get("type")
        if isinstance(kind, str) and kind not in OPTIONS:
            hint = suggestion(kind, OPTIONS, cutoff=0.4)
            raise ConfigError(
                f"exploration_config: type = {kind!r} is unknown; known: {', '.join(OPTIONS)}{hint}"
            )
        checked = super().check(values)
        if isinstance(kind, str):
            for name in checked:
                if name != "type" and name not in OPTIONS[kind]:
                    raise _no_option(kind, name)
        if any(name in _INTRINSIC for name in checked):
            feature_settings("curiosity").check_options(checked)
        cls._check_sub_exploration(checked.get("sub_exploration"))
        for schedule, parts in _SCHEDULES.items():
            given = [name for name in parts if name in checked]
            if given and checked.get(schedule) is not None:
                raise ConfigError(
                    f"exploration_config: {schedule} is given, and so is {given[0]}, which it "
                    "stands for; give one of them"
                )
        theta, dt = checked.get("ou_theta", cls.ou_theta), checked.get("ou_dt", cls.ou_dt)
        if not is_search_domain(theta) and not is_search_domain(dt) and theta * dt >= 2:
            raise ConfigError(
                f"exploration_config: ou_theta = {theta:g} x ou_dt = {dt:g} is not allowed: the "
                "process diverges; allowed: less than 2"
            )
        return checked

    @classmethod
    def _check_sub_exploration(cls, given: Any) -> None:
        if not isinstance(given, dict) or is_search_domain(given):
            return
        if is_intrinsic(given):
            raise ConfigError(
                f"exploration_config: sub_exploration: type = {given['type']!r} adds a reward, "
                "too; allowed: a type that says how actions are chosen"
            )
        cls.check(given)

    @classmethod
    def scheduled_options(cls) -> tuple[str, ...]:
        """Return the options by which epsilon, or the factor of the noise, changes in a run."""
        return tuple(name for s, parts in _SCHEDULES.items() for name in (s, *parts))

    @property
    def epsilon(self) -> float | list[Any]:
        """Epsilon as a schedule over environment steps."""
        if self.epsilon_schedule is not None:
            return self.epsilon_schedule
        return _ramp(
            self.initial_epsilon, self.final_epsilon, self.warmup_timesteps, self.epsilon_timesteps
        )

    @property
    def has_scale(self) -> bool:
        """Whether it adds noise to actions."""
        return self.type is not None and "scale_schedule" in OPTIONS[self.type]

    @property
    def scale(self) -> float | list[Any]:
        """The factor of the noise as a schedule over environment steps."""
        if self.scale_schedule is not None:
            return self.scale_schedule
        start = self.random_timesteps or 0
        return _ramp(self.initial_scale, self.final_scale, start, self.scale_timesteps)


def is_intrinsic(exploration_config: Mapping[str, Any]) -> bool:
    """Tell whether an `exploration_config` adds an intrinsic reward."""
    kind = exploration_config.get("type")
    return isinstance(kind, str) and kind in INTRINSIC_OPTIONS


def how_actions_are_chosen(exploration_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an `exploration_config` that says how actions are chosen.

    That is all of it, but for an intrinsic reward its `sub_exploration`; nothing while that is a
    search domain.
    """
    if not is_intrinsic(exploration_config):
        return dict(exploration_config)
    given = exploration_config.get("sub_exploration") or {}
    return {} if is_search_domain(given) else dict(given)


def _ramp(first: float, last: float, start: int, length: int) -> list[Any]:
    return [[0, first], *([[start, first]] if start else []), [start + length, last]]


def _no_option(kind: str, name: str) -> ConfigError:
    having = [other for other, options in OPTIONS.items() if name in options]
    own = f"its options: {', '.join(OPTIONS[kind])}" if OPTIONS[kind] else "it has none"
    return ConfigError(
        f"exploration_config: {name!r} is no option of {kind!r} ({own}); it belongs to "
        f"{', '.join(having)}"
    )


_PREFIX = "PerWorker"
# Env runner i of N, from 1, has the constant `0.4^(1 + 7 (i - 1) / (N - 1))`, as in Ape-X (Horgan
# et al., 2018, section 4): the probability of a uniform action, or the factor of the noise. So some
# explore much and some hardly at all, from the first step to the last.
_BASE, _ALPHA = 0.4, 7
# What an algorithm sets in the course of a run, of the types that have a per-worker form.
_VALUES = ("epsilon", "scale")


def plain_type(kind: str | None) -> str | None:
    """Return the type of exploration that each env runner has, e.g. EpsilonGreedy."""
    return None if kind is None else kind.removeprefix(_PREFIX)


def is_per_worker(kind: str | None) -> bool:
    """Tell whether a type of exploration differs between env runners."""
    return kind is not None and kind.startswith(_PREFIX)


def per_worker_value(index: int, num_env_runners: int) -> float:
    """Epsilon, or the factor of the noise, of an env runner.

    Args:
        index: Of the env runner, from 1.
        num_env_runners: How many there are; a single one has 0.4.
    """
    others = max(1, num_env_runners - 1)
    return float(_BASE ** (1 + _ALPHA * (index - 1) / others))


def per_worker_mean(num_env_runners: int) -> float:
    """Return the mean over all env runners."""
    indices = range(1, num_env_runners + 1)
    return sum(per_worker_value(index, num_env_runners) for index in indices) / num_env_runners


def of_env_runner(values: dict[str, Any], index: int, num_env_runners: int) -> dict[str, Any]:
    """Return the present values of exploring, an env runner's own in place of the means."""
    own = per_worker_value(index, num_env_runners)
    return {name: own if name in _VALUES else value for name, value in values.items()}
