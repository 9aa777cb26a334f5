"""SAC as a whole: what is drawn and done, and which rate moves what."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from trainables import SAC
from trainables.core.policy.policy import Policy


class StillEnv(gym.Env):
    """Nothing to see and nothing to gain; actions of any shape, bounds -2 and 4."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, shape: tuple[int, ...] = (2,)):
        self.action_space = gym.spaces.Box(-2, 4, tuple(shape), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        assert self.action_space.contains(np.asarray(action))
        self.t += 1
        return np.ones(1, np.float32), 0.0, False, self.t == 10, {}


TINY: dict[str, Any] = {
    "env": StillEnv,
    "seed": 1,
    "model": {"fcnet_hiddens": [8]},
    "num_steps_sampled_before_learning_starts": 300,
    "train_batch_size_per_learner": 8,
    "training_intensity": 8,
    "lr": 1e-3,
    "replay_buffer_config": {"capacity": 2000},
}


def run(algo: SAC, num_env_steps: int) -> dict[str, float]:
    """Train until there are that many steps in all; one update follows each after the warm-up."""
    while algo.num_env_steps_sampled < num_env_steps:
        metrics = algo.training_step()
    starts = algo.config.num_steps_sampled_before_learning_starts
    assert algo.num_updates == max(0, num_env_steps - starts)
    return metrics


def actions_of(algo: SAC, num_env_steps: int) -> Tensor:
    """What it does until there are that many steps in all, in (-1, 1), `[number, d]`."""
    sample, taken = algo.sample, []

    def recording() -> Any:
        rollouts = sample()
        rollout = rollouts["default_policy"]
        taken.append(torch.from_numpy(rollout.actions[rollout.valid]))
        return rollouts

    algo.sample = recording  # type: ignore[method-assign]
    run(algo, num_env_steps)
    algo.sample = sample  # type: ignore[method-assign]
    return torch.cat(taken).tanh()


NARROW = {"policy_model_config": {"initial_log_std": -4.0}, "actor_lr": 0.0}


def test_actions_are_uniform_until_learning_starts() -> None:
    with SAC(TINY | NARROW) as algo:
        warm = actions_of(algo, 300)
        after = actions_of(algo, 400)
    assert after.shape == (100, 2)
    assert warm.shape == (300, 2) and warm.abs().max() < 1
    counts = torch.histc(warm, 10, -1, 1) / warm.numel()
    assert (counts - 0.1).abs().max() < 5 * (0.09 / warm.numel()) ** 0.5
    assert abs(np.corrcoef(warm.T.numpy())[0, 1]) < 5 / 300**0.5
    assert after.std(0).max() < 0.05  # the policy's: sigma e^-4


def test_or_the_policys_from_the_start() -> None:
    with SAC(TINY | NARROW | {"random_warmup": False}) as algo:
        assert actions_of(algo, 300).std(0).max() < 0.05


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_actions_of_every_shape(shape: tuple[int, ...]) -> None:
    """Rewritten for Q as the tanh of what was stored, `[B, d]`."""
    with SAC(
        TINY | {"env_config": {"shape": shape}, "num_steps_sampled_before_learning_starts": 20}
    ) as algo:
        run(algo, 40)
        drawn = algo.experience["default_policy"].sample(4, gamma=0.9)
        batch = algo.prepare(algo.get_policy(), drawn)
        outputs = algo.get_policy().forward(np.ones((2, 1), np.float32))
    assert outputs.dist_inputs.shape[0] == 2 and outputs.values is None
    assert drawn["actions"].shape == (4, *shape)
    size = int(np.prod(shape))
    assert torch.equal(batch["actions"], drawn["actions"].tanh().reshape(4, size))
    assert batch["noise"].shape == batch["next_noise"].shape == (4, size)


def prepared(**settings: Any) -> tuple[dict[str, Tensor], Policy]:
    with SAC(TINY | settings) as algo:
        run(algo, 30)
        drawn = algo.experience["default_policy"].sample(500, gamma=0.9)
        return algo.prepare(algo.get_policy(), drawn), algo.get_policy()


def test_noise_is_standard_normal_and_drawn_twice() -> None:
    batch, _ = prepared()
    one, two = batch["noise"], batch["next_noise"]
    for noise in (one, two):
        assert noise.mean().abs() < 0.15 and (noise.std() - 1).abs() < 0.15
    assert abs(np.corrcoef(one.flatten().numpy(), two.flatten().numpy())[0, 1]) < 0.15


def test_the_deterministic_loss_is_that_of_the_most_likely_actions() -> None:
    batch, policy = prepared(_deterministic_loss=True)
    assert not batch["noise"].any() and not batch["next_noise"].any()
    module, distribution = policy.module, policy.distribution
    inputs = module.dist_inputs(batch["features"])
    actions, logp = distribution.rsample(inputs, batch["noise"])  # type: ignore[attr-defined]
    mode = distribution.mode(inputs)
    assert torch.equal(actions, mode.tanh())
    torch.testing.assert_close(logp, distribution.logp(inputs, mode))


@pytest.mark.parametrize("moving", ["actor", "critic", "alpha"])
def test_each_rate_moves_its_own_group(moving: str) -> None:
    rates = {f"{name}_lr": 1e-3 if name == moving else 0.0 for name in ("actor", "critic", "alpha")}
    with SAC(TINY | rates | {"lr": 0.5, "num_steps_sampled_before_learning_starts": 20}) as algo:
        before = {k: v.copy() for k, v in algo.get_weights()["default_policy"].items()}
        metrics = run(algo, 30)
        after = algo.get_weights()["default_policy"]
    moved = {k.split(".")[0] for k in before if not np.array_equal(before[k], after[k])}
    assert moved == {"log_alpha" if moving == "alpha" else moving}
    assert metrics[f"learner/default_policy/curr_{moving}_lr"] == 1e-3
    step = max(float(np.abs(after[k] - before[k]).max()) for k in before)
    assert step < 11e-3  # ten steps of Adam at the group's own rate


def test_rates_are_lr_where_they_are_not_given_and_may_be_schedules() -> None:
    settings = {"lr": 2e-3, "critic_lr": [[0, 1e-2], [100, 0.0]], "alpha_lr": 0.0}
    with SAC(TINY | settings | {"num_steps_sampled_before_learning_starts": 20}) as algo:
        run(algo, 50)
        assert algo.learning_rates() == {"actor": 2e-3, "critic": 5e-3, "alpha": 0.0}
        optimizer = algo.learners["default_policy"].optimizer
        assert [group["lr"] for group in optimizer.param_groups] == [2e-3, 5e-3, 0.0]


@pytest.mark.parametrize(
    ("target", "settings", "sign"), [(-4.0, {}, -1), (1.0, NARROW, 1)], ids=["above", "below"]
)
def test_alpha_steers_entropy_to_its_target(
    target: float, settings: dict[str, Any], sign: int
) -> None:
    """A policy of sigma 1 has an entropy near log 4, the most there is; a narrow one near -5."""
    started = {"num_steps_sampled_before_learning_starts": 20, "target_entropy": target}
    with SAC(TINY | settings | started | {"initial_alpha": 0.1}) as algo:
        run(algo, 60)
        log_alpha = float(algo.get_weights()["default_policy"]["log_alpha"][0])
    # Adam takes a step of the rate each time while the sign stays.
    assert log_alpha - np.log(0.1) == pytest.approx(sign * 40 * 1e-3, rel=0.1)
