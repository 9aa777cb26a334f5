"""What is planned or will not come says so by name, in one line, wherever it is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray
from ray import tune
from ray.tune.registry import TRAINABLE_CLASS, _global_registry, get_trainable_cls
from refusals import Golden, refusals
from typer.testing import CliRunner

import trainables
import tunescape
from experiments.cli import app
from trainables import PPO, PPOConfig, registry
from trainables.core.config.reference.other_libraries import ALGORITHMS
from trainables.core.config.reference.planned import ALGORITHMS_ABSENT, whats_become_of
from trainables.core.errors import ConfigError
from trainables.registry import algorithm_names, get_algorithm


def imported(statement: str) -> None:
    exec(statement, {})


# ------------------------------------------------------------------ imports


def test_other_names_say_what_becomes_of_them(golden: Golden) -> None:
    cases = ["TD3Config", "ES", "A3C", "MADDPG", "VDN", "MultiAgentBatch", "Curiosity"]
    golden(
        "not_here/other_names_say_what_becomes_of_them",
        refusals(lambda name: imported(f"from trainables import {name}"), cases, ImportError),
    )


def test_an_unheard_of_name_is_missing_as_ever() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nonsense' from 'trainables'"):
        imported("from trainables import Nonsense")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'trainables\.nonsense'"):
        imported("import trainables.nonsense")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'bc_of_others'"):
        imported("import bc_of_others")


# ------------------------------------------------------------------ the table


def test_one_table_names_what_is_planned() -> None:
    not_here = registry.NOT_HERE.split()
    assert sorted(not_here) == sorted([*ALGORITHMS_ABSENT, *ALGORITHMS])
    assert len(set(not_here)) == len(not_here)
    assert not set(not_here) & {*algorithm_names(), *trainables.__all__, *tunescape.__dir__()}
    for name in algorithm_names():
        assert whats_become_of(name) is None
    for words in ALGORITHMS_ABSENT.values():
        assert words.startswith("no algorithm") or "DreamerV3" in words


def test_names_are_found_however_they_are_written() -> None:
    assert whats_become_of("QR-DQN") == whats_become_of("qrdqn") == whats_become_of("QRDQNConfig")
    assert str(whats_become_of("plan_et")).startswith("PlaNet is not in Tunescape: nearest: Dr")
    assert whats_become_of("FooBar") is None


# ------------------------------------------------------------------ by name


@pytest.mark.parametrize("name", ["TD3", "ma_ddpg"])
def test_the_registry_says_so(name: str) -> None:
    says = rf"^algorithm '{name}': .* is not in Tunescape.* \(known: A2C, APPO, BC, "
    with pytest.raises(ConfigError, match=says):
        get_algorithm(name)


def test_tune_says_so_by_name(golden: Golden) -> None:
    def act(name: str) -> None:
        registry._tell_the_new_cluster()  # as `ray.init` does, where another test ended a cluster
        get_trainable_cls(name)

    cases = ["Dreamer", "TD3", "MADDPG"]
    golden("not_here/tune_says_so_by_name", refusals(act, cases))


def test_a_name_that_its_user_has_registered_stays_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(tune.Trainable):
        pass

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    before = _global_registry._to_flush.copy()
    try:
        tune.register_trainable("Rainbow", Mine)
        registry.register_names()
        registry._tell_the_new_cluster()
        assert get_trainable_cls("Rainbow") is Mine
        assert get_trainable_cls("PPO") is PPO
    finally:
        if not ray.is_initialized():
            _global_registry._to_flush = before
        else:
            _global_registry.register(TRAINABLE_CLASS, "Rainbow", registry._ByName("Rainbow"))


# ------------------------------------------------------------------ specs and the command line


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code != 0
    return str(result.exception)


@pytest.mark.parametrize("option", ["--algo", "--run"])
def test_the_command_line_says_so(option: str) -> None:
    told = command("train", option, "PlaNet", "--env", "CartPole-v1")
    assert "PlaNet is not in Tunescape: nearest: DreamerV3, the present one" in told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x: {run: PlaNet, env: CartPole-v1}", "PlaNet is not in Tunescape: nearest: DreamerV3"),
        ("x: {run: DDPG, env: CartPole-v1}", "DDPG is not in Tunescape; nearest: SAC"),
        (
            "{algorithm: MADDPG, config: {env: CartPole-v1}}",
            "here it is trainable, and MADDPG is not in Tunescape: no algorithm learns",
        ),
        ("{trainable: Dreamer, config: {env: CartPole-v1}}", "nearest: DreamerV3"),
    ],
)
def test_specs_say_so(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(text)
    assert says in command("run", str(tmp_path / "spec.yaml"), "--dry-run")


# ------------------------------------------------------------------ settings and methods


def test_the_only_policy_may_be_named(tmp_path: Path) -> None:
    config = PPOConfig().environment("CartPole-v1").training(train_batch_size=64, minibatch_size=32)
    with config.build() as algo:
        algo.save(str(tmp_path))
    only = {"policy_ids": {"default_policy"}, "policies_to_train": ["default_policy"]}
    with PPO.from_checkpoint(tmp_path, policy_mapping_fn=None, **only) as algo:
        assert set(algo.policies) == {"default_policy"}
