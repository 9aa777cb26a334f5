"""Training that begins with what another run has learned, e.g. PPO where BC ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from refusals import Golden, refusals
from small_runs import settings_of

from trainables import A2C, APPO, BC, DQN, IMPALA, PPO, Algorithm, Policy, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError

EVALUATED: dict[str, Any] = {"evaluation_interval": 1, "evaluation_duration": 4}
MODEL: dict[str, Any] = {"model": {"fcnet_hiddens": [16]}}
OBS = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, float, np.ndarray]]:
    """A checkpoint of BC, its last evaluation, and its greedy actions."""
    folder = tmp_path_factory.mktemp("bc")
    with BC(settings_of("BC", **EVALUATED)) as algo:
        score = algo.train()["evaluation/episode_return_mean"]
        algo.save(str(folder / "checkpoint"))
        algo.export_policy_checkpoint(str(folder / "policy"))
        yield folder, score, algo.compute_actions(OBS, explore=False)


def tuned(algorithm: Any, path: Any, **more: Any) -> Algorithm:
    settings = settings_of(algorithm.__name__, **MODEL, **EVALUATED)
    made: Algorithm = algorithm({**settings, "load_state_path": path, **more})
    return made


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [(PPO, "checkpoint"), (APPO, "policy"), (A2C, "policy"), (IMPALA, "checkpoint")],
)
def test_it_acts_as_the_clone_does_and_goes_on(
    algorithm: Any, kind: str, cloned: tuple[Path, float, np.ndarray]
) -> None:
    folder, score, actions = cloned
    with tuned(algorithm, folder / kind) as algo:
        assert np.array_equal(algo.compute_actions(OBS, explore=False), actions)
        assert algo.evaluate()["episode_return_mean"] == score
        stored = Policy.load(folder / kind).get_weights()
        for name, value in algo.get_weights()["default_policy"].items():
            assert np.array_equal(value, stored[name])
        if kind == "policy":
            return
        algo.train()
        assert any(
            not np.array_equal(value, stored[name])
            for name, value in algo.get_weights()["default_policy"].items()
        )


def test_targets_begin_with_the_same_weights(cloned: tuple[Path, float, np.ndarray]) -> None:
    with tuned(APPO, cloned[0] / "policy") as algo:
        stored = Policy.load(cloned[0] / "policy").get_weights()
        for target in algo.learners["default_policy"].targets.values():
            for name, value in target.network.state_dict().items():
                assert np.array_equal(value.numpy(), stored[name])


def test_a_restored_checkpoint_counts_instead(
    cloned: tuple[Path, float, np.ndarray], tmp_path: Path
) -> None:
    """Also where the folder is there no longer."""
    start = tmp_path / "start"
    Policy.load(cloned[0] / "policy").save(start)
    with tuned(PPO, start) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "c"))
        expected = algo.get_weights()["default_policy"]
        for file in start.iterdir():
            file.unlink()
    with Algorithm.from_checkpoint(saved) as again:
        for name, value in again.get_weights()["default_policy"].items():
            assert np.array_equal(value, expected[name])
    with pytest.raises(ConfigError, match=r"load_state_path = .*it holds no policy"):
        tuned(PPO, start)


def test_a_reset_begins_with_them_again(cloned: tuple[Path, float, np.ndarray]) -> None:
    folder, _, actions = cloned
    settings = settings_of("PPO", **MODEL, load_state_path=folder / "policy")
    with PPO(settings) as algo:
        algo.train()
        algo.reset_config(settings)
        assert np.array_equal(algo.compute_actions(OBS, explore=False), actions)


def test_a_relative_path_is_of_where_the_program_was_started(
    cloned: tuple[Path, float, np.ndarray], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tune has trials work in folders of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(cloned[0]))
    with tuned(PPO, "policy") as algo:
        assert np.array_equal(algo.compute_actions(OBS, explore=False), cloned[2])


def test_another_policy_is_refused(cloned: tuple[Path, float, np.ndarray], golden: Golden) -> None:
    cases = [
        {"model": {"fcnet_hiddens": [8]}},
        {"model": {"fcnet_hiddens": [16], "fcnet_activation": "relu"}},
        {"env": "Acrobot-v1"},
        {"observation_filter": "MeanStdFilter"},
        {"frame_stack": 2},
    ]
    golden(
        "load_state_path/another_policy_is_refused",
        refusals(
            lambda more: tuned(PPO, cloned[0] / "policy", **more),
            cases,
            replace={str(cloned[0]): "<folder>"},
        ),
    )


def test_other_networks_and_folders_are_refused(
    cloned: tuple[Path, float, np.ndarray], tmp_path: Path
) -> None:
    settings = settings_of("DQN", noisy=False)
    with pytest.raises(ConfigError, match=r"there module is .*'actor_critic'}, here"):
        DQN({**settings, "load_state_path": cloned[0] / "policy"})
    with pytest.raises(ConfigError, match=r"load_state_path = .*: there is no folder"):
        tuned(PPO, tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="load_state_path = 3 is not allowed"):
        PPOConfig(load_state_path=3)
    damaged = tmp_path / "damaged"
    policy = Policy.load(cloned[0] / "policy")
    policy.save(damaged)
    weights = damaged / "policy.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="is damaged"):
        tuned(PPO, damaged)


def test_it_may_be_set_where_the_reference_has_it() -> None:
    config = PPOConfig().rl_module(load_state_path="runs/bc/best")
    assert config.load_state_path == "runs/bc/best"
    assert PPOConfig(env=gym.make, load_state_path=Path("a") / "b").load_state_path == "a/b"
