"""SAC's losses against slow ones with a backward pass each, and against numbers by hand."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from policy_q_modules import with_target
from torch import Tensor
from torch import distributions as td

from trainables import SACConfig
from trainables.core.data.batch import Batch
from trainables.core.data.features import FeatureSpec, ImageSpec
from trainables.core.distributions.categorical import Categorical
from trainables.core.distributions.gaussian import LOG_STD_MAX, LOG_STD_MIN, SquashedGaussian
from trainables.core.errors import ConfigError
from trainables.core.networks.soft_actor_critic import QFunctions, SoftActorCritic
from trainables.core.policy.policy import Policy
from trainables.sac import auto_entropy, discrete_sac_loss, q_loss, sac_loss, temperature_loss


class Flattened(torch.nn.Module):
    """A user's encoder that sees everything as one vector."""

    def __init__(self, spec: FeatureSpec):
        super().__init__()
        pixels = sum(math.prod(image.shape) for image in spec.images.values())
        self.width = 6
        self.layer = torch.nn.Linear(spec.num_features + pixels, 6)

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        vector, image = features["@vector"], features["image"].flatten(-3)
        hidden: Tensor = self.layer(torch.cat([vector, image], -1))
        return hidden


# ---------------------------------------------------------------------- the squashed Gaussian


def test_reparametrised_log_probs_are_those_of_the_distribution() -> None:
    """Of the sample before tanh, summed over dimensions; actions are its tanh."""
    squashed, generator = SquashedGaussian((3,)), torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 6, generator=generator, dtype=torch.float64) * 2
    noise = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    actions, logp = squashed.rsample(inputs, noise)
    mean, log_std = inputs[:, :3], inputs[:, 3:].clamp(LOG_STD_MIN, LOG_STD_MAX)
    u = mean + log_std.exp() * noise
    torch.testing.assert_close(actions, u.tanh())
    torch.testing.assert_close(logp, squashed.logp(inputs, u))
    per_dimension = td.Normal(mean, log_std.exp()).log_prob(u) - torch.log1p(-(u.tanh() ** 2))
    near = u.abs().amax(1) < 5  # where the naive formula is exact enough
    torch.testing.assert_close(logp[near], per_dimension.sum(1)[near])
    assert near.sum() > 100


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (1.0, -1.0), (-2.0, 0.5), (0.3, 2.0)])
def test_density_of_reparametrised_samples_integrates_to_one(mean: float, log_std: float) -> None:
    """Over actions a(z): the integral of p(a(z)) |da/dz| dz."""
    z = torch.linspace(-9, 9, 100_001, dtype=torch.float64).unsqueeze(1)
    inputs = torch.tensor([[mean, log_std]], dtype=torch.float64).expand(len(z), 2)
    _, logp = SquashedGaussian((1,)).rsample(inputs, z)
    u = mean + math.exp(log_std) * z.squeeze(1)
    density = (logp + math.log(4) - 2 * u - 2 * torch.nn.functional.softplus(-2 * u)).exp()
    integral = torch.trapezoid(density * math.exp(log_std), z.squeeze(1))
    assert integral.item() == pytest.approx(1, abs=1e-6)


def test_log_prob_of_saturated_samples_in_float32() -> None:
    """At mean 8, sigma 0.01: tanh is 1 - 2e-7, and its logarithm is exact all the same."""
    squashed = SquashedGaussian((2,))
    inputs = torch.tensor([[8.0, -8.0, math.log(0.01), math.log(0.01)]]).expand(50, 4)
    noise = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    actions, logp = squashed.rsample(inputs, noise)
    u = inputs[:, :2].double() + inputs[:, 2:].double().exp() * noise.double()
    exact = td.Normal(inputs[:, :2].double(), inputs[:, 2:].double().exp()).log_prob(u)
    exact = (exact - (math.log(4) - 2 * u.abs() - 2 * torch.log1p((-2 * u.abs()).exp()))).sum(1)
    torch.testing.assert_close(logp.double(), exact, rtol=2e-6, atol=0)
    assert actions.abs().max() <= 1 and logp.isfinite().all()


def test_gradients_flow_through_samples_and_log_probs() -> None:
    """Against float64 differences: how a and log p move with mean and log sigma at fixed noise."""
    squashed = SquashedGaussian((2,))
    inputs = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    noise = torch.randn(5, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: squashed.rsample(x, noise), (inputs,))


# ---------------------------------------------------------------------- slow references


def random_batch(discrete: bool, rows: int = 30, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "features": rng.normal(size=(rows, 3)),
        "next_features": rng.normal(size=(rows, 3)),
        "rewards": rng.normal(size=rows),
        "discounts": rng.choice([0, 0.9, 0.9**3], rows),
        "weights": rng.uniform(0.1, 1, rows),
        "actions": rng.integers(4, size=rows) if discrete else rng.uniform(-1, 1, (rows, 2)),
    }
    if not discrete:
        columns |= {"noise": rng.normal(size=(rows, 2)), "next_noise": rng.normal(size=(rows, 2))}
    return {name: torch.tensor(column) for name, column in columns.items()}


TARGET_ENTROPY = -0.7


def q_of(critic: QFunctions, *inputs: Tensor) -> list[Tensor]:
    return [function(torch.cat(inputs)) for function in critic.functions]


def slow_losses(
    module: SoftActorCritic, target: QFunctions, batch: Batch, row: int
) -> dict[str, Tensor]:
    """The three losses of one row with continuous actions, by torch.distributions."""
    alpha = module.log_alpha.exp().item()
    s, s2 = batch["features"][row], batch["next_features"][row]

    def sample(features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = module.actor(features).chunk(2)
        sigma = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()
        u = mean + sigma * noise
        stretch = td.TanhTransform().log_abs_det_jacobian(u, u.tanh())
        return u.tanh(), (td.Normal(mean, sigma).log_prob(u) - stretch).sum()

    next_action, next_logp = sample(s2, batch["next_noise"][row])
    next_q = min(float(q) for q in q_of(target, s2, next_action))
    value = next_q - alpha * float(next_logp)
    y = float(batch["rewards"][row]) + float(batch["discounts"][row]) * value
    errors = [(q - y).squeeze() for q in q_of(module.critic, s, batch["actions"][row])]
    action, logp = sample(s, batch["noise"][row])
    q_of_policy = torch.stack(q_of(module.critic, s, action)).min()
    return {
        "critic": batch["weights"][row] * sum(0.5 * e**2 for e in errors),
        "actor": alpha * logp - q_of_policy,
        "alpha": -module.log_alpha.squeeze() * (float(logp) + TARGET_ENTROPY),
        "priorities": torch.stack(errors).detach().abs().mean(),
    }


def slow_discrete_losses(
    module: SoftActorCritic, target: QFunctions, batch: Batch, row: int
) -> dict[str, Tensor]:
    """The same with discrete actions: sums over them, one by one."""
    alpha = module.log_alpha.exp().item()
    s, s2, action = batch["features"][row], batch["next_features"][row], batch["actions"][row]
    value = 0.0
    policy = td.Categorical(logits=module.actor(s2))
    next_q = torch.stack(q_of(target, s2)).min(0).values
    for a in range(4):
        p = float(policy.probs[a])
        value += p * (float(next_q[a]) - alpha * math.log(p))
    y = float(batch["rewards"][row]) + float(batch["discounts"][row]) * value
    errors = [q[action] - y for q in q_of(module.critic, s)]
    policy = td.Categorical(logits=module.actor(s))
    q_now = torch.stack(q_of(module.critic, s)).min(0).values
    actor = sum(policy.probs[a] * (alpha * policy.probs[a].log() - q_now[a]) for a in range(4))
    entropy = float(policy.entropy())
    return {
        "critic": batch["weights"][row] * sum(0.5 * e**2 for e in errors),
        "actor": torch.as_tensor(actor),
        "alpha": module.log_alpha.squeeze() * (entropy - TARGET_ENTROPY),
        "priorities": torch.stack(errors).detach().abs().mean(),
    }


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("twin_q", [True, False])
@pytest.mark.parametrize("discrete", [True, False])
def test_one_backward_pass_equals_three_separate_ones(discrete: bool, twin_q: bool) -> None:
    """Each group's gradient is that of its own slow loss, so no other loss reaches it."""
    module, target, distribution = with_target(
        SoftActorCritic, discrete, twin_q=twin_q, initial_alpha=0.3
    )
    batch = random_batch(discrete)
    if discrete:
        loss, metrics = discrete_sac_loss(module, batch, target, TARGET_ENTROPY)
    else:
        loss, metrics = sac_loss(module, batch, target, distribution, TARGET_ENTROPY)
    slow = slow_discrete_losses if discrete else slow_losses
    rows = [slow(module, target, batch, row) for row in range(30)]
    means = {name: torch.stack([row[name] for row in rows]).mean() for name in rows[0]}
    for name, metric in (("critic", "qf_loss"), ("actor", "policy_loss"), ("alpha", "alpha_loss")):
        torch.testing.assert_close(metrics[metric], means[name].detach())
    torch.testing.assert_close(loss, means["critic"] + means["actor"] + means["alpha"])
    priorities = torch.stack([row["priorities"] for row in rows])
    torch.testing.assert_close(metrics["priorities"], priorities)

    loss.backward()
    groups = {
        "critic": list(module.critic.parameters()),
        "actor": list(module.actor.parameters()),
        "alpha": [module.log_alpha],
    }
    assert sum(len(group) for group in groups.values()) == len(list(module.parameters()))
    for name, group in groups.items():
        expected = torch.autograd.grad(means[name], group, retain_graph=True)
        for parameter, gradient in zip(group, expected, strict=True):
            assert parameter.grad is not None and parameter.grad.any()
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-5, atol=1e-9)
    assert all(parameter.grad is None for parameter in target.parameters())
    assert len(module.critic.functions) == (2 if twin_q else 1)
    if twin_q:  # both functions are the lesser one somewhere, so the minimum is put to the test
        q = module.critic(batch["features"], None if discrete else batch["actions"])
        assert 0 < (q[0] < q[1]).double().mean() < 1


# ---------------------------------------------------------------------- by hand


def test_soft_target_value_by_hand() -> None:
    """Two equally likely actions, minima (1, 3) of the target functions: V = 2 + alpha log 2."""
    module = SoftActorCritic(
        FeatureSpec(1), Categorical(2), {"fcnet_hiddens": []}, initial_alpha=0.5
    )
    target = SoftActorCritic(FeatureSpec(1), Categorical(2), {"fcnet_hiddens": []}).critic
    with torch.no_grad():
        for parameter in (*module.actor.parameters(), *module.critic.parameters()):
            parameter.zero_()
        for parameter in target.parameters():
            parameter.zero_()
        for function, values in zip(target.functions, ([1.0, 9.0], [4.0, 3.0]), strict=True):
            function[-1].bias.copy_(torch.tensor(values))  # type: ignore[index]
    batch = {
        "features": torch.ones(3, 1),
        "next_features": torch.ones(3, 1),
        "actions": torch.tensor([0, 1, 0]),
        "rewards": torch.tensor([2.0, 2.0, 2.0]),
        "discounts": torch.tensor([0.9, 0.9**3, 0.0]),  # one step, three steps, a terminal state
        "weights": torch.tensor([1.0, 0.5, 1.0]),
    }
    _, metrics = discrete_sac_loss(module, batch, target, 0.4)
    targets = [2 + discount * (2 + 0.5 * math.log(2)) for discount in (0.9, 0.9**3, 0)]
    assert metrics["priorities"].tolist() == pytest.approx(targets)
    loss = sum(w * y**2 for w, y in zip((1, 0.5, 1), targets, strict=True)) / 3  # 2 x one half
    assert metrics["qf_loss"].item() == pytest.approx(loss)
    assert metrics["entropy"].item() == pytest.approx(math.log(2))
    assert metrics["alpha"].item() == pytest.approx(0.5)
    assert metrics["alpha_loss"].item() == pytest.approx(math.log(0.5) * (math.log(2) - 0.4))


def test_longer_returns_leave_out_the_entropy_in_between_and_the_setting_says_so() -> None:
    """The replay buffer sums up rewards alone: the loss cannot tell two steps from one."""
    assert "in SAC no entropy of the steps in between" in SACConfig.settings()["n_step"].doc


def test_importance_weights_scale_the_critics_loss_alone() -> None:
    q_values, targets = torch.tensor([[1.0, 2.0], [0.0, 5.0]]), torch.tensor([0.0, 1.0])
    loss, priorities = q_loss(q_values, targets, {"weights": torch.tensor([1.0, 0.5])})
    assert loss.item() == pytest.approx(0.5 * (1 + 0.5 * 1) / 2 + 0.5 * (0 + 0.5 * 16) / 2)
    assert priorities.tolist() == [0.5, 2.5]


@pytest.mark.parametrize(("entropy", "falls"), [(0.5, True), (-1.5, False)])
def test_alpha_falls_while_entropy_is_above_its_target(entropy: float, falls: bool) -> None:
    log_alpha = torch.zeros(1, requires_grad=True)
    entropies = torch.full((4,), entropy, requires_grad=True)
    temperature_loss(log_alpha, entropies, -1.0).backward()
    assert log_alpha.grad is not None and entropies.grad is None
    step = -log_alpha.grad.item()  # of gradient descent
    assert step == pytest.approx(-1 - entropy) and (step < 0) == falls


def test_actor_climbs_q_and_entropy() -> None:
    """One action is worth more: its logit gains. At equal worth, the entropy rises."""
    module = SoftActorCritic(
        FeatureSpec(1), Categorical(2), {"fcnet_hiddens": []}, initial_alpha=0.5
    )
    last: Any = module.actor[-1]
    x = torch.ones(1, 1)
    batch = {"features": x, "next_features": x, "actions": torch.zeros(1, dtype=torch.int64)}
    batch |= {name: torch.ones(1) for name in ("rewards", "discounts", "weights")}
    for logits, worth, first_gains in (
        ([0.0, 0.0], [1.0, 0.0], True),
        ([2.0, 0.0], [0.0, 0.0], False),
    ):
        with torch.no_grad():
            for parameter in module.critic.parameters():
                parameter.zero_()
            for function in module.critic.functions:
                function[-1].bias.copy_(torch.tensor(worth))  # type: ignore[index]
            last.weight.zero_()
            last.bias.copy_(torch.tensor(logits))
        module.zero_grad()
        discrete_sac_loss(module, batch, module.critic, 0.1)[0].backward()
        assert (last.bias.grad[0] < 0) == first_gains
        assert last.bias.grad.sum().abs() < 1e-6


# ---------------------------------------------------------------------- networks


def make_policy(space: gym.Space, **options: Any) -> Policy:
    box = gym.spaces.Box(-1, 1, (3,), np.float32)
    module = {"type": "soft_actor_critic", **options}
    return Policy(box, space, {"fcnet_hiddens": [8]}, module=module, seed=0)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_target_entropy_of_continuous_actions_is_minus_their_number(shape: tuple[int, ...]) -> None:
    policy = make_policy(gym.spaces.Box(-1, 1, shape, np.float32))
    assert auto_entropy(policy) == -math.prod(shape)


def test_target_entropy_of_discrete_actions_is_a_share_of_the_maximum() -> None:
    assert auto_entropy(make_policy(gym.spaces.Discrete(6))) == pytest.approx(0.89 * math.log(6))


@pytest.mark.parametrize(
    "space", [gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(-1, 1, (2, 3))]
)
def test_q_values_are_those_of_every_function(space: gym.Space) -> None:
    policy = make_policy(space)
    features = torch.randn(5, 3)
    module: Any = policy.module
    if isinstance(space, gym.spaces.Discrete):
        actions, x = None, features
    else:
        actions = module.dist_inputs(features).chunk(2, -1)[0].tanh()
        x = torch.cat([features, actions], -1)
    expected = torch.stack([function(x) for function in module.critic.functions])
    torch.testing.assert_close(module.q_values(features, actions), expected)
    assert len(expected) == 2


BESIDE_IMAGES = {"@vector": (3,), "image": (7, 7, 3)}


@pytest.mark.parametrize(
    ("shapes", "model"),
    [
        ({"@vector": (3,)}, {}),
        (BESIDE_IMAGES, {}),
        ({"image": (7, 7, 3)}, {}),
        (BESIDE_IMAGES, {"custom_model": Flattened}),
    ],
    ids=["vector", "both", "image", "custom"],
)
def test_values_of_several_actions_in_a_state(
    shapes: dict[str, tuple[int, ...]], model: dict[str, Any]
) -> None:
    """The same as of one action after the other."""
    images = {"image": ImageSpec((7, 7, 3), False, 255.0)} if "image" in shapes else {}
    spec = FeatureSpec(3 if "@vector" in shapes else 0, images)
    model = {"conv_filters": [[4, 3, 2]]} | model if images and not model else model
    q_functions = QFunctions(2, spec, 2, 1, model, torch.Generator().manual_seed(0))
    parts = {name: torch.randn(5, *shape) for name, shape in shapes.items()}
    features = parts if images else parts["@vector"]
    actions = torch.rand(5, 4, 2) * 2 - 1
    expected = [q_functions(features, actions[:, i]).squeeze(-1) for i in range(4)]
    torch.testing.assert_close(q_functions.of_each(features, actions), torch.stack(expected, -1))


def test_there_are_no_state_values() -> None:
    policy = make_policy(gym.spaces.Box(-1, 1, (2,)))
    obs = np.zeros((1, *(policy.observation_space.shape or ())), np.float32)
    assert policy.forward(obs).values is None
    with pytest.raises(ConfigError, match=r"SoftActorCritic learns no state values; its q_values"):
        policy.value(obs)
    _, _, extra = policy.compute_actions(obs, full_fetch=True)
    assert set(extra) == {"action_dist_inputs", "action_logp"}


def test_model_settings_of_policy_and_q_functions() -> None:
    policy = make_policy(
        gym.spaces.Box(-1, 1, (2,)),
        q_model={"fcnet_hiddens": [5, 6]},
        policy_model={"fcnet_hiddens": [7], "initial_log_std": -1.0},
        initial_alpha=0.25,
        twin_q=False,
    )
    module: Any = policy.module
    widths = [layer.out_features for layer in module.actor if hasattr(layer, "out_features")]
    assert widths == [7, 4]
    (function,) = module.critic.functions
    assert [x.out_features for x in function if hasattr(x, "out_features")] == [5, 6, 1]
    assert module.log_alpha.exp().item() == pytest.approx(0.25)
    log_std = module.actor(torch.zeros(1, 3))[0, 2:]
    assert (log_std + 1).abs().max() < 0.1
