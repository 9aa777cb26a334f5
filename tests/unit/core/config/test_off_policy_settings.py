"""Settings of DQN, SAC and IQL that are refused, and older ways to give them."""

from typing import Any

import pytest
from refusals import Golden, refusals

from trainables import DQN, IQL, SAC, DQNConfig, IQLConfig, MARWILConfig, SACConfig
from trainables.core.errors import ConfigError


def test_a_bad_or_useless_setting_is_refused_when_it_is_given(golden: Golden) -> None:
    cases = [
        (DQNConfig, {"num_epochs": 2}),
        (SACConfig, {"num_epochs": 2}),
        (DQNConfig, {"minibatch_size": 8}),
        (DQNConfig, {"model": {"squash_actions": True}}),
        (SACConfig, {"model": {"free_log_std": True}}),
        (SACConfig, {"q_model_config": {"initial_log_std": 0}}),
        (IQLConfig, {"q_model_config": {"initial_log_std": 0}}),
        (IQLConfig, {"model": {"initial_log_std": -6}}),
        (SACConfig, {"policy_model_config": {"fcnet_hidden": [8]}}),
        (SACConfig, {"target_entropy": "foo"}),
        (SACConfig, {"initial_alpha": 0}),
        (SACConfig, {"optimization_config": {"lr": 1}}),
        (DQNConfig, {"n_step": 0}),
        (DQNConfig, {"tau": 1.5}),
        (DQNConfig, {"epsilon": [[0, 1.0], [10, 1.5]]}),
        (DQNConfig, {"td_error_loss_fn": "l1"}),
        (DQNConfig, {"num_atoms": 0}),
        (DQNConfig, {"training_intensity": 0}),
        (DQNConfig, {"twin_q": True}),
    ]
    golden(
        "off_policy_settings/a_bad_or_useless_setting_is_refused_when_it_is_given",
        refusals(lambda config, values: config().update_from_dict(values), cases),
    )


def test_settings_that_do_not_fit_together_are_refused_when_it_is_built(golden: Golden) -> None:
    cases = [
        {"n_step": [3, 2]},
        {"n_step": [0, 2]},
        {"n_step": [1, 2, 3]},
        {"num_atoms": 11, "v_min": 3, "v_max": 3},
        {"num_steps_sampled_before_learning_starts": 1001},
    ]
    golden(
        "off_policy_settings/settings_that_do_not_fit_together_are_refused_when_it_is_built",
        refusals(
            lambda values: DQN(
                {"env": "CartPole-v1", "replay_buffer_config": {"capacity": 1000}} | values
            ),
            cases,
        ),
    )


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
