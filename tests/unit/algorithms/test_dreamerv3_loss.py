"""DreamerV3's losses by hand and by slow loops, and which parameters each of them moves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from thread_ranks import on_ranks
from torch import Tensor

from trainables.core.data.features import PREV_ACTION, VECTOR, FeatureSpec
from trainables.core.distributions.categorical import Categorical
from trainables.core.learning.ranks import Ranks
from trainables.core.networks.world_model.dreamer import Dreamer
from trainables.core.networks.world_model.latents import Drawn, draw, unimix
from trainables.core.networks.world_model.rssm import Latent
from trainables.core.networks.world_model.sizes import ModelSize
from trainables.dreamerv3.dreaming import Dream, dream, dream_returns, dream_weights
from trainables.dreamerv3.losses import (
    Coefficients,
    critic_losses,
    divergences,
    dreamer_losses,
    observe,
    policy_losses,
    replay_critic_loss,
    world_model_losses,
)
from trainables.dreamerv3.return_range import return_scale, update_return_range

SIZE = ModelSize(deter=8, hidden=6, stoch=3, classes=4, units=5, layers=1, depth=2, blocks=2)
COEFFICIENTS = Coefficients(
    gamma=0.9,
    lambda_=0.8,
    horizon=4,
    entropy_scale=0.01,
    free_nats=0.0,
    dynamics=1.0,
    representation=0.1,
    replay_critic=0.3,
    slow_critic=1.0,
    range_decay=0.5,
)
ACTIONS = Categorical(2)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=stream(seed))


def make_module(num_mask: int = 0) -> Dreamer:
    spec = FeatureSpec(3, {}, {"": (0, 3)}, num_prev_action=2, num_mask=num_mask)
    module = Dreamer(spec, ACTIONS, {}, stream(), **SIZE.to_dict())
    for head in (module.reward, module.critic):  # whose zeros would give no gradient
        for parameter in head.parameters():
            parameter.data += 0.05 * randn(*parameter.shape, seed=3)
    return module


def make_batch(length: int = 6, size: int = 3) -> dict[str, Tensor]:
    """Sequence 0 has a terminal state in row 2, 1 a truncation there, 2 neither."""
    is_last = torch.zeros(length, size, dtype=torch.bool)
    is_last[2, :2] = True
    is_first = torch.zeros_like(is_last)
    is_first[3, :2] = True
    continues = torch.ones_like(is_last)
    continues[2, 0] = False
    return {
        f"features/{VECTOR}": randn(length, size, 3),
        f"features/{PREV_ACTION}": randn(length, size, 2, seed=1),
        "rewards": torch.where(is_first, 0.0, randn(length, size, seed=2)),
        "continues": continues,
        "valid": ~is_last,
        "is_first": is_first,
        "is_last": is_last,
        "state/h": randn(size, 8, seed=4),
        "state/z": torch.randint(0, 5, (size, 3), generator=stream(), dtype=torch.uint8),
    }


def start(count: int = 5) -> Latent:
    return Latent(randn(count, 8), draw(unimix(randn(count, 3, 4)), None))


# ---------------------------------------------------------------------- dreams


def test_returns_of_dreams_as_the_paper_writes_them() -> None:
    rewards, values, discounts = randn(4, 3), randn(5, 3, seed=1), torch.rand(4, 3)
    states = Drawn(None, torch.zeros(5, 3, 1, dtype=torch.int64), 2)
    dreamed = Dream(states, torch.zeros(4, 3), None, rewards, discounts)
    expected = values[-1]
    rows = []
    for t in reversed(range(4)):
        ahead = (1 - 0.8) * values[t + 1] + 0.8 * expected
        expected = rewards[t] + discounts[t] * ahead
        rows.append(expected)
    torch.testing.assert_close(dream_returns(dreamed, values, 0.8), torch.stack(rows[::-1]))


def test_steps_count_as_they_are_likely_to_be_reached() -> None:
    begins = torch.tensor([1.0, 0.0])
    discounts = torch.tensor([[0.9, 0.9], [0.5, 0.9], [0.1, 0.9]])
    found = dream_weights(begins, discounts)
    torch.testing.assert_close(found[:, 0], torch.tensor([1.0, 0.9, 0.45]))
    assert not found[:, 1].any()


def test_a_dream_goes_on_as_the_model_and_the_actor_say() -> None:
    module = make_module()
    dreamed = dream(module, start(), 3, ACTIONS, stream(7))
    assert dreamed.states.features.shape == (4, 5, 8 + 12) and dreamed.actions.shape == (3, 5)
    assert not dreamed.states.features.requires_grad and dreamed.masks is None
    generator, latent = stream(7), start()
    noise = torch.rand(3, 5, 3, generator=generator)
    with torch.no_grad():
        for t in range(3):
            torch.testing.assert_close(dreamed.states.features[t], latent.features)
            actions = ACTIONS.sample(module.actor(latent.features), generator)
            assert torch.equal(actions, dreamed.actions[t])
            latent = module.rssm.dream(latent, ACTIONS.encode(actions), noise[t])
            reward = module.reward.mean(module.reward(latent.features))
            # Some bins are half a billion: they show how the sums of columns round.
            torch.testing.assert_close(dreamed.rewards[t], reward, rtol=1e-4, atol=1e-4)
            going_on = module.continuation(latent.features).squeeze(-1).sigmoid()
            torch.testing.assert_close(dreamed.discounts[t], going_on)


def test_dreams_know_which_actions_are_probably_allowed() -> None:
    module = make_module(num_mask=2)
    last: Any = module.decoder.vector
    with torch.no_grad():
        last[-1].weight[3:] = 0.0
        last[-1].bias[3:] = torch.tensor([-5.0, 5.0])
    dreamed = dream(module, start(50), 3, ACTIONS, stream())
    assert (dreamed.actions == 1).all()
    assert dreamed.masks is not None and torch.equal(
        dreamed.masks[0, 0], torch.tensor([False, True])
    )


# ---------------------------------------------------------------------- actor and critic


def test_the_policy_follows_advantages_and_keeps_its_entropy() -> None:
    logp, entropies = torch.tensor([[-1.0, -2.0]]), torch.tensor([[0.5, 0.25]])
    advantages, weights = torch.tensor([[2.0, -3.0]]), torch.tensor([[1.0, 0.5]])
    found = policy_losses(logp, entropies, advantages, weights, 0.1)
    expected = [-(-1.0 * 2.0 + 0.1 * 0.5), -0.5 * (-2.0 * -3.0 + 0.1 * 0.25)]
    assert found[0].tolist() == pytest.approx(expected)


def test_the_range_of_returns_moves_slowly_and_is_at_least_one() -> None:
    moving, returns = torch.zeros(2), torch.arange(101.0).view(1, 101)
    update_return_range(moving, returns / 1000, 0.5)
    torch.testing.assert_close(moving, torch.tensor([0.0025, 0.0475]))
    assert return_scale(moving) == 1
    update_return_range(moving, returns, 0.5)
    torch.testing.assert_close(moving, torch.tensor([2.50125, 47.52375]))
    assert return_scale(moving).item() == pytest.approx(47.52375 - 2.50125)


def test_learners_that_train_together_have_one_range() -> None:
    parts = [torch.arange(50.0), torch.arange(50.0, 101.0)]

    def update(ranks: Ranks) -> Tensor:
        moving = torch.zeros(2)
        update_return_range(moving, parts[ranks.rank], 0.0, ranks)
        return moving

    for moving in on_ranks(2, update):
        torch.testing.assert_close(moving, torch.tensor([5.0, 95.0]))


def test_the_critic_learns_returns_and_stays_near_its_slow_copy() -> None:
    module, slow = make_module(), make_module().critic
    slow.layers[-1].bias.data += randn(255)  # type: ignore[operator]
    states, targets = randn(4, 20), torch.tensor([0.0, 1.0, -5.0, 100.0])
    logits = module.critic(states)
    found = critic_losses(module.critic, logits, targets, slow, states, COEFFICIENTS)
    [of_targets] = module.critic.losses(logits, targets)
    [of_slow] = module.critic.losses(logits, slow.mean(slow(states)))
    torch.testing.assert_close(found, of_targets + of_slow)


def test_returns_of_replayed_rows_by_a_slow_loop() -> None:
    module, batch = make_module(), make_batch()
    observed = observe(module, batch, stream())
    boot = randn(6, 3, seed=9)
    found = replay_critic_loss(module, batch, observed, boot, module.critic, COEFFICIENTS)
    total, count = 0.0, 0
    for n in range(3):
        returns = [0.0] * 6
        for t in reversed(range(5)):
            if not batch["valid"][t, n]:
                continue  # a last observation: nobody acted there
            ahead = boot[t + 1, n].item()
            if t < 4 and batch["valid"][t + 1, n]:
                ahead = 0.2 * ahead + 0.8 * returns[t + 1]
            discount = 0.9 * batch["continues"][t + 1, n].item()
            returns[t] = batch["rewards"][t + 1, n].item() + discount * ahead
            states = observed.latents.features[t, n]
            logits = module.critic(states)
            slow = module.critic.mean(logits.detach())
            [loss] = module.critic.losses(logits, torch.tensor(returns[t]))
            [near] = module.critic.losses(logits, slow)
            total += (loss + near).item()
            count += 1
    assert count == 13
    assert found.item() == pytest.approx(total / count, rel=1e-4)


# ---------------------------------------------------------------------- the world model


def test_the_rows_of_last_observations_are_learned_from_and_first_ones_have_no_reward() -> None:
    module, batch = make_module(), make_batch()
    observed = observe(module, batch, stream())
    found = world_model_losses(module, batch, observed, COEFFICIENTS)
    states = observed.latents.features
    [rewards] = module.reward.losses(module.reward(states), batch["rewards"])
    torch.testing.assert_close(found["reward"], rewards.masked_fill(batch["is_first"], 0.0))
    for t in range(6):
        for n in range(3):
            target = 0.9 * batch["continues"][t, n].item()
            logit = module.continuation(states[t, n]).item()
            likely = 1 / (1 + math.exp(-logit))
            expected = -target * math.log(likely) - (1 - target) * math.log(1 - likely)
            assert found["continuation"][t, n].item() == pytest.approx(expected, rel=1e-3)
    assert found["decoder"].shape == (6, 3)


@pytest.mark.parametrize("free_nats", [0.0, 1e3])
def test_a_divergence_moves_one_side_and_below_the_bound_none(free_nats: float) -> None:
    logits = [(3 * randn(2, 3, 4, seed=s)).requires_grad_() for s in (1, 2)]
    posterior, prior = map(unimix, logits)
    dynamics, representation = divergences(posterior, prior, free_nats)
    assert (dynamics >= free_nats).all()
    torch.testing.assert_close(dynamics, representation)
    for loss, moved in ((dynamics, 1), (representation, 0)):
        gradients = torch.autograd.grad(
            loss.sum(), logits, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        assert not gradients[1 - moved].any()
        assert gradients[moved].any() == (free_nats == 0)


# Of each loss the parts that it moves, and of the RSSM those layers that it does not.
MOVES = {
    "decoder": {"encoder", "rssm", "decoder"},
    "reward": {"encoder", "rssm", "reward"},
    "continuation": {"encoder", "rssm", "continuation"},
    "dynamics": {"encoder", "rssm"},
    "representation": {"encoder", "rssm"},
    "policy": {"actor"},
    "critic": {"critic"},
    "replay_critic": {"encoder", "rssm", "critic"},
}
NO_PRIOR = {"decoder", "reward", "continuation", "representation", "replay_critic"}


@pytest.mark.parametrize("name", MOVES)
def test_which_parameters_each_loss_moves(name: str) -> None:
    """`trainables/dreamerv3/losses.py` has the table in words."""
    module, batch = make_module(), make_batch()
    slow = make_module().critic
    losses, _ = dreamer_losses(module, batch, slow, ACTIONS, COEFFICIENTS, stream())
    assert losses.keys() == MOVES.keys()
    losses[name].backward()
    moved = {n for n, p in module.named_parameters() if p.grad is not None and p.grad.any()}
    assert {n.partition(".")[0] for n in moved} == MOVES[name]
    if "rssm" in MOVES[name]:
        has_prior = any(n.startswith("rssm.prior") for n in moved)
        assert has_prior == (name not in NO_PRIOR)
    assert all(p.grad is None or not p.grad.any() for p in slow.parameters())


def test_what_the_loss_leaves_for_the_replay_buffer() -> None:
    module, batch = make_module(), make_batch()
    dreamer_losses(module, batch, module.critic, ACTIONS, COEFFICIENTS, stream(5))
    observed = observe(module, batch, stream(5))
    assert torch.equal(batch["after/h"], observed.latents.h)
    latents = module.latents_of({"h": batch["after/h"], "z": batch["after/z"]})
    torch.testing.assert_close(latents.z, observed.latents.z.detach().round())


def test_rows_of_no_episode_count_nothing() -> None:
    """An environment that failed shows something there, nobody knows what."""
    module, batch = make_module(), make_batch()
    batch["valid"][5] = False
    losses = []
    for filler in (0.0, 7.0):
        other = {name: column.clone() for name, column in batch.items()}
        other[f"features/{VECTOR}"][5] = filler
        found, _ = dreamer_losses(module, other, module.critic, ACTIONS, COEFFICIENTS, stream())
        losses.append({n: v for n, v in found.items() if n not in ("policy", "critic")})
    for name in ("decoder", "reward", "continuation", "dynamics", "representation"):
        assert torch.equal(losses[0][name], losses[1][name]), name
    assert np.isfinite([v.item() for v in losses[0].values()]).all()


# ---------------------------------------------------------------------- bfloat16


def test_products_in_bfloat16_change_losses_and_gradients_by_a_little() -> None:
    """Losses, and the gradient of every parameter, are float32."""
    losses, gradients = [], []
    for products in (None, torch.bfloat16):
        module, batch = make_module(), make_batch(20, 16)
        found, metrics = dreamer_losses(
            module, batch, make_module().critic, ACTIONS, COEFFICIENTS, stream(), products=products
        )
        torch.stack(list(found.values())).sum().backward()
        for name, value in {**found, **metrics, "after/h": batch["after/h"]}.items():
            assert value.dtype == torch.float32, name
        losses.append({name: value.item() for name, value in found.items()})
        gradients.append({name: p.grad for name, p in module.named_parameters()})
    assert losses[0] != losses[1]
    for name, loss in losses[0].items():
        assert losses[1][name] == pytest.approx(loss, rel=0.03), name
    for name, exact in gradients[0].items():
        rounded = gradients[1][name]
        assert exact is not None and rounded is not None and rounded.dtype == torch.float32, name
        cosine = torch.cosine_similarity(exact.flatten(), rounded.flatten(), dim=0)
        assert cosine > 0.9, name
