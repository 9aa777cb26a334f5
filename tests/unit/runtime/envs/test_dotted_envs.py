"""`env="package.module.Class"`: what `module:Class` is in the reference's words."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest
from fakes import EndlessEnv
from ray import tune

from experiments import cli
from experiments.sweep.load import make_spec
from search_spaces.documents import Document, SpecError
from trainables import PPOConfig
from trainables.core.errors import ConfigError
from trainables.ppo import PPO
from trainables.runtime.envs.make import is_name_safe, make_vector_env
from trainables.runtime.envs.trust import environment_doubts


class Own(EndlessEnv):
    pass


OWN = f"{__name__}.Own"
STOP = {"training_iteration": 1}
SMALL = {"train_batch_size_per_learner": 64, "minibatch_size": 64, "num_epochs": 1}


def test_a_class_by_its_path(tmp_path: Path) -> None:
    with PPOConfig.from_dict({**SMALL, "env": OWN}).build() as algo:
        assert algo.train()["episode_len_mean"] == 5
        algo.save(str(tmp_path / "saved"))
    with PPO.from_checkpoint(tmp_path / "saved", trust=[OWN]) as algo:
        assert algo.config.env == OWN


def test_it_is_code_like_any_other(tmp_path: Path) -> None:
    assert not is_name_safe(OWN) and not is_name_safe("os.system")
    assert [doubt.entry for doubt in environment_doubts({"env": "os.system"})] == ["os.system"]
    with PPOConfig.from_dict({**SMALL, "env": OWN}).build() as algo:
        algo.save(str(tmp_path / "saved"))
    with pytest.raises(ConfigError, match=rf"env = '{OWN}' \(code that would be imported\)"):
        PPO.from_checkpoint(tmp_path / "saved")


def test_a_spec_from_a_url_may_not_name_it() -> None:
    from experiments.spec.remote import refuse_foreign_values

    document = Document({"config": {"env": "os.path.join"}}, "https://example.org/spec.yaml")
    with pytest.raises(SpecError, match=r"config.env = 'os.path.join': a spec from a URL may not"):
        refuse_foreign_values(document, PPOConfig, [])


def test_registered_names_with_dots_go_before() -> None:
    tune.register_env("some.name", lambda config: Own())
    gym.register("other.name", entry_point=Own)
    for name in ("some.name", "other.name"):
        assert is_name_safe(name)
        assert make_vector_env(name, {}, 1).num_envs == 1


def test_what_cannot_be_found_is_named() -> None:
    with pytest.raises(ConfigError, match=r"env 'no.such.Env' is unknown: .*'package.module"):
        make_vector_env("no.such.Env")
    with pytest.raises(ConfigError, match=r"env 'gymnasium.Envv' .*'gymnasium:Envv' cannot be fou"):
        make_vector_env("gymnasium.Envv")


def test_in_a_spec_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = make_spec({"name": "own", "trainable": "PPO", "config": {"env": OWN}, "stop": STOP})
    assert spec.config["env"] == OWN
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "envs.py").write_text("class Env: ...\n")
    monkeypatch.chdir(tmp_path)  # whose modules are found
    command = ["train", "--algo", "PPO", "--env", "own_package.envs.Missing"]
    monkeypatch.setattr("sys.argv", ["tunescape", *command, "--stop", json.dumps(STOP)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "'own_package.envs:Missing' cannot be found" in said
