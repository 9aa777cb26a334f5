"""BC and MARWIL as algorithms: what is trained, what is kept, and what is refused."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from offline_fakes import CARTPOLE, balancing, played_episodes, random_episodes
from recorded_data import recorded, write
from refusals import Golden, refusals
from thread_ranks import on_ranks
from tiers import covering

from trainables import BC, MARWIL, Algorithm, BCConfig, MARWILConfig
from trainables.core.config.config import DEFAULT_MODULE_ID as MODULE
from trainables.core.errors import ConfigError
from trainables.core.learning.drawn import Drawn
from trainables.core.learning.ranks import ALONE, Ranks
from trainables.core.policy.policy import Policy
from trainables.marwil import Imitation, marwil_update
from trainables.runtime.learners.actor import shares
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.offline.episode import DataSpaces

TINY: dict[str, Any] = {
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "train_batch_size_per_learner": 16,
    "dataset_num_iters_per_learner": 5,
    "lr": 1e-3,
    "moving_average_sqd_adv_norm_update_rate": 0.1,
}
LSTM = {"use_lstm": True, "lstm_cell_size": 8, "fcnet_hiddens": [8], "max_seq_len": 5}
LOSS = f"learner/{MODULE}/policy_loss"


def settings_of(env: str = "CartPole-v1", **more: Any) -> dict[str, Any]:
    given = {**TINY, "input_": recorded(env), **more}
    if not given.get("beta", 1.0):
        del given["moving_average_sqd_adv_norm_update_rate"]
    return given


def marwil(**more: Any) -> MARWIL:
    return MARWIL(settings_of(**more))


def weights_of(algo: Algorithm) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = algo.get_weights()[MODULE]
    return weights


# ------------------------------------------------------------------ the value function


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [8]}, LSTM])
def test_beta_0_trains_no_value_function(model: dict[str, Any]) -> None:
    """Nor looks at one: it is in no group of the optimiser, and decay does not move it either."""
    decays = {"optimizer": {"weight_decay": 0.5}}
    with marwil(beta=0.0, model=model, **decays) as algo:
        before, module = weights_of(algo), algo.get_policy().module
        result = algo.train()
        after = weights_of(algo)
        [group] = algo.learners[MODULE].groups.values()
        trained = {id(p) for p in group.parameters}
        drawn = algo.experience.draw(MODULE, 1, 1.0)
        if not algo.get_policy().is_recurrent:
            prepared = algo.prepare(algo.get_policy(), drawn.columns)
            assert not any(name.startswith("next_features") for name in prepared)
    for name, parameter in module.named_parameters():
        of_values = name.startswith("value_")
        assert np.array_equal(before[name], after[name]) == of_values, name
        assert (id(parameter) in trained) != of_values
    names = {name.rpartition("/")[2] for name in result if name.startswith("learner/")}
    assert names == {"total_loss", "policy_loss", "grad_norm", "curr_lr"}


def test_with_beta_all_are_trained_and_reported() -> None:
    with marwil() as algo:
        before = weights_of(algo)
        result = algo.train()
        assert all(not np.array_equal(v, before[n]) for n, v in weights_of(algo).items())
    names = {name.rpartition("/")[2] for name in result if name.startswith("learner/")}
    assert names == {
        "total_loss",
        "policy_loss",
        "vf_loss",
        "mean_weight",
        "mean_ret",
        "vf_explained_var",
        "moving_average_sqd_adv_norm",
        "policy_grad_norm",
        "vf_grad_norm",
        "curr_lr",
    }
    assert all(np.isfinite(v) for v in result.values() if isinstance(v, float))


def test_shared_layers_are_trained_with_beta_0() -> None:
    model = {"fcnet_hiddens": [8], "vf_share_layers": True}
    with marwil(beta=0.0, model=model) as algo:
        before = weights_of(algo)
        algo.train()
        for name, after in weights_of(algo).items():
            assert np.array_equal(after, before[name]) == name.startswith("value_head"), name


# ------------------------------------------------------------------ counts


@pytest.mark.parametrize(("given", "updates"), [(7, 7), (None, 1)])
def test_a_training_step_has_as_many_updates_as_are_asked_for(
    given: int | None, updates: int
) -> None:
    with marwil(dataset_num_iters_per_learner=given) as algo:
        result = algo.train()
        num_steps = algo.experience.num_steps
    assert result["num_updates_lifetime"] == updates
    assert result["num_env_steps_trained_lifetime"] == 16 * updates
    assert result["data/num_steps"] == num_steps
    assert result["data/num_epochs"] == pytest.approx(16 * updates / num_steps)
    assert "replay/num_steps" not in result and "episode_return_mean" not in result


# ------------------------------------------------------------------ state


@pytest.mark.parametrize("more", [{}, {"model": LSTM}, {"beta": 0.0}], ids=["", "lstm", "bc"])
def test_a_resumed_run_goes_on_to_the_bit(more: dict[str, Any], tmp_path: Path) -> None:
    with marwil(**more) as whole:
        whole.train()
        saved = whole.save(str(tmp_path / "c"))
        norms = dict(whole.sqd_adv_norms)
        with Algorithm.from_checkpoint(saved, trust=[recorded("CartPole-v1")]) as resumed:
            assert resumed.sqd_adv_norms == norms
            for algo in (whole, resumed):
                algo.train()
            assert resumed.sqd_adv_norms == whole.sqd_adv_norms
            for name, value in weights_of(whole).items():
                assert np.array_equal(value, weights_of(resumed)[name])
    assert (norms[MODULE] == 100.0) == (more.get("beta") == 0.0)


def test_beta_may_be_mutated_and_changes_the_loss(tmp_path: Path) -> None:
    """From and to 0, too, where the optimiser has other groups; the moving average stays."""
    with marwil() as donor:
        donor.train()
        saved = donor.save(str(tmp_path / "c"))
        norm = donor.sqd_adv_norms[MODULE]
        losses = {}
        for beta in (1.0, 2.0, 0.0):
            donor.reset_config(settings_of(beta=beta))
            donor.restore(saved)
            assert donor.sqd_adv_norms[MODULE] == norm
            losses[beta] = donor.train()[LOSS]
        assert len(set(losses.values())) == 3
        cloned = donor.save(str(tmp_path / "bc"))  # with beta 0
        donor.reset_config(settings_of(beta=0.5))
        donor.restore(cloned)
        assert "vf_loss" in str(donor.train().keys())


# ------------------------------------------------------------------ several learners


def worker_of(algo: Any, ranks: Ranks) -> LearnerWorker:
    policy = Policy(**algo.get_policy().recipe)
    policy.set_state(algo.get_policy().get_state())
    learner = type(algo).make_learner(algo.config, policy.module)
    return LearnerWorker(algo.config, {MODULE: policy}, {MODULE: learner}, {}, 7, ranks)


CASES: dict[str, dict[str, Any]] = {
    "marwil": {},
    "bc": {"beta": 0.0},
    "memory": {"model": LSTM},
    "single_rows": {"model": LSTM | {"max_seq_len": 1}, "train_batch_size_per_learner": 2},
    "continuous": {"env": "Pendulum-v1", "bc_logstd_coeff": 0.1, "grad_clip": 0.5},
}


@pytest.mark.parametrize("name", CASES)
def test_several_learners_learn_what_one_does(name: str) -> None:
    with marwil(**CASES[name]) as algo:
        drawn: Drawn = algo.experience.draw(MODULE, 6, 1.0)
        drawn = drawn.with_columns(algo.prepare(algo.get_policy(), drawn.columns))

        def learn(ranks: Ranks) -> tuple[list[torch.Tensor], Imitation]:
            worker = worker_of(algo, ranks)
            own = pickle.loads(pickle.dumps(shares(drawn, ranks.size)[ranks.rank]))
            found = marwil_update(worker, own, MODULE, MARWIL, 1e-3, 100.0)
            vectors = [flat.vector.detach() for flat in worker.learners[MODULE].groups.values()]
            return vectors, found

        alone, expected = learn(ALONE)
        for vectors, found in on_ranks(2, learn):
            for one, other in zip(vectors, alone, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
            assert found.names == expected.names
            torch.testing.assert_close(found.scalars, expected.scalars, rtol=1e-4, atol=1e-5)
            assert found.sqd_adv_norm == pytest.approx(expected.sqd_adv_norm, rel=1e-6)


# ------------------------------------------------------------------ spaces and networks

MASKED = gym.spaces.Dict(
    {"observations": gym.spaces.Box(-1, 1, (3,)), "action_mask": gym.spaces.MultiBinary(4)}
)
NESTED = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,)), "b": gym.spaces.Discrete(3)})
PIXELS = gym.spaces.Box(0, 255, (12, 12, 1), np.uint8)
BOX = gym.spaces.Box(-2, 2, (2,))
SPACES: dict[str, tuple[DataSpaces, dict[str, Any]]] = {
    "nested": (DataSpaces(NESTED, gym.spaces.Discrete(3)), {}),
    "pixels": (
        DataSpaces(PIXELS, gym.spaces.Discrete(2)),
        {"conv_filters": [[4, [3, 3], 2]], "fcnet_hiddens": [8]},
    ),
    "multi_discrete": (
        DataSpaces(CARTPOLE.observation, gym.spaces.MultiDiscrete([2, 3])),
        {},
    ),
    "gaussian": (DataSpaces(CARTPOLE.observation, BOX), {"free_log_std": True}),
    "squashed": (DataSpaces(CARTPOLE.observation, BOX), {"squash_actions": True}),
    "dict_actions": (
        DataSpaces(CARTPOLE.observation, gym.spaces.Dict({"d": gym.spaces.Discrete(2), "c": BOX})),
        {},
    ),
    "attention": (CARTPOLE, {"use_attention": True, "attention_dim": 8, "max_seq_len": 4}),
    "gru": (CARTPOLE, {"use_gru": True, "lstm_cell_size": 8, "max_seq_len": 4}),
}


@pytest.mark.parametrize(("algorithm", "name"), covering([BC, MARWIL], list(SPACES), strength=1))
def test_all_kinds_of_data_are_learned_from(algorithm: Any, name: str, tmp_path: Path) -> None:
    spaces, model = SPACES[name]
    folder = write(tmp_path / "data", random_episodes(spaces, [12, 9, 14]), spaces)
    settings = {**TINY, "model": {"fcnet_hiddens": [8], **model}, "lr": 1e-2}
    if algorithm is BC:
        del settings["moving_average_sqd_adv_norm_update_rate"]
    with algorithm({**settings, "input_": folder}) as algo:
        first = algo.train()[LOSS]
        for _ in range(8):
            last = algo.train()[LOSS]
        policy = algo.get_policy()
        state = policy.get_initial_state() if policy.is_recurrent else None
        action = policy.compute_single_action(spaces.observation.sample(), state)
        assert spaces.action.contains(action[0] if state is not None else action)
    if algorithm is BC:
        assert last < first


def test_masked_actions_have_no_share(tmp_path: Path) -> None:
    spaces = DataSpaces(MASKED, gym.spaces.Discrete(4))
    episodes = random_episodes(spaces, [20, 30])
    for episode in episodes:  # what was done was allowed
        episode.obs["action_mask"][:] = 0
        episode.obs["action_mask"][:, 3] = 1
        episode.obs["action_mask"][np.arange(len(episode)), episode.actions] = 1
    folder = write(tmp_path / "data", episodes, spaces)
    with BC({"seed": 1, "input_": folder, "dataset_num_iters_per_learner": 60, "lr": 1e-2}) as algo:
        algo.train()
        mask = {"observations": np.zeros(3, np.float32), "action_mask": np.array([0, 1, 0, 1])}
        found = {int(algo.compute_single_action(mask, explore=True)) for _ in range(30)}
    assert found <= {1, 3}


def test_a_deterministic_expert_does_not_blow_up(tmp_path: Path) -> None:
    spaces = DataSpaces(CARTPOLE.observation, BOX)
    episodes = random_episodes(spaces, [60, 60])
    for episode in episodes:
        episode.actions[:] = np.clip(episode.obs[:-1, 1:2] / 1e38, -0.5, 0.5) + 0.25
    folder = write(tmp_path / "data", episodes, spaces)
    for model in ({"free_log_std": True}, {"squash_actions": True}):
        settings = {**TINY, "model": {"fcnet_hiddens": [8], **model}, "lr": 3e-2}
        del settings["moving_average_sqd_adv_norm_update_rate"]
        settings["dataset_num_iters_per_learner"] = 100
        with BC({**settings, "input_": folder}) as algo:
            result = algo.train()
            assert np.isfinite(result[LOSS])


# ------------------------------------------------------------------ what is refused


def test_what_has_no_effect_is_refused(golden: Golden) -> None:
    cases = [
        {},
        {"input_": {"sampler": 0.5, "data": 0.5}},
        {"replay_buffer_config": {"capacity": 10}},
        {"n_step": 3},
        {"tau": 0.5},
        {"training_intensity": 4.0},
        {"num_env_runners": 2, "input_": "x"},
        {"beta": 0.0, "vf_coeff": 0.5, "input_": "x"},
        {"beta": -1.0},
    ]
    golden(
        "marwil/what_has_no_effect_is_refused",
        refusals(lambda given: MARWILConfig(**given).validate(), cases),
    )


def test_a_coefficient_of_log_sigma_needs_one() -> None:
    with pytest.raises(ConfigError, match=r"bc_logstd_coeff = .* has no effect on actions of D"):
        marwil(bc_logstd_coeff=0.1)
    marwil(env="Pendulum-v1", bc_logstd_coeff=0.1).stop()


def test_bc_with_beta_is_marwil_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert (BCConfig().beta, MARWILConfig().beta) == (0.0, 1.0)
    weights = []
    for algorithm in (BC, MARWIL):
        caplog.set_level(logging.WARNING, "trainables")
        with algorithm(settings_of(beta=0.75)) as algo:
            algo.train()
            weights.append(weights_of(algo))
    assert caplog.text.count("BC with beta = 0.75 is MARWIL") == 1
    for name, value in weights[0].items():
        assert np.array_equal(value, weights[1][name])


def test_bc_plays_near_the_expert(tmp_path: Path) -> None:
    """20 episodes of one who balances the pole, of which no greedy step is random."""
    episodes = played_episodes(8, 0, balancing)
    expert = float(np.mean([len(episode) for episode in episodes]))
    folder = write(tmp_path / "data", episodes, CARTPOLE)
    settings = {
        "input_": folder,
        "env": "CartPole-v1",
        "seed": 1,
        "lr": 3e-3,
        "model": {"fcnet_hiddens": [32]},
        "train_batch_size_per_learner": 256,
        "dataset_num_iters_per_learner": 300,
        "evaluation_interval": 1,
        "evaluation_duration": 5,
    }
    with BC(settings) as algo:
        result = algo.train()
    assert result["evaluation/episode_return_mean"] >= 0.9 * expert > 100
