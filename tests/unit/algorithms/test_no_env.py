"""An algorithm whose training steps no environment: what works, and what is said of the rest."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from cloning import NUM_ROWS, SMALL, Cloning, CloningConfig
from fixed_source import FixedSource, OfflineConfig, OfflineDQN, transitions
from page_blocks import block_with

from trainables import PPO, Algorithm, DQNConfig, Policy
from trainables.core.all_metrics import SAMPLED
from trainables.core.errors import ConfigError
from trainables.core.reported_metrics import OLDER
from trainables.runtime.replay.experience import Experience

CARTPOLE = {"evaluation_config": {"env": "CartPole-v1"}}
LOSS = "learner/default_policy/policy_loss"


@dataclass
class MaybeOfflineConfig(DQNConfig):
    """Learns from a source if there is one, else from what it samples."""

    source: str | None = None

    @property
    def needs_env(self) -> bool:
        return self.source is None


class FewRowsDQN(OfflineDQN):
    """Learns from the first rows of a source."""

    num_rows: int

    def make_experience(self, module_id: str, policy: Any, seed: Any) -> Experience:
        return FixedSource({n: c[: self.num_rows] for n, c in transitions().items()}, seed)


def cloning(**more: Any) -> Cloning:
    return Cloning(config={"seed": 3, **SMALL, **more})


def test_it_trains_without_any_environment_and_reports_nothing_of_sampling() -> None:
    with cloning() as algo:
        results = [algo.train() for _ in range(30)]
        assert algo.compute_single_action([0.1, 0.2, 0.3], explore=False) in (0, 1)
    assert results[-1][LOSS] < results[0][LOSS] - 0.01
    for result in (results[0], results[-1]):
        assert not {m.name for m in SAMPLED} & result.keys()
        assert not {*OLDER} & result.keys()
    assert results[-1]["num_env_steps_trained_lifetime"] == 30 * NUM_ROWS


def test_minima_are_of_what_it_trains_on() -> None:
    with cloning(min_train_timesteps_per_iteration=3 * NUM_ROWS) as algo:
        assert algo.train()["num_training_step_calls_lifetime"] == 3


def test_schedules_count_the_steps_that_it_trains_on() -> None:
    with cloning(lr=[[0, 1e-3], [2 * NUM_ROWS, 1e-4]]) as algo:
        rates = [algo.train()["learner/default_policy/curr_lr"] for _ in range(3)]
    assert rates == pytest.approx([1e-3, 5.5e-4, 1e-4])


def test_sampling_is_refused_and_asking_env_runners_gives_nothing() -> None:
    with cloning() as algo:
        with pytest.raises(RuntimeError, match=r"needs_env.*nothing to sample"):
            algo.sample()
        with pytest.raises(RuntimeError, match="nothing to sample"):
            algo.env_runners.request_samples()
        with pytest.raises(RuntimeError, match="nothing to sample"):
            algo.env_runners.ready_samples()
        assert algo.env_runners.foreach_env_runner(lambda runner: 1) == []
        assert algo.workers.foreach_env(lambda env: 1) == []
        assert algo.restore_workers() == []
        algo.set_weights(algo.get_weights())
        weights = algo.workers.local_worker().get_weights()["default_policy"]
        for name, value in algo.get_weights()["default_policy"].items():
            assert np.array_equal(value, weights[name])


def test_the_spaces_are_those_of_settings_of_the_hook_or_of_the_evaluation() -> None:
    pole = gym.make("CartPole-v1").observation_space
    with cloning() as algo:
        assert algo.get_policy().action_space == gym.spaces.Discrete(2)
    with cloning(num_choices=5) as algo:
        assert algo.get_policy().action_space == gym.spaces.Discrete(5)
    with cloning(**CARTPOLE) as algo:
        assert algo.get_policy().observation_space == pole
    with cloning(env="CartPole-v1") as algo:
        assert algo.get_policy().observation_space == pole
    given = {"observation_space": gym.spaces.Box(-3, 3, (2,)), "action_space": gym.spaces.Box(0, 1)}
    with cloning(**given) as algo:
        assert algo.get_policy().observation_space == given["observation_space"]
        assert algo.get_policy().action_space == given["action_space"]
    with pytest.raises(ConfigError, match=r"action_space = .* does not fit the environment's"):
        cloning(action_space=gym.spaces.Discrete(7), **CARTPOLE)
    with pytest.raises(ConfigError, match="nothing says the spaces: set observation_space and"):
        cloning(observation_space=given["observation_space"])


def test_a_setting_does_not_fit_the_datas_space() -> None:
    with pytest.raises(ConfigError, match=r"action_space = .* does not fit the data's"):
        cloning(action_space=gym.spaces.Discrete(7))


def test_it_is_evaluated_in_an_environment_that_training_has_not() -> None:
    with cloning(**CARTPOLE, evaluation_interval=1, evaluation_duration=3) as algo:
        result = algo.train()
        assert result["evaluation/num_episodes"] == 3
        assert result["evaluation/episode_return_mean"] == algo.evaluate()["episode_return_mean"]
    with cloning() as algo, pytest.raises(ConfigError, match="no environment to evaluate in"):
        algo.evaluate()
    with pytest.raises(ConfigError, match=r"evaluation_interval = 1 needs an environment"):
        cloning(evaluation_interval=1)
    mine = {"custom_evaluation_function": lambda algorithm, workers: {"score": 3.0}}
    with cloning(**mine, evaluation_interval=1) as algo:
        assert algo.train()["evaluation/score"] == 3.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_envs_per_env_runner", 2),
        ("env_runner_cls", "trainables.runtime.sampling.env_runner:EnvRunner"),
        ("render_env", True),
        ("min_sample_timesteps_per_iteration", 10),
        ("env_task_fn", "fakes:task"),
    ],
)
def test_what_concerns_sampling_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} = .* has no effect with Cloning, whose train"):
        CloningConfig(**SMALL, **{name: value}).validate()
    evaluated = {**CARTPOLE["evaluation_config"], "num_envs_per_env_runner": 2}
    CloningConfig(**SMALL, evaluation_config=evaluated).validate()  # evaluations have their own


def test_where_draws_are_is_always_in_checkpoints_of_a_fixed_source(tmp_path: Path) -> None:
    given = {"train_batch_size_per_learner": 8, **CARTPOLE}
    with pytest.raises(ConfigError, match="store_buffer_in_checkpoints = True has no effect with"):
        OfflineConfig(store_buffer_in_checkpoints=True).validate()
    with pytest.raises(ConfigError, match="sample_while_learning = True has no effect with"):
        OfflineConfig(sample_while_learning=True).validate()
    with OfflineDQN(config=given) as algo:
        algo.train()
        expected = algo.experience["default_policy"].get_state()
        saved = algo.save(str(tmp_path / "a"))
        for _ in range(6):  # as a scheduler that pauses trials: nothing is to be filled again
            algo.restore(saved)
        assert algo.experience["default_policy"].get_state() == expected


def test_a_small_source_is_learned_from_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FewRowsDQN, "num_rows", 20, raising=False)
    # Targets count updates.
    small = {"train_batch_size_per_learner": 8, "target_network_update_freq": 3}
    with FewRowsDQN(config={**CARTPOLE, **small, "replay_buffer_config": {"capacity": 99}}) as algo:
        (target,) = algo.learners["default_policy"].targets.values()
        moves = []
        for number in range(1, 8):
            before = target.get_state().clone()
            algo.training_step()
            assert algo.num_updates == number
            moves.append(bool((target.get_state() != before).any()))
    assert moves == [False, False, True, False, False, True, False]


def test_a_source_that_nothing_can_be_drawn_from_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FewRowsDQN, "num_rows", 0, raising=False)
    with pytest.raises(ConfigError, match=r"'default_policy'. gives no rows to learn from"):
        FewRowsDQN(config=CARTPOLE)
    with pytest.raises(ConfigError, match=r"gives no sequence of \d+ rows"):
        OfflineDQN(config={**CARTPOLE, "model": {"use_lstm": True, "max_seq_len": 4}})


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_steps_sampled_before_learning_starts", 10), ("training_intensity", 4)],
)
def test_what_concerns_experience_that_grows_is_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} = {value} has no effect with"):
        OfflineConfig(**{name: value}).validate()
    DQNConfig(env="CartPole-v1", **{name: value}).validate()


def test_a_source_of_ones_own_gives_all_that_is_asked_of_it() -> None:
    class Forgetful(FixedSource):
        reseed = Experience.reseed

    with pytest.raises(TypeError, match=r"abstract method.*reseed"):
        Forgetful(transitions(), np.random.SeedSequence(0))  # type: ignore[abstract]


def test_a_setting_may_decide_whether_training_steps_an_environment() -> None:
    """As that of files to read instead."""
    with pytest.raises(ConfigError, match="env is not set"):
        MaybeOfflineConfig().validate()
    MaybeOfflineConfig(source="rows.npz").validate()
    with pytest.raises(ConfigError, match="num_env_runners = 2 has no effect with"):
        MaybeOfflineConfig(source="rows.npz", num_env_runners=2).validate()
    MaybeOfflineConfig(env="CartPole-v1", num_env_runners=2).validate()


def test_one_that_samples_still_needs_an_environment() -> None:
    with pytest.raises(ConfigError, match="env is not set"):
        PPO(config={})
    with pytest.raises(ConfigError, match="env is not set"):
        PPO(config=CARTPOLE)


def test_it_resumes_to_the_bit_and_becomes_another_trial(tmp_path: Path) -> None:
    settings = {**CARTPOLE, "evaluation_interval": 1, "evaluation_duration": 2, "seed": None}
    with cloning(**settings) as whole:
        whole.train()
        saved = whole.save(str(tmp_path / "a"))
        expected = [whole.train() for _ in range(2)]
        with Algorithm.from_checkpoint(saved, trust=["cloning:Cloning"]) as resumed:
            assert type(resumed) is Cloning
            results = [resumed.train() for _ in range(2)]
        for one, other in zip(expected, results, strict=True):
            for name in (LOSS, "evaluation/episode_return_mean", "num_env_steps_trained_lifetime"):
                assert one[name] == other[name]
        whole.restore(saved)
        assert whole.train()[LOSS] == expected[0][LOSS]
        assert whole.reset_config({**SMALL, "num_choices": 4})
        assert whole.get_policy().action_space == gym.spaces.Discrete(4)
        assert whole.train()["num_env_steps_trained_lifetime"] == NUM_ROWS


def test_what_it_exports_says_where_it_was_evaluated(tmp_path: Path) -> None:
    with cloning(**CARTPOLE) as algo:
        algo.export_policy_checkpoint(str(tmp_path / "policy"))
        assert algo.export_policy_model(str(tmp_path / "graph")).is_file()
    metadata = Policy.load(tmp_path / "policy").metadata
    assert (metadata["env"], metadata["evaluation"]["env"]) == (None, "CartPole-v1")
    with cloning() as algo:
        assert algo.export_policy_model(str(tmp_path / "other")).is_file()


def test_a_loss_that_diverges_is_named() -> None:
    with cloning() as algo:
        algo.rows["default_policy"]["obs"][0] = np.nan
        words = re.escape(" steps that it has learned from; a lower lr")
        with pytest.raises(RuntimeError, match=f"training diverged: {LOSS} = .*{words}"):
            algo.train()


def test_the_guides_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = block_with("trainables/guides/your_own.md", "class Cloning(Algorithm)")
    (tmp_path / "my_cloning.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    mine: Any = importlib.import_module("my_cloning")
    obs = np.random.default_rng(0).normal(size=(512, 4)).astype(np.float32)
    np.savez(tmp_path / "choices.npz", obs=obs, actions=(obs[:, 2] > 0).astype(np.int64))
    config = mine.CloningConfig(
        mine.Cloning, choices=str(tmp_path / "choices.npz"), lr=1e-2, seed=1
    )
    config.evaluation(evaluation_interval=1, **CARTPOLE)
    with config.build() as algo:
        results = [algo.train() for _ in range(5)]
    assert results[-1][LOSS] < 0.2 < results[0][LOSS]
    assert results[-1]["evaluation/episode_return_mean"] > 30  # it pushes where the pole falls
    del sys.modules["my_cloning"]
