"""Settings of DQN, SAC and IQL that are refused, and older ways to give them."""

from typing import Any

import pytest

from trainables import DQN, IQL, SAC, DQNConfig, IQLConfig, MARWILConfig, SACConfig
from trainables.core.errors import ConfigError


@pytest.mark.parametrize(
    ("config", "values", "message"),
    [
        (DQNConfig, {"num_epochs": 2}, "num_epochs = 2 has no effect on DQN"),
        (SACConfig, {"num_epochs": 2}, "num_epochs = 2 has no effect on SAC"),
        (DQNConfig, {"minibatch_size": 8}, "minibatch_size = 8 has no effect on DQN"),
        (DQNConfig, {"model": {"squash_actions": True}}, "'squash_actions' has no effect on DQN"),
        (SACConfig, {"model": {"free_log_std": True}}, "'free_log_std' has no effect on SAC"),
        (SACConfig, {"q_model_config": {"initial_log_std": 0}}, "q_model_config: 'initial_log_std"),
        (IQLConfig, {"q_model_config": {"initial_log_std": 0}}, "q_model_config: 'initial_log_std"),
        (IQLConfig, {"model": {"initial_log_std": -6}}, "initial_log_std = -6 is not allowed"),
        (SACConfig, {"policy_model_config": {"fcnet_hidden": [8]}}, "fcnet_hiddens"),
        (SACConfig, {"target_entropy": "foo"}, "target_entropy = 'foo' is not allowed; allowed: "),
        (SACConfig, {"initial_alpha": 0}, "initial_alpha = 0 is not allowed"),
        (SACConfig, {"optimization_config": {"lr": 1}}, "optimization_config: 'lr' is unknown"),
        (DQNConfig, {"n_step": 0}, "n_step = 0 is not allowed"),
        (DQNConfig, {"tau": 1.5}, "tau = 1.5 is not allowed"),
        (DQNConfig, {"epsilon": [[0, 1.0], [10, 1.5]]}, "epsilon = .* is not allowed"),
        (DQNConfig, {"td_error_loss_fn": "l1"}, "td_error_loss_fn = 'l1' is not allowed"),
        (DQNConfig, {"num_atoms": 0}, "num_atoms = 0 is not allowed"),
        (DQNConfig, {"training_intensity": 0}, "training_intensity = 0 is not allowed"),
        (DQNConfig, {"twin_q": True}, "twin_q"),
    ],
)
def test_a_bad_or_useless_setting_is_refused_when_it_is_given(
    config: Any, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config().update_from_dict(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_step": [3, 2]}, r"n_step = \[3, 2\] is not allowed"),
        ({"n_step": [0, 2]}, r"n_step = \[0, 2\] is not allowed"),
        ({"n_step": [1, 2, 3]}, r"n_step = \[1, 2, 3\] is not allowed"),
        ({"num_atoms": 11, "v_min": 3, "v_max": 3}, "v_min = 3 is not below v_max = 3"),
        (
            {"num_steps_sampled_before_learning_starts": 1001},
            "num_steps_sampled_before_learning_starts = 1001 is more than the capacity .* 1000",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_when_it_is_built(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        DQN({"env": "CartPole-v1", "replay_buffer_config": {"capacity": 1000}} | values)


def test_sampling_while_learning_needs_env_runners_and_an_environment() -> None:
    ahead = DQNConfig(sample_while_learning=True).environment("CartPole-v1")
    with pytest.raises(ConfigError, match=r"no effect with num_env_runners = 0: .* at least 1"):
        ahead.validate()
    ahead.env_runners(num_env_runners=1).validate()
    with pytest.raises(ConfigError, match="it learns from recorded data"):
        MARWILConfig(sample_while_learning=True).validate()


@pytest.mark.parametrize("algorithm", [SAC, IQL])
@pytest.mark.parametrize("where", ["model", "policy_model_config"])
def test_discrete_actions_have_no_log_sigma(algorithm: Any, where: str) -> None:
    message = "initial_log_std = -1 has no effect on .* with discrete actions"
    with pytest.raises(ConfigError, match=message):
        algorithm({"env": "CartPole-v1", where: {"initial_log_std": -1}})
    algorithm({"env": "Pendulum-v1", where: {"initial_log_std": -1}}).stop()


def test_discrete_actions_have_no_deterministic_loss() -> None:
    with pytest.raises(ConfigError, match="_deterministic_loss = True has no effect with discrete"):
        SAC({"env": "CartPole-v1", "_deterministic_loss": True})


def test_the_older_way_to_give_three_rates() -> None:
    rates = {
        "actor_learning_rate": 1e-3,
        "critic_learning_rate": [[0, 1e-3], [100, 1e-4]],
        "entropy_learning_rate": 3e-3,
    }
    config = SACConfig().training(optimization_config=rates)
    assert (config.actor_lr, config.critic_lr, config.alpha_lr) == tuple(rates.values())
