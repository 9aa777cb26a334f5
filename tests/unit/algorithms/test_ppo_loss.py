"""PPO's loss and advantages: signs, clips and what must not move a gradient."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from fakes import EndlessEnv
from torch import Tensor

from trainables import PPO, PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.data.batch import Batch, Rollout
from trainables.core.distributions.categorical import Categorical
from trainables.core.learning.advantages import advantage_scale, with_advantages
from trainables.core.learning.learner import Learner
from trainables.core.learning.minibatches import minibatches, normalized, valid_rows
from trainables.core.networks.modules import ActorCritic, ModuleOutput
from trainables.core.policy.policy import Policy
from trainables.on_policy import adapted_kl_coeff
from trainables.ppo import PPOCoefficients, ppo_loss
from trainables.runtime.envs.make import make_vector_env

PLAIN = PPOCoefficients(clip=0.2, entropy=0.0, kl=0.0, value=0.0, value_clip=None)


def loss_of(
    logits: Tensor, batch: Batch, values: Tensor | None = None, **changes: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    values = torch.zeros(len(logits)) if values is None else values
    batch = {"value_targets": torch.zeros(len(logits)), **batch}
    output = ModuleOutput(logits, values)
    return ppo_loss(output, batch, Categorical(logits.shape[1]), PLAIN._replace(**changes))


def test_surrogate_by_hand() -> None:
    """Probabilities (0.5, 0.5) -> (0.8, 0.2): ratios 1.6 and 0.4, clipped to 1.2 and 0.8."""
    logits = torch.log(torch.tensor([[0.8, 0.2]] * 4))
    batch = {
        "actions": torch.tensor([0, 1, 0, 1]),
        "logp": torch.full((4,), math.log(0.5)),
        "advantages": torch.tensor([1.0, 1.0, -1.0, -1.0]),
    }
    loss, metrics = loss_of(logits, batch)
    # min(1.6, 1.2) + min(0.4, 0.8) + min(-1.6, -1.2) + min(-0.4, -0.8)
    assert loss.item() == pytest.approx(-(1.2 + 0.4 - 1.6 - 0.8) / 4)
    assert metrics["clip_fraction"].item() == 1


def test_a_clipped_sample_gives_no_gradient() -> None:
    """Only where the clip is the minimum: gain with ratio above, loss with ratio below."""
    for action, advantage, moves in (
        (0, 1.0, False),
        (1, 1.0, True),
        (0, -1.0, True),
        (1, -1.0, False),
    ):
        logits = torch.log(torch.tensor([[0.8, 0.2]])).requires_grad_()
        batch = {
            "actions": torch.tensor([action]),
            "logp": torch.tensor([math.log(0.5)]),
            "advantages": torch.tensor([advantage]),
        }
        loss_of(logits, batch)[0].backward()
        assert logits.grad is not None
        assert bool(logits.grad.abs().sum() > 0) == moves


def test_entropy_bonus_raises_entropy() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0]]).requires_grad_()
    batch = {
        "actions": torch.tensor([0]),
        "logp": torch.log_softmax(logits.detach(), -1)[:, 0],
        "advantages": torch.zeros(1),
    }
    before = Categorical(3).entropy(logits).item()
    loss_of(logits, batch, entropy=0.1)[0].backward()
    assert logits.grad is not None
    assert Categorical(3).entropy(logits - 0.1 * logits.grad).item() > before


def test_a_better_action_becomes_more_likely() -> None:
    logits = torch.zeros(1, 2, requires_grad=True)
    batch = {
        "actions": torch.tensor([1]),
        "logp": torch.tensor([math.log(0.5)]),
        "advantages": torch.tensor([1.0]),
    }
    loss_of(logits, batch)[0].backward()
    assert logits.grad is not None
    assert logits.grad[0, 1] < 0 < logits.grad[0, 0]


def test_value_clip_bounds_the_squared_error_and_its_gradient() -> None:
    values = torch.tensor([1.0, 5.0], requires_grad=True)
    batch = {"actions": torch.zeros(2, dtype=torch.int64), "logp": torch.zeros(2)}
    batch |= {"advantages": torch.zeros(2), "value_targets": torch.zeros(2)}
    output = ModuleOutput(torch.zeros(2, 2), values)
    loss, _ = ppo_loss(output, batch, Categorical(2), PLAIN._replace(value=1.0, value_clip=10.0))
    assert loss.item() == pytest.approx((1 + 10) / 2)
    loss.backward()
    assert values.grad is not None
    assert values.grad.tolist() == [1.0, 0.0]


def test_kl_penalty_is_the_divergence_from_the_sampling_policy() -> None:
    old, new = torch.log(torch.tensor([[0.5, 0.5]])), torch.log(torch.tensor([[0.9, 0.1]]))
    batch = {
        "actions": torch.tensor([0]),
        "logp": torch.tensor([math.log(0.5)]),
        "advantages": torch.zeros(1),
        "dist_inputs": old,
    }
    loss, metrics = loss_of(new, batch, kl=2.0)
    kl = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert metrics["mean_kl"].item() == pytest.approx(kl, rel=1e-5)
    assert loss.item() == pytest.approx(2 * kl, rel=1e-5)


def test_kl_coefficient_adapts() -> None:
    assert adapted_kl_coeff(0.2, 0.03, 0.01) == pytest.approx(0.3)
    assert adapted_kl_coeff(0.2, 0.004, 0.01) == pytest.approx(0.1)
    assert adapted_kl_coeff(0.2, 0.01, 0.01) == 0.2


def test_each_module_has_a_kl_coefficient_of_its_own() -> None:
    config = PPOConfig(env="CartPole-v1", use_kl_loss=True, kl_coeff=0.2, kl_target=0.01)
    with PPO(config) as algo:
        assert algo.get_learned_state() == {"kl_coeff": 0.2}  # of one module a number, as ever
        algo.policies["other"] = algo.get_policy()
        algo.kl_coeffs["other"] = 0.4
        results = {"default_policy": {"kl_after_update": 0.03}, "other": {"kl_after_update": 0.0}}
        assert [algo.coefficients(module_id).kl for module_id in results] == [0.2, 0.4]
        algo.kl_coeffs.adapt(results)
        assert algo.kl_coeffs == {"default_policy": pytest.approx(0.3), "other": 0.2}
        stored, expected = algo.get_learned_state(), dict(algo.kl_coeffs)
        algo.kl_coeffs.update(dict.fromkeys(algo.policies, 9.0))
        algo.set_learned_state(stored)
        assert algo.kl_coeffs == expected


def test_what_is_reported_is_the_coefficient_of_the_update() -> None:
    config = PPOConfig(env="CartPole-v1", use_kl_loss=True, kl_coeff=0.2, kl_target=1e-9)
    config.update_from_dict({"train_batch_size_per_learner": 64, "minibatch_size": 32, "seed": 0})
    with PPO(config) as algo:
        for expected in (0.2, 0.3):  # each time the policy has moved far beyond the target
            metrics = algo.training_step()
            name = "learner/default_policy/curr_kl_coeff"
            assert metrics[name] == pytest.approx(expected)


def test_advantages_are_normalised_per_minibatch() -> None:
    batch = {"advantages": torch.tensor([100.0, 101.0, 105.0, -3.0, 4.0, 4.0])}
    same = {"advantages": (batch["advantages"] - 7) * 3}
    for normalize in (None, {"advantages": 0.0}):
        one, two = (list(minibatches(b, 1, 3, None, normalize)) for b in (batch, same))
        pairs = zip(one, two, strict=True)
        close = [torch.allclose(a["advantages"], b["advantages"], atol=1e-5) for a, b in pairs]
        assert close == [bool(normalize)] * 2
    assert one[1]["advantages"].mean().item() == pytest.approx(0, abs=1e-6)
    assert one[1]["advantages"].std().item() == pytest.approx(1, abs=1e-5)
    assert batch["advantages"][0] == 100  # the batch itself is as it was


def test_a_deviation_below_the_least_one_is_not_blown_up() -> None:
    rows = torch.tensor([1.0, 2.0, 3.0])  # mean 2, deviation 1
    for least_std, expected in ((0.0, 1.0), (0.5, 1.0), (4.0, 0.25)):
        scaled = normalized(rows, rows, least_std)
        assert scaled.tolist() == pytest.approx([-expected, 0, expected])


# ---------------------------------------------------------------------- from rollouts


def make_policy(**settings: Any) -> Policy:
    box = gym.spaces.Box(-10, 10, (3,), np.float32)
    return Policy(box, gym.spaces.Discrete(2), seed=0, **settings)


def make_rollout(policy: Policy, length: int = 12, slots: int = 4, seed: int = 0) -> Rollout:
    random = np.random.default_rng(seed)
    obs = random.normal(size=(length + 1, slots, 3)).astype(np.float32)
    flat = obs[:-1].reshape(-1, 3)
    actions, _, inputs, _ = policy.act(flat, True, torch.Generator().manual_seed(seed))
    logp = policy.distribution.logp(inputs, actions)
    valid = random.random((length, slots)) < 0.8
    terminated = (random.random((length, slots)) < 0.1) & valid
    return Rollout(
        obs=obs,
        actions=actions.numpy().reshape(length, slots),
        rewards=random.normal(size=(length, slots)).astype(np.float32),
        terminated=terminated,
        truncated=np.zeros_like(terminated),
        logp=logp.numpy().reshape(length, slots),
        valid=valid,
        continues=valid & ~terminated,
        weights_version=np.zeros(slots, np.int64),
        follows=np.zeros(1, bool),
    )


CONFIG = PPOConfig().environment("unused")


@pytest.mark.parametrize(("max_seq_len", "minibatch_size"), [(1, 1), (20, 20)])
def test_minibatches_of_few_sequences(max_seq_len: int, minibatch_size: int) -> None:
    """21 rows of four slots: some sequences are a row that only resets."""
    memory = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": max_seq_len}
    settings = {
        "env": "CartPole-v1",
        "model": {"fcnet_hiddens": [4], **memory},
        "num_envs_per_env_runner": 4,
        "train_batch_size_per_learner": 84,
        "minibatch_size": minibatch_size,
        "num_epochs": 1,
        "seed": 0,
    }
    with PPO(config=settings) as algo:
        for _ in range(2):  # raises if a loss is not finite
            algo.train()
        rollout = algo.sample()["default_policy"]
        policy = algo.get_policy()
        batch = with_advantages(rollout, policy, algo.config)
        rows = advantage_scale(batch, algo.config).normalized(valid_rows(batch)["advantages"])
        assert len(rows) == rollout.valid.sum() < 84
    assert rows.mean().item() == pytest.approx(0, abs=1e-5)
    assert rows.std().item() == pytest.approx(1, abs=1e-4)


def test_the_ratio_of_the_first_epoch_is_one() -> None:
    policy = make_policy(observation_filter="MeanStdFilter")
    batch = with_advantages(make_rollout(policy), policy, CONFIG, dist_inputs=True)
    output = policy.module(batch["features"])
    _, metrics = ppo_loss(output, batch, policy.distribution, PLAIN)
    assert metrics["clip_fraction"].item() == 0
    assert metrics["mean_kl"].item() == pytest.approx(0, abs=1e-6)
    ratio = (policy.distribution.logp(output.dist_inputs, batch["actions"]) - batch["logp"]).exp()
    torch.testing.assert_close(ratio, torch.ones_like(ratio), atol=1e-5, rtol=0)


def gradient(policy: Policy, rollout: Rollout, config: PPOConfig) -> Tensor:
    batch = with_advantages(rollout, policy, config, dist_inputs=True)
    batch["advantages"] = normalized(batch["advantages"], batch["advantages"])
    coefficients = PLAIN._replace(value=0.5, entropy=0.01, kl=0.1)
    policy.module.zero_grad()
    loss, _ = ppo_loss(policy.module(batch["features"]), batch, policy.distribution, coefficients)
    loss.backward()
    grads = [p.grad for p in policy.module.parameters() if p.grad is not None]
    return torch.cat([g.flatten() for g in grads])


@pytest.mark.parametrize(
    "critic", [{}, {"use_gae": False}, {"use_gae": False, "use_critic": False}]
)
def test_garbage_in_invalid_rows_moves_no_gradient(critic: dict[str, bool]) -> None:
    """Rewards, actions and log-probs of rows that only reset; their observations are real."""
    policy, config = make_policy(), CONFIG.copy().training(**critic)
    rollout = make_rollout(policy)
    clean = gradient(policy, rollout, config)
    invalid = ~rollout.valid
    rollout.rewards[invalid] = 1e9
    rollout.logp[invalid] = -1e9
    rollout.actions[invalid] = 1 - rollout.actions[invalid]
    # A row before an invalid one has ended its episode, which make_rollout leaves to chance.
    rollout.continues[:-1] &= rollout.valid[1:]
    clean_again = gradient(policy, make_rollout(policy), config)
    torch.testing.assert_close(clean, clean_again)
    reference = make_rollout(policy)
    reference.continues[:-1] &= reference.valid[1:]
    torch.testing.assert_close(
        gradient(policy, rollout, config), gradient(policy, reference, config)
    )


def test_use_gae_false_is_lambda_one() -> None:
    policy = make_policy()
    rollout = make_rollout(policy)
    plain = with_advantages(rollout, policy, CONFIG.copy().training(use_gae=False, lambda_=0.3))
    one = with_advantages(rollout, policy, CONFIG.copy().training(lambda_=1.0))
    torch.testing.assert_close(plain["advantages"], one["advantages"])


def test_padding_changes_no_advantage() -> None:
    """Env runners whose fragments differ in length: the shorter one is padded."""
    policy = make_policy()
    long, short = make_rollout(policy, 12, seed=1), make_rollout(policy, 9, seed=2)
    for rollout in (long, short):
        rollout.continues[-1] = False  # as env runners record it
    both = with_advantages(Rollout.concatenate([long, short]), policy, CONFIG)
    apart = [with_advantages(rollout, policy, CONFIG) for rollout in (long, short)]
    expected = torch.cat([batch["advantages"] for batch in apart]).sort().values
    torch.testing.assert_close(both["advantages"].sort().values, expected)


def learned_value(terminates: bool, gamma: float = 0.9) -> float:
    """The value that PPO's targets converge to in a world of reward 1, cut every 5 steps."""
    from trainables.runtime.sampling.env_runner import EnvRunner

    env = make_vector_env(EndlessEnv, {"horizon": 5, "terminates": terminates}, 4)
    policy = Policy(env.single_observation_space, env.single_action_space, seed=0)
    config = CONFIG.copy().training(gamma=gamma)
    runner = EnvRunner(config, {DEFAULT_MODULE_ID: policy}, env, np.random.SeedSequence(0))
    learner = Learner(policy.module, {"type": "adam"})
    learner.set_lr(0.02)

    def value_loss(module: ActorCritic, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss = (module(batch["features"]).values - batch["value_targets"]).square().mean()
        return loss, {"vf_loss": loss.detach()}

    for _ in range(60):
        rollout = runner.sample(24)[0]["default_policy"]
        batch = with_advantages(rollout, policy, config)
        learner.update(batch, value_loss, num_epochs=4)
    return float(policy.value(np.ones((1, 1), np.float32)))


def test_values_bootstrap_through_truncations() -> None:
    assert learned_value(terminates=False) == pytest.approx(1 / (1 - 0.9), rel=0.03)


def test_and_not_through_terminations() -> None:
    # The same world with real ends: the mean of 1 + gamma + … over the five positions.
    expected = np.mean([sum(0.9**k for k in range(n)) for n in range(1, 6)])
    assert learned_value(terminates=True) == pytest.approx(expected, rel=0.1)
