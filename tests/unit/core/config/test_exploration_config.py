"""`exploration_config`: what is refused and how, and the schedules that options stand for."""

from __future__ import annotations

from typing import Any

import pytest
from every_row import check_rows
from refusals import Golden, refusals

from trainables import DQNConfig, PPOConfig, SACConfig
from trainables.core.config.exploration import OPTIONS, ExplorationConfig
from trainables.core.errors import ConfigError

OU = {"type": "OrnsteinUhlenbeckNoise"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"type": "GausianNoise"}, "type = 'GausianNoise' is unknown; .* did you mean 'GaussianNoise'"),
    ({**OU, "ou_thta": 1.0}, "'ou_thta' of ExplorationConfig; did you mean 'ou_theta"),
    ({**OU, "stddev": 1.0}, "'stddev' is no option of 'Orn.*; it belongs to GaussianNoise"),
    ({"type": "Random", "stddev": 1.0}, "'stddev' is no option of 'Random' .it has none"),
    ({**OU, "ou_sigma": -1}, "ou_sigma = -1 is not allowed; allowed: float, >= 0"),
    ({**OU, "base": "mean"}, "base = 'mean' is not allowed; allowed: one of 'sample', 'mode'"),
    ({**OU, "ou_theta": 4.0, "ou_dt": 0.5}, "ou_theta = 4 x ou_dt = 0.5 .* diverges"),
    ({**OU, "scale_schedule": 1.0, "final_scale": 0}, "scale_schedule is given, and so is final_"),
    ({**OU, "scale_schedule": [[5, 1.0]]}, "scale_schedule = .* is no schedule"),
]


def test_options_without_a_type_are_those_of_the_algorithms_own() -> None:
    """A search space names options alone: whether they fit the type is known when both are."""
    config = SACConfig().environment("Pendulum-v1").exploration(exploration_config={"stddev": 0.5})
    with pytest.raises(ConfigError, match="'stddev' is no option of 'StochasticSampling'"):
        config.validate()
    config.exploration(exploration_config={"stddev": 0.5, "type": "GaussianNoise"}).validate()
    with pytest.raises(ConfigError, match="'stddev': DQN does not explore so: its actions are"):
        DQNConfig().exploration(exploration_config={"stddev": 0.5})


def test_what_is_refused() -> None:
    def check(given: dict[str, Any], expected: str) -> None:
        with pytest.raises(ConfigError, match=expected):
            SACConfig().exploration(exploration_config=given)

    check_rows(check, REFUSED)


def test_every_option_belongs_to_a_type() -> None:
    of_types = {name for options in OPTIONS.values() for name in options}
    assert of_types == set(ExplorationConfig.settings()) - {"type"}


def test_schedules() -> None:
    config = ExplorationConfig(type="OrnsteinUhlenbeckNoise", random_timesteps=100)
    assert config.scale == [[0, 1.0], [100, 1.0], [10_100, 0.02]]
    assert ExplorationConfig(scale_schedule=0.5).scale == 0.5
    assert ExplorationConfig(warmup_timesteps=5).epsilon == [[0, 1.0], [5, 1.0], [10_005, 0.05]]


def dqn(kind: str | None, *, epsilon: Any = None, **settings: Any) -> DQNConfig:
    options = {name: settings.pop(name) for name in list(settings) if name in OPTIONS.get(kind, ())}
    given = {} if kind is None else {"type": kind, **options}
    config = DQNConfig().environment("CartPole-v1").exploration(exploration_config=given)
    return config.training(epsilon=epsilon, **settings)


SCHEDULE = [[0, 1.0], [10_000, 0.1]]


def test_one_epsilon() -> None:
    def check(config: DQNConfig, expected: Any) -> None:
        config.validate()
        assert config.resolve().epsilon == expected

    rows = [
        (dqn(None), [[0, 1.0], [10_000, 0.05]]),
        (dqn("EpsilonGreedy", final_epsilon=0.1), SCHEDULE),
        (dqn("EpsilonGreedy", epsilon_schedule=0.2, epsilon=0.2), 0.2),
        (dqn("EpsilonGreedy", epsilon_schedule=[[0, 0.2]], epsilon=0.2), 0.2),
        (dqn("EpsilonGreedy", epsilon=0.2), 0.2),
        (dqn("EpsilonGreedy", noisy=True), [[0, 1.0], [10_000, 0.05]]),
        (dqn(None, noisy=True), 0.0),
        (dqn("ParameterNoise"), 0.0),
        (dqn("ParameterNoise", epsilon=0.01), 0.01),
        (dqn("SoftQ"), 0.0),
        (dqn("SoftQ", temperature=2.0, categorical_distribution_temperature=2.0), 0.0),
        (dqn("StochasticSampling", noisy=True), 0.0),
        (dqn("Random"), 1.0),
    ]
    check_rows(check, rows)


def test_settings_that_contradict_each_other(golden: Golden) -> None:
    cases = [
        ("EpsilonGreedy", {"final_epsilon": 0.1, "epsilon": 0.1}),
        ("Random", {"epsilon": 0.5}),
        ("SoftQ", {"epsilon": 0.5}),
        ("SoftQ", {"categorical_distribution_temperature": 0.5}),
        ("ParameterNoise", {"noisy": True}),
        ("StochasticSampling", {}),
    ]
    golden(
        "exploration_config/settings_that_contradict_each_other",
        refusals(lambda kind, more: dqn(kind, **more).validate(), cases),
    )


def test_ppo_needs_the_probability_of_what_was_done() -> None:
    PPOConfig().exploration(exploration_config={"type": "StochasticSampling"})
    with pytest.raises(ConfigError, match="'Random' is not supported by PPO: it learns from"):
        PPOConfig().exploration(exploration_config={"type": "Random"})
    with pytest.raises(ConfigError, match="random_timesteps = 5 is not supported by PPO"):
        PPOConfig().exploration(exploration_config={"random_timesteps": 5})
    assert PPOConfig.why_fixed(["exploration_config", "stddev"]) is not None
    assert SACConfig.why_fixed(["exploration_config", "stddev"]) is None
    assert SACConfig.why_fixed(["exploration_config", "temperature"]) is not None
