"""QMIX and VDN: the loss against a slow loop, targets, checkpoints, refusals, and learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import Golden, refusals
from telling_agents import Masked
from torch.nn.functional import huber_loss, mse_loss

from experiments.commands.evaluation.evaluate import evaluate_folder
from trainables import QMIX, Algorithm, DQNConfig, Policy, QMIXConfig
from trainables.dqn import DQNOptions
from trainables.qmix import qmix_loss

TINY: dict[str, Any] = {
    "env": "two_step_game",
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "num_envs_per_env_runner": 3,
    "num_steps_sampled_before_learning_starts": 50,
    "train_batch_size_per_learner": 8,
    "min_sample_timesteps_per_iteration": 100,
    "training_intensity": 2.5,
    "target_network_update_freq": 7,
    "n_step": 3,
    "lr": 1e-2,
    "replay_buffer_config": {"type": "PrioritizedReplayBuffer", "capacity": 300},
    "store_buffer_in_checkpoints": True,
}
GRU: dict[str, Any] = {
    "model": {"use_gru": True, "lstm_cell_size": 4, "max_seq_len": 2, "lstm_use_prev_action": True},
    "replay_buffer_config": {"type": "ReplayBuffer", "capacity": 300},
}


def tiny(**more: Any) -> QMIX:
    return QMIX(TINY | more)


@pytest.fixture(scope="module", params=["qmix", "vdn"])
def copies(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """An online and a target network that differ, as they do between two moves of the target."""
    with tiny(mixer=request.param) as algo:
        algo.train()
        policy = algo.get_policy()
        target = algo.learners["default_policy"].targets["q"].network
        with torch.no_grad():
            for parameter in target.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        return policy.module, target


@pytest.mark.parametrize("double_q", [True, False])
@pytest.mark.parametrize("kind", ["huber", "mse"])
def test_loss_is_that_of_a_slow_loop(copies: tuple[Any, Any], double_q: bool, kind: str) -> None:
    online, target = copies
    count, width = 6, 2 * 3 + 3  # what two agents see, and the state
    generator = torch.Generator().manual_seed(0)
    batch = {
        "features": torch.randn(count, width, generator=generator),
        "next_features": torch.randn(count, width, generator=generator),
        "actions": torch.randint(2, (count, 2), generator=generator),
        "rewards": 5 * torch.randn(count, generator=generator),
        "discounts": torch.tensor([0.9, 0.9, 0.0, 0.9, 0.0, 0.9]),
        "weights": torch.rand(count, generator=generator),
    }
    loss, found = qmix_loss(online, batch, target, DQNOptions(double_q, kind))
    total = 0.0
    for row in range(count):
        features, after = batch["features"][row], batch["next_features"][row]
        chosen, following = [], []
        for agent in range(2):
            who = torch.eye(2)[agent]
            own, new = (torch.cat([x[3 * agent : 3 * agent + 3], who]) for x in (features, after))
            chosen.append(online.agents.q_values(own)[batch["actions"][row, agent]])
            chooser = online if double_q else target
            best = int(chooser.agents.q_values(new).argmax())
            following.append(target.agents.q_values(new)[best])
        q_total = online.mixer(torch.stack(chosen)[None], features[None, 6:])[0]
        next_total = target.mixer(torch.stack(following)[None], after[None, 6:])[0]
        goal = (batch["rewards"][row] + batch["discounts"][row] * next_total).detach()
        loss_fn = huber_loss if kind == "huber" else mse_loss
        total = total + batch["weights"][row] * loss_fn(q_total, goal) / count
        torch.testing.assert_close(found["priorities"][row], (q_total - goal).abs().detach())
    torch.testing.assert_close(loss, total)


def test_agents_and_mixer_learn_and_so_do_their_targets() -> None:
    with tiny() as algo:
        target = algo.learners["default_policy"].targets["q"].network
        before = {name: part.clone() for name, part in target.state_dict().items()}
        weights = algo.get_weights()["default_policy"]
        algo.train()
        after = algo.get_weights()["default_policy"]
    for part in ("agents.", "mixer.first_weights", "mixer.last_bias"):
        names = [name for name in before if name.startswith(part)]
        assert any(not torch.equal(before[n], target.state_dict()[n]) for n in names), part
        assert any(not np.array_equal(weights[n], after[n]) for n in names), part


@pytest.mark.parametrize("more", [{}, GRU])
def test_a_restored_run_goes_on_to_the_bit(more: dict[str, Any], tmp_path: Path) -> None:
    with tiny(env="multi_agent_grid_world", **more) as whole:
        whole.train()
        whole.save(str(tmp_path / "c"))
        with Algorithm.from_checkpoint(tmp_path / "c") as restored:
            for algo in (whole, restored):
                for _ in range(15):
                    algo.training_step()
            mine, theirs = (a.get_weights()["default_policy"] for a in (whole, restored))
            for name in mine:
                assert np.array_equal(mine[name], theirs[name]), name


def test_one_agent_of_vdn_is_dqn() -> None:
    """To the bit: the sum of one is itself."""
    settings = {**TINY, "env": "CartPole-v1"}
    with QMIX({**settings, "mixer": "vdn"}) as team, DQNConfig.from_dict(settings).build() as dqn:
        for algo in (team, dqn):
            algo.train()
            algo.train()
        mine, theirs = (algo.get_weights()["default_policy"] for algo in (team, dqn))
        for name in theirs:
            assert np.array_equal(mine[f"agents.{name}"], theirs[name]), name


def test_masks_are_kept_to() -> None:
    """The environment fails if an agent does what its mask forbids."""
    with tiny(env=Masked, env_config={"num_agents": 3}, epsilon=0.5) as algo:
        for _ in range(2):
            assert np.isfinite(algo.train()["learner/default_policy/qf_loss"])


def test_a_memory_remembers_for_each_agent() -> None:
    with tiny(**GRU) as algo:
        assert np.isfinite(algo.train()["learner/default_policy/qf_loss"])
        assert algo.get_policy().initial_state(5)["h"].shape == (5, 2, 4)


def test_a_saved_team_acts_without_the_state_and_is_evaluated(tmp_path: Path) -> None:
    with tiny(evaluation_duration=3) as algo:
        algo.train()
        expected = algo.evaluate()["episode_return_mean"]
        trained = algo.get_policy()
        algo.export_policy_checkpoint(str(tmp_path / "p"))
        algo.export_policy_model(str(tmp_path / "m"))  # compares with the policy
        obs = {"agents": np.eye(3, dtype=np.float32)[[0, 0]], "state": np.zeros((1, 3), np.float32)}
        actions = trained.compute_single_action(obs, explore=False)
        loaded = Policy.load(tmp_path / "p")
        other = {**obs, "state": np.ones((1, 3), np.float32)}
        assert np.array_equal(loaded.compute_single_action(other, explore=False), actions)
        assert np.shape(actions) == (2,)
    played = evaluate_folder(tmp_path / "p", episodes=3, seed=1)
    assert np.mean([each.outcome.total for each in played.episodes]) == expected


def test_what_does_not_go_with_a_team_is_refused(golden: Golden) -> None:
    cases = [
        {"num_atoms": 51},
        {"mixer": "vdn", "mixing_embed_dim": 8},
        {"mixer": "mlp"},
        {"policies": ["one", "two"]},
        {"exploration_config": {"type": "ParameterNoise"}},
        {"env": "Pendulum-v1"},
        {"env": "matrix_game", "env_config": {"payoffs": [[[1, 0, 2]], [[1, 0, 2]]]}},
    ]
    golden(
        "qmix/what_does_not_go_with_a_team_is_refused",
        refusals(lambda settings: tiny(**settings), cases),
    )


@pytest.mark.parametrize(("mixer", "best"), [("qmix", 8.0), ("vdn", 7.0)])
def test_the_two_step_game(mixer: str, best: float) -> None:
    """The paper's: a sum cannot say that 8 is to be had. Every action is drawn uniformly."""
    config = QMIXConfig().environment("two_step_game").training(mixer=mixer, epsilon=1.0)
    config.training(num_steps_sampled_before_learning_starts=200, training_intensity=8)
    config.training(target_network_update_freq=200, model={"fcnet_hiddens": [64]}, dueling=False)
    config.env_runners(num_envs_per_env_runner=8).evaluation(evaluation_duration=2)
    with config.debugging(seed=0).build() as algo:
        while algo.num_env_steps_sampled < 1200:
            assert algo.train()["exploration/epsilon"] == 1.0
        assert algo.evaluate()["episode_return_mean"] == best
