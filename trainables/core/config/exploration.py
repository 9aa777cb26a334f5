"""The settings inside the `exploration_config` dict: a type of exploration and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.intrinsic import (
    INTRINSIC_OPTIONS,
    IntrinsicSettings,
    check_intrinsic,
    is_intrinsic,
)
from trainables.core.config.settings import is_search_domain, setting
from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion

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
_AT_START = "it only counts at the start of a run"


@dataclass
class ExplorationConfig(IntrinsicSettings):
    """Settings of what `explore=True` does, given as `exploration_config={"type": …, …}`.

    Names and formulas are the reference's. Noise on actions is in units of the space that they are
    learned in: [-1, 1] for a squashed Gaussian. The types of `IntrinsicSettings` leave actions as
    they are, and add to the rewards that are learned from.
    """

    what: ClassVar[str] = "exploration_config setting"

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
        check_intrinsic(checked)
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
