"""Settings of networks: what makes no sense is refused, and custom models run only if trusted."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_blocks import blocks, write_files
from refusals import Golden, refusals

from trainables import DQNConfig, Policy, PPOConfig, SACConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.model import ModelConfig
from trainables.core.errors import ConfigError


def test_settings_that_make_no_sense(golden: Golden) -> None:
    cases = [
        {"lstm_cell_size": 64},
        {"lstm_use_prev_action": True},
        {"max_seq_len": 5},
        {"use_lstm": True, "attention_dim": 8},
        {"custom_model_config": {"a": 1}},
        {"use_lstm": True, "use_gru": True},
        {"use_attention": True, "attention_use_n_prev_actions": 2},
        {"custom_model": "m:C", "fcnet_hiddens": [3]},
        {"custom_model": "m:C", "fcnet_activation": "relu"},
        {"custom_action_dist": "x"},
        {"post_fcnet_hiddens": [3]},
        {"lstm_cell": 3},
        {
            "use_attention": True,
            "attention_memory_inference": 5,
            "attention_memory_training": 6,
        },
    ]
    golden(
        "model_settings/settings_that_make_no_sense",
        refusals(lambda model: PPOConfig().training(model=model), cases),
    )


def test_the_activation_beside_a_custom_model_is_that_of_hiddens() -> None:
    model = {"custom_model": "m:C", "fcnet_activation": "tanh"}
    config = DQNConfig().environment("CartPole-v1").training(model=model, hiddens=[8])
    config.validate()
    with pytest.raises(ConfigError, match="no effect with custom_model and hiddens = \\[\\]"):
        config.training(hiddens=[]).validate()
    with pytest.raises(ConfigError, match="'fcnet_activation' has no effect with custom"):
        SACConfig().training(model=model)


def test_defaults_and_older_names_pass() -> None:
    PPOConfig().training(model={"use_lstm": False, "lstm_cell_size": 256, "max_seq_len": 20})
    both = PPOConfig().training(model={"use_lstm": True, "lstm_use_prev_action_reward": True}).model
    assert both == {
        "use_lstm": True,
        "lstm_use_prev_action": True,
        "lstm_use_prev_reward": True,
    }
    memory = {"use_attention": True, "attention_memory_training": 7}
    assert ModelConfig(**ModelConfig.check(memory)).attention_memory_inference == 7


def test_soft_actor_critic_has_no_memory(golden: Golden) -> None:
    def act(name: str) -> None:
        with pytest.raises(
            ConfigError, match=f"{name} = True is not possible with SAC: its policy"
        ):
            SACConfig().training(model={name: True})
        SACConfig().training(policy_model_config={name: True})

    cases = ["use_lstm", "use_gru", "use_attention"]
    golden("model_settings/soft_actor_critic_has_no_memory", refusals(act, cases))


# ---------------------------------------------------------------------- custom models


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The config of the guide's example, whose module can be imported."""
    page = "trainables/guides/networks.md"
    write_files(page, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(blocks(page, "python")[1], page, "exec"), names)
    yield names["config"]
    sys.modules.pop("my_models", None)  # the next test's is another file


def test_example_of_a_custom_model(example: Any, tmp_path: Path) -> None:
    obs = np.array([[0.1, -0.2, 0.3, 0.4]], np.float32)
    example.training(train_batch_size_per_learner=64, minibatch_size=32).debugging(seed=0)
    with example.build() as algo:
        algo.train()
        policy = algo.get_policy()
        assert policy.module.encoder.width == 64
        expected = policy.compute_actions(obs, explore=False, full_fetch=True)
        algo.save(str(tmp_path / "checkpoint"))
    name = "my_models:Residual"
    for folder in ("checkpoint", "checkpoint/policies/default_policy"):
        with pytest.raises(CheckpointError, match=re.escape(f"pass trust=['{name}']")):
            Policy.load(tmp_path / folder)
        loaded = Policy.load(tmp_path / folder, trust=[name])
        found = loaded.compute_actions(obs, explore=False, full_fetch=True)
        for key, value in expected.extra.items():
            np.testing.assert_array_equal(found.extra[key], value)
    with pytest.raises(CheckpointError, match=re.escape(f"pass trust=['{name}']")):
        type(algo).from_checkpoint(tmp_path / "checkpoint")
    with type(algo).from_checkpoint(tmp_path / "checkpoint", trust=[name]) as again:
        assert again.iteration == 1


@pytest.mark.parametrize("where", ["model", "q_model_config", "policy_model_config"])
def test_custom_models_of_soft_actor_critic(example: Any, where: str, tmp_path: Path) -> None:
    """As a class, which is kept by its name; each network has its own."""
    import my_models  # type: ignore[import-not-found]

    model = {"custom_model": my_models.Residual, "custom_model_config": {"width": 8}}
    config = SACConfig().environment("Pendulum-v1").training(**{where: model})
    config.training(
        num_steps_sampled_before_learning_starts=4,
        train_batch_size_per_learner=4,
        training_intensity=4,
    )
    with config.build() as algo:
        for _ in range(12):
            algo.training_step()
        assert algo.num_updates > 0
        weights = algo.get_policy().get_weights()
        algo.save(str(tmp_path / "checkpoint"))
    found = {name.split(".")[0] for name in weights if ".model.blocks." in name}
    parts = {"q_model_config": {"critic"}, "policy_model_config": {"actor"}}
    assert found == parts.get(where, {"actor", "critic"})
    folder = tmp_path / "checkpoint"
    with pytest.raises(CheckpointError, match=r"model\.custom_model = 'my_models:Residual'"):
        Policy.load(folder)
    loaded = Policy.load(folder, trust=["my_models:Residual"])
    for key, value in loaded.get_weights().items():
        np.testing.assert_array_equal(value, weights[key])


def test_custom_model_of_a_q_network(example: Any) -> None:
    config = DQNConfig().environment("CartPole-v1").training(model=example.model)
    config.training(num_steps_sampled_before_learning_starts=8, train_batch_size_per_learner=4)
    with config.build() as algo:
        for _ in range(12):
            algo.training_step()
        assert algo.num_updates > 0
        assert algo.get_policy().module.encoder.width == 64
