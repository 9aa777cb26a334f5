"""Names of other libraries, and algorithms that are not here: where they lead."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from every_row import check_rows
from refusals import Golden, refusals

from experiments import cli
from experiments.sweep.load import SpecError, make_spec
from trainables import PPO, PPOConfig, SACConfig
from trainables.core.config.reference.name_hints import setting_hint
from trainables.core.config.reference.other_libraries import ALGORITHMS, INSIDE, SETTINGS
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm

CONFIGS = {name: get_algorithm(name).config_class for name in algorithm_names()}
# What the issue asks for by name: where each leads in PPO, DQN and SAC; "" where it has none.
LEADS = {
    "learning_rate": ("lr", "lr", "lr"),
    "n_steps": ("rollout_fragment_length", "n_step", "n_step"),
    "batch_size": ("minibatch_size", *2 * ("train_batch_size_per_learner",)),
    "ent_coef": ("entropy_coeff", "", "initial_alpha"),
    "vf_coef": ("vf_loss_coeff", "", ""),
    "clip_range": ("clip_param", "", ""),
    "gae_lambda": ("lambda_", "", ""),
    "buffer_size": ("", *2 * ("replay_buffer_config.capacity",)),
    "learning_starts": ("", *2 * ("num_steps_sampled_before_learning_starts",)),
    "max_grad_norm": 3 * ("grad_clip",),
    "n_envs": 3 * ("num_envs_per_env_runner",),
    "num_minibatches": ("minibatch_size", "", ""),
    "exploration_fraction": ("", "exploration_config.epsilon_timesteps", ""),
    "train_freq": ("", "training_intensity", "training_intensity"),
    "use_lstm": ("model.use_lstm", "model.use_lstm", ""),
}


def has(config_class: Any, path: str) -> bool:
    """Whether an algorithm takes a setting, or a key inside a dict of settings."""
    outer, _, inner = path.partition(".")
    if outer not in config_class.settings() or outer in config_class.without:
        return False
    nested = config_class.nested_settings()
    return not inner or inner in nested[outer].settings()


def message(config_class: Any, name: str) -> str:
    with pytest.raises(ConfigError) as error:
        config_class.from_dict({name: 1})
    return str(error.value)


def test_a_hint_names_what_the_algorithm_has() -> None:
    def check(algorithm: str) -> None:
        config_class = CONFIGS[algorithm]
        for name in set(SETTINGS) - set(config_class.settings()):
            found = setting_hint(config_class, name)
            assert found is not None, name
            if found.words.startswith("here it is"):
                assert has(config_class, found.path), name
                assert config_class.why_not_inside(*found.path.partition(".")[::2]) is None, name
                continue
            paths = {hint.setting for hint in SETTINGS[name]} - {""}
            assert found.words and not any(has(config_class, p) for p in paths if "." not in p), (
                name
            )
            assert not paths or any(has(other, p) for other in CONFIGS.values() for p in paths), (
                name
            )

    check_rows(check, CONFIGS)


def test_where_the_names_of_the_issue_lead() -> None:
    def check(name: str, places: tuple[str, str, str]) -> None:
        for algorithm, place in zip(("PPO", "DQN", "SAC"), places, strict=True):
            words = message(CONFIGS[algorithm], name)
            assert words.startswith(f"unknown setting {name!r} of {algorithm}Config; ")
            outer, _, inner = place.partition(".")
            written = f"{outer}={{'{inner}': …}}" if inner else outer
            expected = f"here it is {written} (in ." if place else "it would be "
            assert expected in words

    check_rows(check, LEADS.items())


def test_words() -> None:
    def check(name: str, expected: str) -> None:
        assert expected in message(PPOConfig, name)

    rows = [
        ("total_timesteps", "stop: {num_env_steps_sampled_lifetime: …}"),
        ("policy_kwargs", "here it is model={'fcnet_hiddens': [64, 64]}"),
        ("learning-rate", "here it is lr"),  # with a hyphen, as on a command line
        ("learning_rat", "here it is lr"),
        ("num_epoch", "did you mean 'num_epochs"),  # one of ours is more like it than n_epochs
        ("buffer_size", "a setting of CQL, DQN, DreamerV3, IQL, QMIX, SAC, not of PPO"),
    ]
    check_rows(check, rows)


def test_no_name_of_another_library_is_accepted_or_ours() -> None:
    for name in set(SETTINGS) - set(PPOConfig.settings()):
        message(PPOConfig, name)


def test_inside_dicts() -> None:
    def check(algorithm: str) -> None:
        nested = CONFIGS[algorithm].nested_settings()
        for outer in set(INSIDE) & set(nested):
            for theirs, ours in INSIDE[outer].items():
                assert ours in nested[outer].settings() and theirs not in nested[outer].settings()
        with pytest.raises(
            ConfigError, match="'net_arch' of ModelConfig; here it is fcnet_hiddens"
        ):
            CONFIGS[algorithm].from_dict({"model": {"net_arch": [8]}})

    check_rows(check, CONFIGS)


def test_every_way_to_give_a_setting() -> None:
    hint = r"unknown setting 'learning_rate' of PPOConfig; here it is lr \(in \.training\(\)"
    with pytest.raises(ConfigError, match=hint):
        PPOConfig(learning_rate=1e-3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=hint):
        PPOConfig().training(learning_rate=1e-3)
    with pytest.raises(ConfigError, match=hint):
        PPOConfig()["learning_rate"] = 1e-3
    with pytest.raises(ConfigError, match=hint):
        PPO(config={"learning_rate": 1e-3})
    with pytest.raises(AttributeError, match="learning_rate does not exist; here it is lr"):
        _ = PPOConfig().learning_rate
    with pytest.raises(ConfigError, match="'gama' of SACConfig; did you mean 'gamma"):
        SACConfig(gama=0.9)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="it is an older name of num_env_runners"):
        PPOConfig(num_workers=2)  # type: ignore[call-arg]


# ------------------------------------------------------------------ algorithms


def test_an_algorithm_that_is_not_here_leads_to_one_that_is() -> None:
    def check(name: str) -> None:
        assert name not in algorithm_names(), "it is there now: delete it in other_libraries.py"
        words = ALGORITHMS[name]
        nearest = re.split(r"\W", words)[0]
        assert nearest in algorithm_names()
        config = {key: True for key in re.findall(r"(\w+)=", words)}
        config |= {key: True for key in re.findall(r"with (num_\w+) of", words)}
        assert set(config) <= set(CONFIGS[nearest].settings())
        with pytest.raises(ConfigError, match=r" is not in Tunescape; nearest: .* \(known: A2C, "):
            get_algorithm(name)

    check_rows(check, ALGORITHMS)


def test_a_misspelt_algorithm_leads_to_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"known: .*; did you mean 'PPO'\?"):
        get_algorithm("ppo")


# ------------------------------------------------------------------ specs and the command line

SPEC = {"name": "s", "trainable": "PPO", "config": {"env": "CartPole-v1"}}


def test_in_a_spec(golden: Golden) -> None:
    cases = [
        {"config": {"env": "CartPole-v1", "n_steps": 128}},
        {"search_space": {"learning_rate": {"uniform": [0, 1]}}},
        {"trainable": "TD3"},
        {"total_timesteps": 100},
        {"learning_rate": 0.1},
        {"stop": {"total_timesteps": 100}},
        {"objective": {"metric": "ep_rew_mean"}},
        {"metric": "episode_return_mean"},
        {"n_trials": 3},
        {"algo": "PPO"},
    ]
    golden(
        "name_hints/in_a_spec",
        refusals(lambda changes: make_spec({**SPEC, **changes}), cases, SpecError),
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "quickstart", "--set", "config.batch_size=8"], "here it is minibatch_size"),
        (["run", "quickstart", "--set", "learning_rate=1"], "here it is lr"),
        (["train", "--algo", "TD3", "--env", "CartPole-v1", "--stop", "{}"], "nearest: SAC"),
    ],
)
def test_on_the_command_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tunescape", *arguments])
    with pytest.raises(SystemExit) as status:
        cli.main()
    assert status.value.code == 2
    assert expected in capsys.readouterr().err
