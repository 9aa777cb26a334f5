"""Which algorithm a config builds, and config classes of one's own."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import pytest
from own_algorithms import SMALL, MyAlgorithm, MyConfig, MyPPO, OldStyleConfig

from trainables import DQN, PPO, SAC, AlgorithmConfig, PPOConfig
from trainables.core.errors import ConfigError

# ------------------------------------------------------------------ algo_class


@pytest.mark.parametrize("config", [PPOConfig(MyPPO), PPOConfig(algo_class=MyPPO)])
def test_a_config_builds_the_algorithm_that_it_is_given(config: PPOConfig) -> None:
    assert config.algo_class is MyPPO
    with config.update_from_dict(SMALL).build() as algo:
        assert type(algo) is MyPPO
        assert algo.config.algo_class is MyPPO
        assert algo.train()["mine"] == 1
    with algo.config.copy(copy_frozen=False).build() as again:
        assert type(again) is MyPPO


def test_without_one_it_is_the_algorithm_of_the_config_class() -> None:
    assert PPOConfig().algo_class is PPOConfig(None).algo_class is PPO
    assert AlgorithmConfig().algo_class is None
    with pytest.raises(ConfigError, match=r"AlgorithmConfig belongs to no algorithm.*algo_class="):
        AlgorithmConfig().build(env="CartPole-v1")


def test_the_base_class_configures_any_algorithm() -> None:
    with AlgorithmConfig(MyPPO).update_from_dict(SMALL).build() as algo:
        assert type(algo) is MyPPO
        assert type(algo.config) is PPOConfig
        assert algo.config.algo_class is MyPPO
        assert algo.config.lr == AlgorithmConfig().lr


def test_the_algorithm_stays_in_copies_pickles_and_assignments() -> None:
    config = PPOConfig(MyPPO)
    assert config.copy().algo_class is MyPPO
    assert pickle.loads(pickle.dumps(config)).algo_class is MyPPO
    assert config.get_evaluation_config_object().algo_class is MyPPO
    other = PPOConfig()
    other.algo_class = MyPPO
    assert other.algo_class is MyPPO
    assert "algo_class" not in config.to_dict()
    assert PPOConfig.from_dict(config.to_dict()).algo_class is PPO
    assert {**config} == config.to_dict()


class Grid(gym.Env[Any, Any]):
    """An environment class."""


@pytest.mark.parametrize(("env", "shown"), [("CartPole-v1", "'CartPole-v1'"), (Grid, "Grid")])
def test_an_environment_is_no_algorithm(env: Any, shown: str) -> None:
    says = rf"PPOConfig\({shown}\): .*\.environment\({shown}\) or PPOConfig\(env={shown}\)"
    with pytest.raises(ConfigError, match=says):
        PPOConfig(env)
    with pytest.raises(ConfigError, match=says):
        PPOConfig(algo_class=env)


def test_other_settings_are_given_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        PPOConfig(MyPPO, "CartPole-v1")  # type: ignore[misc]


def test_another_algorithms_config_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"PPOConfig cannot be for algo_class = SAC.*SACConfig"):
        PPOConfig(SAC)
    with pytest.raises(ConfigError, match="DQNConfig"):
        PPOConfig().algo_class = DQN


def test_a_config_class_in_the_references_style_names_its_algorithm() -> None:
    config = OldStyleConfig()
    assert config.algo_class is config.copy().algo_class is MyPPO
    with config.update_from_dict(SMALL).build() as algo:
        assert type(algo) is MyPPO
        assert algo.config.lr == 1e-3


def test_a_running_algorithms_config_goes_to_actors_without_its_class() -> None:
    """A script's own class would go with all that it refers to, such as a lock."""

    class Local(MyPPO):  # pickle finds no local class
        pass

    with PPOConfig(Local).update_from_dict(SMALL).build() as algo:
        sent = pickle.loads(pickle.dumps(algo.config))
        assert sent.to_dict() == algo.config.to_dict()
        assert algo.config.copy().algo_class is Local
    with pytest.raises(ConfigError, match="algo_class stayed there"):
        sent.copy(copy_frozen=False).build()


# ------------------------------------------------------------------ build


def test_build_hands_over_the_object_if_it_is_not_to_copy() -> None:
    config = PPOConfig().update_from_dict(SMALL)
    with config.build(use_copy=False, env="Acrobot-v1") as algo:
        assert algo.config is config
        assert config.is_frozen
        assert config.env == "Acrobot-v1"
        for name, value in (("lr", 1.0), ("algo_class", None)):
            with pytest.raises(ConfigError, match=f"{name}: this config is frozen"):
                setattr(config, name, value)
        algo.reset({**SMALL, "lr": 0.5})
        assert algo.config is not config
        assert (algo.config.lr, config.lr) == (0.5, PPOConfig().lr)
    with config.build(use_copy=False) as algo:  # frozen already
        assert algo.config is config


def test_build_copies_by_default() -> None:
    config = PPOConfig().update_from_dict(SMALL)
    for algo in (config.build(), PPO(config=config)):
        with algo:
            assert algo.config is not config
            assert algo.config.to_dict() == config.to_dict()
            assert not config.is_frozen


def test_a_set_up_that_changes_its_settings_is_heard() -> None:
    class Changes(PPO):
        def setup(self, config: dict[str, Any]) -> None:
            super().setup({**config, "gamma": 0.5})

    for use_copy in (True, False):
        with PPOConfig(Changes).update_from_dict(SMALL).build(use_copy=use_copy) as algo:
            assert algo.config.gamma == 0.5


# ------------------------------------------------------------------ config classes of one's own


@pytest.mark.parametrize("algorithm", [None, MyPPO, MyAlgorithm])
@pytest.mark.parametrize("use_copy", [True, False])
def test_a_config_class_of_ones_own_stays_what_it_is(algorithm: Any, use_copy: bool) -> None:
    config = MyConfig(algorithm, bonus=2.0, my_coeff=0.3).update_from_dict(SMALL)
    assert type(config.copy()) is MyConfig
    assert config.copy().to_dict() == config.to_dict()
    assert MyConfig.from_dict(config.to_dict()) == MyConfig(**config.to_dict())
    with config.build(use_copy=use_copy) as algo:
        assert type(algo.config) is MyConfig
        assert (algo.config.bonus, algo.config.my_coeff, algo.config.my_list) == (2.0, 0.3, [1, 2])
        algo.reset({**SMALL, "bonus": 1.0})
        assert type(algo.config) is MyConfig
        assert (algo.config.bonus, algo.config.my_coeff) == (1.0, 0.1)
    with pytest.raises(ConfigError, match=r"bonus = 4\.0 is too much"):
        MyConfig(algorithm, bonus=4.0).update_from_dict(SMALL).build(use_copy=use_copy)


def test_a_plain_field_is_a_setting() -> None:
    config = MyConfig().training(my_coeff=0.2, my_list=[3])
    assert (config.my_coeff, config.my_list) == (0.2, [3])
    assert MyConfig().my_list == [1, 2]
    assert MyConfig.settings()["my_list"].default == [1, 2]
    with pytest.raises(ConfigError, match=r"my_coeff = 'x' is not allowed; allowed: float"):
        MyConfig(my_coeff="x")  # type: ignore[arg-type]


def test_a_plain_field_with_a_settings_name_is_its_default() -> None:
    assert MyConfig().gamma == MyConfig.settings()["gamma"].default == 0.9
    assert PPOConfig().gamma == PPOConfig.settings()["gamma"].default != 0.9
    with pytest.raises(ConfigError, match=r"gamma = 1\.5 is not allowed; allowed: float, >= 0"):
        MyConfig(gamma=1.5)


def test_a_default_that_is_no_field_is_refused() -> None:
    class NoDataclass(PPOConfig):
        lr: float = 0.5

    class NoType(PPOConfig):
        lr = 0.5

    @dataclass
    class NoTypeEither(PPOConfig):
        lr = 0.5

    for wrong in (NoDataclass, NoType, NoTypeEither):
        says = rf"lr = 0\.5 in class {wrong.__name__} has no effect: put @dataclass"
        with pytest.raises(ConfigError, match=says):
            wrong()

    @dataclass
    class Right(PPOConfig):
        lr: float = 0.5

    class OnlyChecks(Right):
        def validate(self) -> None:
            super().validate()

    assert Right().lr == OnlyChecks().lr == 0.5


def test_what_is_no_field_says_how_it_becomes_one() -> None:
    class Assigns(PPOConfig):
        def __init__(self) -> None:
            super().__init__()
            self.my_own = 1

    class Forgot(PPOConfig):
        my_own: float = 0.1

    @dataclass
    class Declares(PPOConfig):
        my_own: float = 0.1

    with pytest.raises(ConfigError, match=r"'my_own' of Assigns.*`my_own: float = 0\.1`"):
        Assigns()
    with pytest.raises(ConfigError, match="put @dataclass above class Forgot"):
        Forgot(my_own=0.2)  # type: ignore[call-arg]
    assert Declares(my_own=0.2).my_own == 0.2
