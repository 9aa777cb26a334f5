"""DQN's losses against slow loops and hand-worked numbers: each part of Rainbow by itself."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainables import DQNConfig
from trainables.core.data.batch import Batch
from trainables.core.data.features import FeatureSpec
from trainables.core.distributions.epsilon_greedy import EpsilonGreedy
from trainables.core.networks.q_network import QNetwork
from trainables.dqn import DQNOptions, dqn_loss, project

PLAIN = DQNOptions(double_q=False, td_error_loss_fn="mse")
DOUBLE = DQNOptions(double_q=True, td_error_loss_fn="mse")


# ---------------------------------------------------------------------- the C51 projection


def slow_projection(
    probs: np.ndarray, reward: float, discount: float, v_min: float, v_max: float
) -> np.ndarray:
    """Where each atom's mass goes, one atom at a time and in float64."""
    last = len(probs) - 1
    result = np.zeros(last + 1)
    for i, mass in enumerate(probs):
        atom = v_min + (v_max - v_min) * i / last
        moved = min(max(reward + discount * atom, v_min), v_max)
        position = (moved - v_min) * last / (v_max - v_min)
        lower, upper = int(np.floor(position)), int(np.ceil(position))
        if lower == upper:
            result[lower] += mass
        else:
            result[lower] += mass * (upper - position)
            result[upper] += mass * (position - lower)
    return result


def projected(probs: Any, rewards: Any, discounts: Any, atoms: Tensor) -> np.ndarray:
    rows = [torch.as_tensor(np.array(x), dtype=atoms.dtype) for x in (probs, rewards, discounts)]
    return project(rows[0], rows[1], rows[2], atoms).numpy()


@pytest.mark.parametrize(
    ("v_min", "v_max", "num_atoms"), [(-10, 10, 51), (0, 50, 11), (-1, 3, 2), (-7.3, 0.1, 8)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_projection_equals_the_slow_one(
    v_min: float, v_max: float, num_atoms: int, dtype: torch.dtype
) -> None:
    rng = np.random.default_rng(0)
    count, width = 300, v_max - v_min
    probs = rng.dirichlet(np.full(num_atoms, 0.5), count)
    rewards = rng.uniform(v_min - width, v_max + width, count)  # far outside, too
    discounts = rng.choice([0, 0.5, 0.99, 0.99**3, 1], count)
    mine = projected(probs, rewards, discounts, torch.linspace(v_min, v_max, num_atoms).to(dtype))
    for row in range(count):
        expected = slow_projection(probs[row], rewards[row], discounts[row], v_min, v_max)
        np.testing.assert_allclose(
            mine[row], expected, atol=1e-4 if dtype is torch.float32 else 1e-6
        )
    np.testing.assert_allclose(mine.sum(1), 1, atol=1e-5)
    assert (mine >= 0).all()


def test_an_atom_that_is_moved_onto_an_atom_keeps_its_mass_there_once() -> None:
    """By a reward of k spacings at discount 1: a shift by k atoms, both ends gather the rest."""
    atoms, probs = torch.linspace(-2, 2, 5), np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    shifts = range(-6, 7)
    mine = projected([probs] * len(shifts), list(shifts), [1.0] * len(shifts), atoms)
    for k, row in zip(shifts, mine, strict=True):
        expected = np.zeros(5)
        np.add.at(expected, np.clip(np.arange(5) + k, 0, 4), probs)
        np.testing.assert_allclose(row, expected, atol=1e-6)


def test_after_a_terminal_state_all_mass_is_at_the_reward() -> None:
    """At the ends, on an atom, between two, and outside."""
    atoms = torch.linspace(-10, 10, 51)
    probs = np.random.default_rng(1).dirichlet(np.ones(51), 5)
    mine = projected(probs, [-10, 10, 0.4, 0.5, 99], [0.0] * 5, atoms)
    expected = np.zeros((5, 51))
    expected[[0, 1, 2, 4], [0, 50, 26, 50]] = 1
    expected[3, [26, 27]] = 0.75, 0.25
    np.testing.assert_allclose(mine, expected, atol=1e-5)


def test_projection_keeps_the_mean_of_what_stays_inside() -> None:
    rng = np.random.default_rng(2)
    atoms, probs = torch.linspace(-10, 10, 51).double(), rng.dirichlet(np.ones(51), 200)
    rewards, discounts = rng.uniform(-1, 1, 200), rng.uniform(0, 0.9, 200)
    mean = projected(probs, rewards, discounts, atoms) @ atoms.numpy()
    np.testing.assert_allclose(mean, rewards + discounts * (probs @ atoms.numpy()), atol=1e-6)


# ---------------------------------------------------------------------- by hand


def tabular(values: list[list[float]]) -> QNetwork:
    """Q(s, a) = values[s][a] of one-hot states."""
    table = torch.tensor(values)
    network = QNetwork(
        FeatureSpec(len(table)), EpsilonGreedy(table.shape[1]), {"fcnet_hiddens": []}
    )
    head: Any = network.advantage[0]
    with torch.no_grad():
        head.weight.copy_(table.T)
        head.bias.zero_()
    return network


def steps(*rows: tuple[int, int, float, float, int], weights: list[float] | None = None) -> Batch:
    """Transitions (state, action, reward, discount, next state) of two states."""
    states, actions, rewards, discounts, next_states = zip(*rows, strict=True)
    return {
        "features": torch.eye(2)[list(states)],
        "actions": torch.tensor(actions),
        "rewards": torch.tensor(rewards),
        "discounts": torch.tensor(discounts),
        "next_features": torch.eye(2)[list(next_states)],
        "weights": torch.ones(len(rows)) if weights is None else torch.tensor(weights),
    }


def test_double_q_lets_the_online_network_choose_and_the_target_network_rate() -> None:
    online, target = tabular([[0.0, 0.0], [5.0, 1.0]]), tabular([[9.0, 9.0], [2.0, 7.0]])
    batch = steps((0, 0, 1.0, 0.5, 1))
    for options, rated in ((DOUBLE, 2.0), (PLAIN, 7.0)):
        _, metrics = dqn_loss(online, batch, target, options)
        assert metrics["priorities"].item() == pytest.approx(1 + 0.5 * rated)


def test_a_discount_of_zero_does_not_bootstrap() -> None:
    online, target = tabular([[1.0, 2.0], [0.0, 0.0]]), tabular([[0.0, 0.0], [1e6, 1e6]])
    _, metrics = dqn_loss(online, steps((0, 1, 3.0, 0.0, 1)), target, DOUBLE)
    assert metrics["priorities"].item() == pytest.approx(abs(2 - 3))


@pytest.mark.parametrize(
    ("loss_fn", "losses"), [("huber", [0.125, 2.5, 0.5]), ("mse", [0.25, 9.0, 1.0])]
)
def test_losses_of_td_errors_a_half_three_and_one(loss_fn: str, losses: list[float]) -> None:
    """Huber: half the square up to 1, |x| - 1/2 beyond; each row by its importance weight."""
    online, target = tabular([[0.5, 3.0], [-1.0, 0.0]]), tabular([[0.0, 0.0], [0.0, 0.0]])
    weights = [1.0, 0.5, 0.25]
    batch = steps((0, 0, 0.0, 0.9, 1), (0, 1, 0.0, 0.9, 1), (1, 0, 0.0, 0.9, 0), weights=weights)
    loss, metrics = dqn_loss(online, batch, target, DQNOptions(True, loss_fn))
    assert loss.item() == pytest.approx(np.dot(losses, weights) / 3)
    assert metrics["priorities"].tolist() == [0.5, 3.0, 1.0]  # without the weights
    assert metrics["q_mean"].item() == pytest.approx((0.5 + 3 - 1) / 3)
    assert metrics["q_max"].item() == 3


def test_where_returns_are_random_huber_has_another_fixed_point() -> None:
    """Of 10 in one case of five, else 0: Q = 2 is the mean, and huber's is 1/4, near the median.

    The setting says so.
    """
    batch = steps(*[(0, 0, reward, 0.0, 1) for reward in (10.0, 0.0, 0.0, 0.0, 0.0)])
    for loss_fn, fixed_point in (("mse", 2.0), ("huber", 0.25)):
        online = tabular([[fixed_point, 0.0], [0.0, 0.0]])
        loss, _ = dqn_loss(online, batch, online, DQNOptions(True, loss_fn))
        loss.backward()
        head: Any = online.advantage[0]
        assert head.weight.grad.abs().max() < 1e-6
    doc = DQNConfig.settings()["td_error_loss_fn"].doc
    assert "median" in doc and "mse" in doc


# ---------------------------------------------------------------------- any network, slowly


def network(seed: int, **options: Any) -> QNetwork:
    generator = torch.Generator().manual_seed(seed)
    model = {"fcnet_hiddens": [16], "fcnet_activation": "tanh", "fcnet_initializer": "default"}
    return QNetwork(FeatureSpec(3), EpsilonGreedy(4), model, generator, **options).double()


def random_batch(rows: int = 40, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    return {
        "features": torch.tensor(rng.normal(size=(rows, 3))),
        "actions": torch.tensor(rng.integers(4, size=rows)),
        "rewards": torch.tensor(rng.normal(size=rows)),
        "discounts": torch.tensor(rng.choice([0, 0.9, 0.9**3], rows)),
        "next_features": torch.tensor(rng.normal(size=(rows, 3))),
        "weights": torch.tensor(rng.uniform(0.1, 1, rows)),
    }


@torch.no_grad()
def slow_targets(online: QNetwork, target: QNetwork, batch: Batch, double: bool) -> np.ndarray:
    """Of each row: the target value, or the target distribution's probabilities."""
    targets: list[Any] = []
    for i in range(len(batch["actions"])):
        x = batch["next_features"][i : i + 1]
        rated, chooser = target.logits(x)[0], (online if double else target).logits(x)[0]
        if online.num_atoms == 1:
            value = rated[chooser[:, 0].argmax(), 0].item()
            targets.append(batch["rewards"][i].item() + batch["discounts"][i].item() * value)
            continue
        means = [float((logits.softmax(0) * online.atoms).sum()) for logits in chooser]
        probs = rated[int(np.argmax(means))].softmax(0).numpy()
        reward, discount = batch["rewards"][i].item(), batch["discounts"][i].item()
        targets.append(slow_projection(probs, reward, discount, -3, 3))
    return np.array(targets)


def slow_loss(online: QNetwork, targets: np.ndarray, batch: Batch) -> tuple[Tensor, list[float]]:
    losses, priorities = [], []
    for i, target in enumerate(targets):
        logits = online.logits(batch["features"][i])[batch["actions"][i]]
        if online.num_atoms == 1:
            loss = (logits[0] - target) ** 2
            priorities.append(abs(logits[0].item() - float(target)))
        else:
            loss = -(torch.as_tensor(target) * logits.log_softmax(0)).sum()
            priorities.append(loss.item())
        losses.append(batch["weights"][i] * loss)
    return torch.stack(losses).mean(), priorities


@pytest.mark.parametrize("num_atoms", [1, 2, 21])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
def test_loss_priorities_and_gradient_equal_the_slow_ones(
    num_atoms: int, double: bool, dueling: bool
) -> None:
    """The slow targets are constants: equal gradients say that none flows into targets."""
    options = {"num_atoms": num_atoms, "v_min": -3, "v_max": 3, "dueling": dueling}
    online, target, batch = network(0, **options), network(1, **options), random_batch()
    target.requires_grad_(True)  # as if a learner had forgotten to freeze it
    loss, metrics = dqn_loss(online, batch, target, DQNOptions(double, "mse"))
    targets = slow_targets(online, target, batch, double)
    expected, priorities = slow_loss(online, targets, batch)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metrics["priorities"], priorities, rtol=1e-4, atol=1e-5)
    assert not metrics["priorities"].requires_grad
    parameters = list(online.parameters())
    slow_gradients = torch.autograd.grad(expected, parameters)
    loss.backward()
    for parameter, gradient in zip(parameters, slow_gradients, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)
    assert all(parameter.grad is None for parameter in target.parameters())
    # The two choices of action do differ on this batch.
    assert not np.allclose(slow_targets(online, target, batch, not double), targets)


# ---------------------------------------------------------------------- the network


@pytest.mark.parametrize("num_atoms", [1, 5])
def test_dueling_is_value_plus_advantage_less_its_mean(num_atoms: int) -> None:
    net = network(0, dueling=True, hiddens=[7], num_atoms=num_atoms)
    features = torch.randn(6, 3, dtype=torch.float64)
    logits, hidden = net.logits(features), net.encoder(features)
    assert net.state_value is not None and logits.shape == (6, 4, num_atoms)
    value, advantage = net.state_value(hidden), net.advantage(hidden).view(6, 4, num_atoms)
    for row in range(6):
        for action in range(4):
            for atom in range(num_atoms):
                mean = sum(advantage[row, a, atom] for a in range(4)) / 4
                expected = value[row, atom] + advantage[row, action, atom] - mean
                torch.testing.assert_close(logits[row, action, atom], expected)
    torch.testing.assert_close(logits.mean(1), value)
    assert network(0, dueling=False).state_value is None


@pytest.mark.parametrize("noisy", [False, True])
def test_hiddens_are_layers_of_each_head(noisy: bool) -> None:
    net = network(0, dueling=True, hiddens=[7, 5], num_atoms=3, noisy=noisy)
    assert net.state_value is not None
    for head, outputs in ((net.advantage, 4 * 3), (net.state_value, 3)):
        shapes = [tuple(p.shape) for name, p in head.named_parameters() if name.endswith(".weight")]
        assert shapes == [(7, 16), (5, 7), (outputs, 5)]
        assert [type(x) for x in head][1::2] == [nn.Tanh, nn.Tanh]


def test_values_are_means_over_the_atoms_and_actions_their_argmax() -> None:
    net = network(0, num_atoms=5, v_min=-2.0, v_max=6.0)
    features = torch.randn(6, 3, dtype=torch.float64)
    assert net.atoms.tolist() == [-2, 0, 2, 4, 6]
    expected = (net.logits(features).softmax(-1) * net.atoms).sum(-1)
    torch.testing.assert_close(net.dist_inputs(features), expected)
    torch.testing.assert_close(net.q_values(features), expected)
    torch.testing.assert_close(net(features), expected)
