"""The files that RLlib's documents name as tuned can be trained as they are, and mean the same."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import Golden, refusals

from experiments.errors import SpecWarning
from experiments.spec.schema import SweepSpec
from experiments.sweep import load as spec_module
from experiments.sweep.load import load_spec
from search_spaces import SpecError
from trainables.core.errors import ConfigError
from trainables.runtime.envs.make import make_vector_env

FOLDER = Path(__file__).parents[3] / "rllib_style"
TUNED, OLDER = FOLDER / "tuned.yaml", FOLDER / "tuned_older.yaml"

OF_OLDER = ("atari-dist-dqn", "pong-dqn", "pong-appo", "pendulum-sac")


@pytest.fixture
def without_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments are not tried: the libraries of some are extras."""
    monkeypatch.setattr(spec_module, "check_env", lambda *_: None)


def load(file: Path, name: str, *overrides: str) -> tuple[SweepSpec, list[str]]:
    """The spec of an experiment, and what is said about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SpecWarning)
        spec = load_spec(file, overrides, experiment=name)
    notes = [str(item.message) for item in caught if item.category is SpecWarning]
    return spec, sorted(re.sub(r"^.*\.yaml:\d+: ", "", note) for note in notes)


def outcome(file: Path, name: str, *overrides: str) -> str:
    """What an experiment is here, and what is said of it, as text."""
    spec, notes = load(file, name, *overrides)
    found = {"trainable": spec.trainable, "config": spec.config, "stop": spec.stop}
    if spec.search_space:
        found["search_space"] = spec.search_space
    text = yaml.safe_dump(found, width=100, default_flow_style=None)
    return text + "".join(f"# {note}\n" for note in notes)


@pytest.mark.usefixtures("without_envs")
def test_what_each_of_them_is_here(golden: Golden) -> None:
    """None is refused, and what is left out is told."""
    names = list(yaml.safe_load(TUNED.read_text()))
    assert len(names) == 17
    golden("sweeps/rllib_tuned_outcomes", {name: outcome(TUNED, name) for name in names})


@pytest.mark.parametrize(
    ("name", "library"),
    [("pong-ppo", "ale_py"), ("pong-rainbow", "ale_py"), ("halfcheetah-appo", "mujoco")],
)
def test_its_environment_is_there(name: str, library: str) -> None:
    pytest.importorskip(library)
    spec, _ = load(TUNED, name)  # tries it
    env = make_vector_env(spec.config["env"], spec.config.get("env_config"))
    if library == "ale_py":
        assert (env.single_observation_space.shape or ())[-2:] == (42, 42)
    env.close()


@pytest.mark.usefixtures("without_envs")
def test_names_of_older_releases(golden: Golden) -> None:
    with pytest.raises(SpecError, match=r"20 x 160 slots .* set rollout_fragment_length='auto' or"):
        load(OLDER, "pong-ppo")
    texts = {name: outcome(OLDER, name) for name in OF_OLDER}
    texts["pong-ppo"] = outcome(OLDER, "pong-ppo", "config.rollout_fragment_length=auto")
    golden("sweeps/rllib_tuned_older", texts)


def write(folder: Path, run: str, env: str, config: dict[str, Any]) -> Path:
    path = folder / "x.yaml"
    path.write_text(yaml.safe_dump({"x": {"run": run, "env": env, "config": config}}))
    return path


UNTRANSLATED: list[tuple[str, str, dict[str, Any]]] = [
    ("IMPALA", "ALE/Pong-v5", {"num_gpus": 3, "train_batch_size": 500}),
    ("PPO", "ALE/Pong-v5", {"model": {"dim": 42}, "env_config": {"img_height": 96}}),
    ("PPO", "CartPole-v1", {"model": {"dim": 42}}),
    ("IMPALA", "CartPole-v1", {"minibatch_buffer_size": 4, "num_sgd_iter": 2}),
    ("DQN", "CartPole-v1", {"final_prioritized_replay_beta": 1.0, "replay_buffer_config": 3}),
]


@pytest.mark.usefixtures("without_envs")
def test_what_cannot_be_translated(tmp_path: Path, golden: Golden) -> None:
    def read(run: str, env: str, config: dict[str, Any]) -> None:
        load(write(tmp_path, run, env, config), "x")

    golden(
        "sweeps/rllib_tuned",
        refusals(read, UNTRANSLATED, SpecError, replace={str(tmp_path): "<folder>"}),
    )


def test_one_pass_over_several_batches_is_one_pass(tmp_path: Path) -> None:
    spec, notes = load(write(tmp_path, "IMPALA", "CartPole-v1", {"minibatch_buffer_size": 4}), "x")
    assert spec.config == {"env": "CartPole-v1"}
    assert notes == ["minibatch_buffer_size = 4 is left out: it has no effect with one pass"]


@pytest.mark.usefixtures("without_envs")
def test_frames_as_the_game_gives_them_are_left_alone(tmp_path: Path) -> None:
    config = {"is_atari": False, "env_config": {"frameskip": 1}}
    spec, notes = load(write(tmp_path, "PPO", "ALE/Pong-v5", config), "x")
    assert spec.config["env_config"] == {"frameskip": 1} and not notes


@pytest.mark.parametrize(("env", "newest"), [("HalfCheetah-v3", "v5"), ("Hopper-v2", "v5")])
def test_elsewhere_the_error_says_which_version_to_write(env: str, newest: str) -> None:
    name = env.partition("-")[0]
    with pytest.raises(ConfigError) as error:
        make_vector_env(env)
    assert str(error.value) == (
        f"env {env!r} is no longer in gymnasium; write '{name}-{newest}'"
    )  # fmt: skip
