"""Noise on actions: its moments by hand, its bounds, its memory, and that it goes on exactly."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from fakes import EncodingVectorEnv
from small_runs import settings_of, without_clocks

from trainables import SAC, Policy, SACConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.distributions.gaussian import DiagGaussian, SquashedGaussian
from trainables.core.learning.schedules import scheduled
from trainables.core.policy.explorers import Explorer, make_explorer
from trainables.core.policy.noise import normal
from trainables.runtime.sampling.env_runner import EnvRunner

OU: dict[str, Any] = {"type": "OrnsteinUhlenbeckNoise", "base": "mode"}
SILENT = torch.tensor([0.0, -30.0])  # mean 0, and as good as no sigma


def noise_of(runner: Any) -> torch.Tensor:
    """Return the noise that the explorer keeps of an env runner's slots."""
    noise: torch.Tensor = runner.recorders[DEFAULT_MODULE_ID].actor.explored["x"]
    return noise


def explorer(distribution: DiagGaussian | None = None, **options: Any) -> Explorer:
    return make_explorer(options, distribution or SquashedGaussian((1,)))


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_gaussian_noise_has_its_moments_where_actions_are_learned() -> None:
    noisy = explorer(type="GaussianNoise", base="mode", stddev=0.2)
    noisy.set({"scale": 0.5})
    mean = torch.tensor([0.3]).atanh().item()
    inputs = torch.tensor([mean, 0.0]).expand(100_000, 2)
    actions = noisy.act(inputs, generator()).tanh()
    assert abs(actions.mean() - 0.3) < 5 * 0.1 / 100_000**0.5
    assert abs(actions.std() - 0.1) < 0.002


def test_noise_is_added_to_a_sample_or_to_the_mode() -> None:
    inputs = torch.tensor([0.0, math.log(0.5)]).expand(50_000, 2)
    spread = {}
    for base in ("sample", "mode"):
        noisy = explorer(DiagGaussian((1,)), type="GaussianNoise", base=base, stddev=0.2)
        spread[base] = noisy.act(inputs, generator()).std().item()
    assert abs(spread["mode"] - 0.2) < 0.01
    assert abs(spread["sample"] - math.hypot(0.5, 0.2)) < 0.01


def test_noisy_actions_stay_inside_and_finite() -> None:
    noisy = explorer(type="GaussianNoise", stddev=50.0)
    stored = noisy.act(torch.zeros(1000, 2), generator())
    actions = stored.tanh()
    assert stored.isfinite().all() and actions.abs().max() <= 1
    assert (actions.abs() > 0.999999).float().mean() > 0.9


@pytest.mark.parametrize(("theta", "sigma", "dt"), [(0.15, 0.2, 1.0), (0.5, 0.3, 0.5)])
def test_ornstein_uhlenbeck_process(theta: float, sigma: float, dt: float) -> None:
    """`Var = sigma^2 dt / (1 - (1 - theta dt)^2)`, and neighbours correlate by `1 - theta dt`."""
    noisy: Any = explorer(**OU, ou_theta=theta, ou_sigma=sigma, ou_dt=dt)
    slots, random = noisy.start(2000), generator()
    like = torch.zeros(2000, 1)
    seen = torch.stack([noisy.noise(like, random, slots).flatten() for _ in range(150)])
    x = seen[100:] / (2 * 0.1)  # the range's width, the base scale
    variance = sigma**2 * dt / (1 - (1 - theta * dt) ** 2)
    assert abs(x.var().item() / variance - 1) < 0.03
    assert abs(noisy.stationary_stddev**2 / variance - 1) < 1e-9
    correlation = torch.corrcoef(torch.stack([x[:-1].flatten(), x[1:].flatten()]))[0, 1].item()
    assert abs(correlation - (1 - theta * dt)) < 0.02


def test_ornstein_uhlenbeck_noise_reverts_by_hand() -> None:
    """x = 1, no randomness: 0.9 in the next step, then 0.81; noise = 0.5 x 2 x x at scale 1."""
    noisy = explorer(**OU, ou_theta=0.1, ou_sigma=0.0, ou_base_scale=0.5)
    slots = {"x": torch.ones(1, 1)}
    found = [noisy.act(SILENT.view(1, 2), None, slots).tanh().item() for _ in range(2)]
    assert found == pytest.approx([0.9, 0.81], abs=1e-6)
    noisy.set({"scale": 0.5})
    assert noisy.act(SILENT.view(1, 2), None, slots).tanh().item() == pytest.approx(0.729 / 2)


def test_single_observations_get_the_noise_of_any_step() -> None:
    noisy: Any = explorer(**OU, ou_theta=0.02, ou_sigma=0.2, ou_base_scale=0.1)
    actions = noisy.act(SILENT.expand(50_000, 2), generator()).tanh()
    assert abs(actions.std().item() / (0.2 * noisy.stationary_stddev) - 1) < 0.02


def test_noise_of_slots_restarts_where_actions_are_on_another_device() -> None:
    """As on a GPU: acting is in inference mode, and the restart after it is not."""
    noisy: Any = explorer(**OU)
    slots, elsewhere = noisy.start(3), torch.zeros(3, 1, device="meta")
    with torch.inference_mode():
        assert noisy.noise(elsewhere, generator(), slots).device == elsewhere.device
    assert slots["x"].all()
    noisy.restart(slots, np.array([True, False, True]))
    assert slots["x"].flatten().bool().tolist() == [False, True, False]


def test_noise_is_drawn_where_the_generator_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU the noise on parameters that is compared comes from a generator of the CPU."""
    devices, randn = [], torch.randn

    def recorded(*args: Any, device: torch.device, **options: Any) -> torch.Tensor:
        devices.append(device)
        return randn(*args, device=device, **options)

    monkeypatch.setattr(torch, "randn", recorded)
    drawn = normal(torch.Size([2, 3]), torch.zeros(1, device="meta"), generator())
    assert devices == [generator().device]
    assert drawn.shape == (2, 3) and drawn.device.type == "meta"


class Slots(EncodingVectorEnv):
    """The fake whose observations say where they come from, with a continuous action."""

    def __init__(self) -> None:
        super().__init__()
        self.single_action_space = gym.spaces.Box(-1, 1, (1,), np.float32)


def test_a_slots_noise_starts_anew_with_its_episode_and_with_no_other() -> None:
    env = Slots()
    policy = Policy(
        env.single_observation_space,
        env.single_action_space,
        {"fcnet_hiddens": []},
        module={"type": "soft_actor_critic"},
        exploration={**OU, "ou_sigma": 0.0, "ou_theta": 0.1, "ou_base_scale": 0.5},
        seed=0,
    )
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.zero_()
    runner = EnvRunner(SACConfig(), {DEFAULT_MODULE_ID: policy}, env, np.random.SeedSequence(1))
    noise_of(runner).fill_(0.5)
    noise = np.tanh(runner.sample(2)[0]["default_policy"].actions[..., 0])
    rollout = runner.sample(3)[0]["default_policy"]
    noise = np.concatenate([noise, np.tanh(rollout.actions[..., 0])])
    decay = 0.5 * 0.9 ** np.arange(1, 6)
    # The episodes of slot 0 have two steps, those of slot 1 three; then a row only resets.
    np.testing.assert_allclose(noise[:3, 0], decay[:3], atol=1e-6)
    np.testing.assert_allclose(noise[3:, 0], 0, atol=1e-6)
    np.testing.assert_allclose(noise[:4, 1], decay[:4], atol=1e-6)
    np.testing.assert_allclose(noise[4:, 1], 0, atol=1e-6)
    np.testing.assert_allclose(noise[:, 2], decay, atol=1e-6)


NOISY_RUN: dict[str, Any] = {
    "env_config": {"max_episode_steps": 30},  # an iteration ends in the midst of an episode
    "min_sample_timesteps_per_iteration": 200,
    "exploration_config": {**OU, "ou_sigma": 0.5, "random_timesteps": 150, "scale_timesteps": 500},
}


def test_a_resumed_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    settings = settings_of("SAC", "Pendulum-v1", **NOISY_RUN)
    with SAC(settings) as algo:
        algo.train()
        runner: Any = algo.env_runners.local_env_runner
        assert noise_of(runner).abs().sum() > 0
        saved = algo.save(str(tmp_path))
        kept = runner.get_state()["explored"]["x"]
        copy = kept.copy()
        expected = without_clocks(algo.train())
        assert (kept == copy).all(), "a state in memory is no view"
        noise = noise_of(runner).clone()
    with SAC(settings) as algo:
        algo.restore(saved)
        assert without_clocks(algo.train()) == expected
        runner = algo.env_runners.local_env_runner
        torch.testing.assert_close(noise_of(runner), noise, rtol=0, atol=0)


def test_an_evaluation_that_explores_leaves_trainings_noise_alone() -> None:
    settings = settings_of("SAC", "Pendulum-v1", **NOISY_RUN)
    settings |= {"evaluation_config": {"explore": True}, "evaluation_duration": 1}
    with SAC(settings) as algo:
        algo.train()
        runner: Any = algo.env_runners.local_env_runner
        before = noise_of(runner).clone()
        explorer: Any = algo.get_policy().explorer
        noise, seen = explorer.noise, []

        def recorded(actions: torch.Tensor, random: Any, slots: Any) -> torch.Tensor:
            seen.append(slots)
            return noise(actions, random, slots)

        explorer.noise = recorded
        algo.evaluate()
        assert seen and all(slots is seen[0] and "x" in slots for slots in seen)
        torch.testing.assert_close(noise_of(runner), before, rtol=0, atol=0)


def test_the_scale_follows_its_schedule_and_is_reported() -> None:
    schedule = [[0, 1.0], [150, 1.0], [650, 0.02]]
    with SAC(settings_of("SAC", "Pendulum-v1", **NOISY_RUN)) as algo:
        for _ in range(40):
            steps = algo.num_env_steps_sampled
            metrics = algo.training_step()
            assert metrics["exploration/scale"] == scheduled(schedule, steps)
            explorer: Any = algo.get_policy().explorer
            assert explorer.scale == metrics["exploration/scale"]
            assert explorer.uniform == (steps < 150)


MASKED = gym.spaces.Dict(
    {"obs": gym.spaces.Box(-1, 1, (3,), np.float32), "action_mask": gym.spaces.MultiBinary(4)}
)


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        *((kind, "q_network") for kind in ("EpsilonGreedy", "SoftQ", "Random", "ParameterNoise")),
        *(
            (kind, "soft_actor_critic")
            for kind in ("StochasticSampling", "Random", "ParameterNoise")
        ),
    ],
)
def test_no_exploration_draws_an_illegal_action(kind: str, module: str) -> None:
    policy = Policy(
        MASKED,
        gym.spaces.Discrete(4),
        module={"type": module},
        exploration={"type": kind},
        seed=0,
    )
    policy.set_exploration(epsilon=0.5, stddev=10.0)
    generator = np.random.default_rng(1)
    masks = generator.integers(0, 2, (2000, 4)).astype(np.int8)
    masks[:, 3] |= ~masks[:, :3].any(1)
    obs = {"obs": generator.uniform(-1, 1, (2000, 3)).astype(np.float32), "action_mask": masks}
    for _ in range(3):
        actions = policy.compute_actions(obs, explore=True)
        assert masks[np.arange(2000), actions].all() and len(set(actions.tolist())) == 4
