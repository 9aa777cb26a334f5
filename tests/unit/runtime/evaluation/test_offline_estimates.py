"""Estimates from recorded episodes as evaluations report them."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_fakes import CARTPOLE, random_episodes
from q_learning_runs import PENDULUM, on
from ray import tune
from recorded_data import write
from refusals import Golden, refusals
from tiers import rarely

from trainables import BC, CQL, DQN, IQL, Algorithm, BCConfig, DQNConfig, PPOConfig
from trainables.core.all_metrics import ESTIMATES
from trainables.core.checkpoint import CheckpointError
from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.estimation.evaluator import Estimate, OffPolicyEstimator
from trainables.core.estimation.intervals import NO_INTERVAL
from trainables.core.estimation.target_policy import TargetPolicy
from trainables.runtime.evaluation.record import Behaves, record_episodes
from trainables.runtime.offline.cache import VARIABLE
from trainables.runtime.offline.data_set import load_data_set
from trainables.runtime.offline.episode import DataSpaces, Episode
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.recorded_episodes import episodes_of

METHODS = "off_policy_estimation_methods"
WRONG_METHODS: list[tuple[str, dict[str, Any]]] = [
    ("a", {"type": "isx"}),
    ("a", {}),
    ("a/b", {"type": "is"}),
    ("a", {"type": "dr", "k": 1}),
    ("a", {"type": "is", "k": 5}),
    ("a", {"type": "dm", "num_update": 5}),
]
QUICK = {"num_updates": 20, "q_model_config": {"fcnet_hiddens": [8]}}
EVERY = {
    "is": {"type": "ImportanceSampling"},
    "wis": {"type": "wis"},
    "dm": {"type": "ray.rllib.offline.estimators.direct_method::DirectMethod", **QUICK},
    "dr": {"type": "DoublyRobust", "k": 2, **QUICK},
    "qreg_dr": {"type": "dr", "q_model_type": "qreg", "k": 2, **QUICK},
    "features": {"type": "FeatureImportance", "repeat": 2},
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))


def noted(lengths: list[int], spaces: DataSpaces = CARTPOLE) -> list[Episode]:
    """Random episodes whose probabilities somebody noted."""
    return [
        replace(episode, logp=np.full(len(episode), math.log(0.5), np.float32))
        for episode in random_episodes(spaces, lengths)
    ]


def estimated(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if "ope/" in name}


@pytest.mark.parametrize("algorithm", rarely([BC, CQL, IQL], [CQL]))
def test_without_an_environment(algorithm: Any, tmp_path: Path) -> None:
    """Every estimator, in every result, and twice the same of the same policy."""
    folder = write(tmp_path / "data", noted([20, 30, 25, 9]), CARTPOLE)
    settings = {
        **on(folder),
        "evaluation_interval": 1,
        "evaluation_config": {"explore": True},
        "off_policy_estimation_methods": EVERY,
    }
    with algorithm(settings) as algo:
        result = algo.train()
        again = algo.evaluate()
    found = estimated(result)
    assert {name.split("/")[2] for name in found} == {*EVERY}
    for name in ("is", "wis", "dm", "dr", "qreg_dr"):
        of_one = {n.rpartition("/")[2]: v for n, v in found.items() if f"/{name}/" in n}
        assert {"v_target", "v_behavior", "v_gain", "v_delta", "low", "high"} <= {*of_one}
        assert math.isfinite(of_one["v_target"])
        delta = of_one["v_target"] - of_one["v_behavior"]
        assert of_one["v_delta"] == pytest.approx(delta)
    assert "evaluation/ope/is/effective_sample_size" in found
    assert {n for n in found if "features" in n} == {
        f"evaluation/ope/features/feature_{number}" for number in range(4)
    }
    own = {f"evaluation/{name}": value for name, value in again.items() if "ope/" in name}
    assert all(own[n] == v or (own[n] != own[n] and v != v) for n, v in found.items())
    assert "evaluation/episode_return_mean" not in result
    shown = {re.sub(r"(ope)/[^/]+/(feature_)?\d*", r"\1/<name>/\2", name) for name in found}
    declared = {metric.name.replace("<number>", "") for metric in ESTIMATES}
    assert shown == declared


def test_beside_playing(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", noted([20, 30]), CARTPOLE)
    settings = {
        **on(folder),
        "env": "CartPole-v1",
        "evaluation_interval": 1,
        "evaluation_duration": 2,
        "off_policy_estimation_methods": {"dm": {"type": "dm", **QUICK}},
    }
    with BC(settings) as algo:
        result = algo.train()
    assert result["evaluation/num_episodes"] == 2
    assert math.isfinite(result["evaluation/ope/dm/v_target"])


def test_other_data_are_evaluated_on(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", noted([20, 30]), CARTPOLE)
    held_out = write(tmp_path / "held-out", noted([5, 6, 7]), CARTPOLE)
    settings = {
        **on(folder),
        "evaluation_interval": 1,
        "evaluation_config": {"input_": held_out, "explore": True},
        "off_policy_estimation_methods": {"is": {"type": "is"}},
    }
    with BC(settings) as algo:
        algo.train()
        recorded = algo.evaluation.player._estimates._recorded
    assert recorded.lengths.tolist() == [5, 6, 7]


def test_single_steps_are_episodes(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", noted([20, 30]), CARTPOLE)
    settings = {
        **on(folder),
        "evaluation_interval": 1,
        "evaluation_config": {"explore": True},
        "off_policy_estimation_methods": {"is": {"type": "is"}, "dm": {"type": "dm", **QUICK}},
        "ope_split_batch_by_episode": False,
    }
    with BC(settings) as algo:
        result = algo.train()
        recorded = algo.evaluation.player._estimates._recorded
    assert len(recorded) == 50
    assert recorded.terminated.all()
    mean = recorded.rewards.mean()
    assert result["evaluation/ope/is/v_behavior"] == pytest.approx(mean)


def test_a_resumed_run_estimates_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", noted([20, 30, 25]), CARTPOLE)
    settings = {
        **on(folder),
        "evaluation_interval": 1,
        "evaluation_config": {"explore": True},
        "off_policy_estimation_methods": {"dr": {"type": "dr", "k": 2, **QUICK}},
    }
    with CQL(settings) as algo:
        algo.train()
        saved = algo.save(str(tmp_path / "saved"))
        expected = estimated(algo.train())
    with Algorithm.from_checkpoint(saved, trust=[folder]) as again:
        assert estimated(again.train()) == expected


@dataclass
class Constant(OffPolicyEstimator):
    """An estimator of one's own, with a keyword."""

    says: float = 1.0

    def estimate(
        self, recorded: RecordedEpisodes, target: TargetPolicy, rng: np.random.Generator
    ) -> Estimate:
        return Estimate(self.says, NO_INTERVAL, {"episodes": len(recorded)})


def test_a_class_of_ones_own(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", noted([20, 30]), CARTPOLE)
    settings = {
        **on(folder),
        "evaluation_interval": 1,
        "off_policy_estimation_methods": {
            "mine": {"type": Constant, "says": 7.0},
            "by_name": {"type": f"{__name__}:Constant"},
        },
    }
    with BC(settings) as algo:
        result = algo.train()
        saved = algo.save(str(tmp_path / "saved"))
    assert result["evaluation/ope/mine/v_target"] == 7
    assert result["evaluation/ope/by_name/v_target"] == 1
    assert result["evaluation/ope/mine/episodes"] == 2
    with pytest.raises(CheckpointError, match=r"off_policy_estimation_methods.*Constant"):
        Algorithm.from_checkpoint(saved, trust=[folder])
    trust = [folder, f"{__name__}:Constant"]
    with Algorithm.from_checkpoint(saved, trust=trust) as again:
        assert again.train()["evaluation/ope/mine/v_target"] == 7


def test_greedy_continuous_actions_have_no_importance_weights(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", noted([20, 30], PENDULUM), PENDULUM)
    methods = {"is": {"type": "is"}}
    refused = pytest.raises(ConfigError, match=r"a greedy policy has not .*'explore': True")
    with IQL({**on(folder), "off_policy_estimation_methods": methods}) as algo, refused:
        algo.evaluate()
    methods = {"dm": {"type": "dm", **QUICK}}
    with IQL({**on(folder), "off_policy_estimation_methods": methods}) as algo:
        assert math.isfinite(algo.evaluate()["ope/dm/v_target"])
    explore = {"explore": True}
    settings = {"off_policy_estimation_methods": EVERY, "evaluation_config": explore}
    with IQL({**on(folder), **settings}) as algo:
        assert math.isfinite(algo.evaluate()["ope/dr/v_target"])


def test_probabilities_that_nobody_noted_are_estimated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write(tmp_path / "data", random_episodes(CARTPOLE, [20, 30]), CARTPOLE)
    settings = {"evaluation_config": {"explore": True}}
    methods = {"off_policy_estimation_methods": {"is": {"type": "is"}}}
    caplog.set_level(logging.WARNING, "trainables")
    with DQN({**on(folder), **settings, **methods}) as algo:
        algo.evaluate()
    assert "nobody noted the probabilities of 50 of 50 steps" in caplog.text
    assert "rests on" in caplog.text  # a greedy policy beside random actions


def test_what_is_no_estimator_or_has_no_effect_is_refused(golden: Golden) -> None:
    given: dict[str, tuple[type[AlgorithmConfig], dict[str, Any]]] = {
        repr(settings): (BCConfig, {"input_": "data", **settings})
        for settings in (
            *({METHODS: {name: how}} for name, how in WRONG_METHODS),
            {"input_evaluation": ["is", 3]},
            {"input_evaluation": ["is", "x"]},
            {"evaluation_config": {"lr": 3}},
            {METHODS: {"dm": {"type": "dm"}}, "evaluation_duration": 3},
            {METHODS: {"dm": {"type": "dm"}}, "evaluation_num_env_runners": 3},
        )
    }
    env = {"env": "CartPole-v1"}
    given["DQN: whole episodes"] = DQNConfig, {**env, "ope_split_batch_by_episode": False}
    given["DQN: input_"] = DQNConfig, {**env, "evaluation_config": {"input_": "a.json"}}
    given["DQN: without data"] = DQNConfig, {**env, METHODS: {"is": {"type": "is"}}}
    given["PPO"] = PPOConfig, {"evaluation_config": {"input_": "a.json"}}

    def refused(kind: type[AlgorithmConfig], settings: dict[str, Any]) -> None:
        kind.from_dict(settings).validate()

    golden("offline_estimates/refused", refusals(refused, given))


def test_older_names() -> None:
    config = BCConfig().offline_data(input_evaluation=["is", "wis", "simulation"])
    methods = {"is": {"type": "is"}, "wis": {"type": "wis"}}
    assert config.off_policy_estimation_methods == methods
    assert BCConfig.from_dict({"input_evaluation": None}).off_policy_estimation_methods == {}
    assert BCConfig.from_dict({"input_evaluation": -1}).off_policy_estimation_methods == {}
    with pytest.raises(ConfigError, match="given twice"):
        BCConfig.from_dict({"input_evaluation": ["is"], "off_policy_estimation_methods": EVERY})


def test_keywords_may_be_searched() -> None:
    domain = tune.loguniform(1e-4, 1e-2)
    methods = {"dm": {"type": tune.choice(["dm", "dr"]), "lr": domain}}
    config = BCConfig(off_policy_estimation_methods=methods)
    assert config.off_policy_estimation_methods["dm"]["lr"] is domain
    with pytest.raises(ConfigError, match="unknown keyword 'rate'"):
        BCConfig(off_policy_estimation_methods={"dm": {"type": "dm", "rate": domain}})


def test_what_strangers_may_ask_for(tmp_path: Path) -> None:
    """Estimators of ours with numbers; the model of their Q-functions may be code."""
    data = write(tmp_path / "data", noted([20, 30]), CARTPOLE)
    for number, model in enumerate(({"fcnet_hiddens": [8]}, {"custom_model": "torch.nn:Linear"})):
        methods = {"dm": {"type": "dm", "num_updates": 1, "q_model_config": model}}
        with BC({**on(data), "off_policy_estimation_methods": methods}) as algo:
            saved = algo.save(str(tmp_path / f"saved{number}"))
        if number == 0:
            Algorithm.from_checkpoint(saved, trust=[data]).stop()
            continue
        with pytest.raises(CheckpointError, match=r"custom_model = 'torch.nn:Linear'"):
            Algorithm.from_checkpoint(saved, trust=[data])


OBSERVATIONS = {
    "image": gym.spaces.Box(0, 255, (36, 36, 1), np.uint8),
    "nested": gym.spaces.Dict(
        {"a": gym.spaces.Box(-1, 1, (2,)), "b": gym.spaces.Discrete(3), "c": gym.spaces.Discrete(2)}
    ),
}
ACTIONS = {
    "discrete": gym.spaces.Discrete(3, start=2),
    "several": gym.spaces.MultiDiscrete([2, 3]),
    "mixed": gym.spaces.Dict({"turn": gym.spaces.Box(-1, 1, (2,)), "go": gym.spaces.Discrete(2)}),
}


@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        pytest.param(obs, actions, marks=pytest.mark.full if obs == "image" else ())
        for obs in ("nested", "image")
        for actions in ACTIONS
    ],
)
def test_every_space(observations: str, actions: str, tmp_path: Path) -> None:
    spaces = DataSpaces(OBSERVATIONS[observations], ACTIONS[actions])
    folder = write(tmp_path / "data", noted([12, 8, 10], spaces), spaces)
    methods = {name: EVERY[name] for name in ("is", "wis", "dm", "dr", "qreg_dr")}
    settings = {
        **on(folder),
        "evaluation_config": {"explore": True},
        "off_policy_estimation_methods": methods,
    }
    with BC(settings) as algo:
        found = algo.evaluate()
    assert all(math.isfinite(found[f"ope/{name}/v_target"]) for name in methods)


MEMORIES = [{"use_lstm": True}, {"use_attention": True}]


@pytest.mark.parametrize("model", rarely(MEMORIES, MEMORIES[:1]))
def test_memories_have_importance_weights_and_no_q(model: dict[str, Any], tmp_path: Path) -> None:
    """What a memory says of a row depends on the rows before: as it does where it acts."""
    folder = write(tmp_path / "data", noted([12, 8, 10]), CARTPOLE)
    settings = {
        **on(folder, model={"fcnet_hiddens": [8], "max_seq_len": 5, **model}),
        "evaluation_config": {"explore": True},
    }
    with BC({**settings, "off_policy_estimation_methods": {"is": {"type": "is"}}}) as algo:
        estimates = algo.evaluation.player._estimates
        assert math.isfinite(algo.evaluate()["ope/is/v_target"])
        policy, recorded = algo.get_policy(), estimates._recorded
        found = TargetPolicy(policy, True, recorded.rows).inputs(recorded.ids[12:20])
        state = policy.initial_state(1)
        for row, expected in zip(recorded.ids[12:20], found, strict=True):
            acted = policy.act(recorded.rows.observations(np.array([row])), False, None, state)
            state = acted.state
            torch.testing.assert_close(acted.inputs[0], expected)
    refused = pytest.raises(ConfigError, match="a Q-function is of single observations")
    with BC({**settings, "off_policy_estimation_methods": {"dm": {"type": "dm"}}}) as algo, refused:
        algo.evaluate()


def test_frame_stacks(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", noted([12, 8, 10]), CARTPOLE)
    methods = {"dr": EVERY["dr"], "is": EVERY["is"]}
    with DQN({**on(folder), "frame_stack": 2, "off_policy_estimation_methods": methods}) as algo:
        assert math.isfinite(algo.evaluate()["ope/dr/v_target"])


def test_the_policy_that_recorded_is_worth_what_it_earned(tmp_path: Path) -> None:
    """Actions that were clipped have the weight 1, too: as training and as `record` note them."""
    config = PPOConfig().environment("Pendulum-v1").env_runners(num_envs_per_env_runner=2)
    config.training(lr=0.0, train_batch_size_per_learner=400, minibatch_size=400, num_epochs=1)
    ppo = config.offline_data(output=str(tmp_path / "trained")).debugging(seed=1).build()
    ppo.train()
    policy = ppo.policies["default_policy"]
    behaves = Behaves(num_episodes=2, seed=3, explore=True)
    record_episodes(policy, "Pendulum-v1", {}, tmp_path / "recorded", behaves, name="a")
    ppo.stop()
    for name in ("trained", "recorded"):
        source = find_source(str(tmp_path / name), {}, actions_normalized=False, other_keys=True)
        spaces = DataSpaces(policy.observation_space, policy.action_space)
        recorded = episodes_of(load_data_set(source, spaces), policy, 0.9)
        target = TargetPolicy(policy, True, recorded.rows)
        actions = target.recorded_actions(recorded.ids)
        assert 0.1 < float((actions.abs() > 0.999).float().mean()) < 0.9
        assert target.logp(recorded) == pytest.approx(recorded.logp, abs=1e-3)
        assert float(target.draws(recorded.ids, 3, torch.Generator()).abs().max()) <= 1.0


def test_what_clipping_changes_has_no_known_probability(tmp_path: Path) -> None:
    spaces = DataSpaces(CARTPOLE.observation, gym.spaces.Box(-1, 1, (1,), np.float32))
    wide = DataSpaces(CARTPOLE.observation, gym.spaces.Box(-9, 9, (1,), np.float32))
    (episode,) = random_episodes(wide, [40])
    folder = write(tmp_path / "data", [replace(episode, logp=np.zeros(40, np.float32))], wide)
    source = find_source(str(folder), {"clip_actions": True}, actions_normalized=False)
    logp = load_data_set(source, spaces).columns["logp"].take(np.arange(40))
    changed = np.abs(episode.actions[:, 0]) > 1
    assert 0 < changed.sum() < 40 and np.isnan(logp).tolist() == changed.tolist()
