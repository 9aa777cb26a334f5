"""The world model's parts against numbers worked by hand and slow, obvious loops."""

from __future__ import annotations

import copy
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from trainables.core.data.features import PREV_ACTION, VECTOR, FeatureSpec, ImageSpec
from trainables.core.distributions.base import Distribution
from trainables.core.distributions.build import distribution_for
from trainables.core.distributions.categorical import Categorical
from trainables.core.networks.world_model.actor import restless
from trainables.core.networks.world_model.decoder import Decoder
from trainables.core.networks.world_model.dreamer import Dreamer
from trainables.core.networks.world_model.encoder import TokenEncoder
from trainables.core.networks.world_model.images import (
    ImageDecoder,
    ImageTokens,
    enlarged,
    squeezed,
    stage_sizes,
    unsqueezed,
)
from trainables.core.networks.world_model.latents import (
    Drawn,
    draw,
    entropy,
    kl,
    packed,
    unimix,
    unpacked,
)
from trainables.core.networks.world_model.layers import (
    BlockLinear,
    Normed,
    RMSNorm,
    linear_layer,
    linear_of_drawn,
    scaled_to_one,
)
from trainables.core.networks.world_model.rssm import RSSM, Latent
from trainables.core.networks.world_model.sizes import ModelSize
from trainables.core.networks.world_model.symlog import symexp, symlog
from trainables.core.networks.world_model.two_hot import (
    TwoHotHead,
    two_hot_bins,
    two_hot_losses,
    two_hot_mean,
)

SIZE = ModelSize(deter=16, hidden=6, stoch=3, classes=4, units=5, layers=2, depth=2, blocks=4)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=stream(seed))


def make_rssm() -> RSSM:
    return RSSM(num_tokens=7, num_actions=2, size=SIZE, generator=stream())


# ---------------------------------------------------------------------- symlog and two-hot


def test_symlog_squeezes_and_symexp_takes_it_back() -> None:
    x = torch.tensor([-1000.0, -1.0, 0.0, 0.5, 3.0, 1e6])
    expected = [math.copysign(math.log(1 + abs(v)), v) for v in x.tolist()]
    torch.testing.assert_close(symlog(x), torch.tensor(expected))
    torch.testing.assert_close(symexp(symlog(x)), x, rtol=1e-4, atol=1e-6)


def test_two_hot_bins_are_symmetric_and_wide() -> None:
    bins = two_hot_bins()
    assert len(bins) == 255 and bins[127] == 0
    assert torch.equal(bins, -bins.flip(0))
    assert bins[-1] == pytest.approx(math.exp(20) - 1, rel=1e-5)
    assert (bins.diff() > 0).all()


def test_two_hot_losses_share_a_number_between_its_neighbours() -> None:
    bins, logits = two_hot_bins(), randn(9, 255)
    targets = torch.tensor([0.0, 0.5, -0.5, 3.7, -250.0, 1e5, 1e12, -1e12, float(bins[3])])
    found = two_hot_losses(logits.log_softmax(-1), targets, bins)
    for row, target in enumerate(targets.tolist()):
        target = min(max(target, float(bins[0])), float(bins[-1]))
        probs = torch.zeros(255, dtype=torch.float64)
        below = max(i for i in range(255) if bins[i] <= target)
        above = min(i for i in range(255) if bins[i] >= target)
        if below == above:
            probs[below] = 1.0
        else:
            width = float(bins[above] - bins[below])
            probs[above] = (target - float(bins[below])) / width
            probs[below] = 1 - probs[above]
        expected = -(probs * logits[row].double().log_softmax(-1)).sum()
        assert found[row].item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_head_predicts_nothing_at_first_and_then_what_it_was_told() -> None:
    head = TwoHotHead(4, [32], stream())
    x = randn(6, 4)
    assert (head.mean(head(x)) == 0).all()
    targets = torch.tensor([-300.0, -2.5, 0.0, 0.25, 7.0, 4000.0])
    optimizer = torch.optim.Adam(head.parameters(), 0.03)
    for _ in range(400):
        [losses] = head.losses(head(x), targets)
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
    torch.testing.assert_close(head.mean(head(x)), targets, rtol=0.1, atol=0.1)


def test_a_mean_is_that_of_the_bins() -> None:
    logits, bins = 3 * randn(5, 255), two_hot_bins()
    expected = (logits.double().softmax(-1) * bins.double()).sum(-1)
    torch.testing.assert_close(two_hot_mean(logits, bins).double(), expected, rtol=1e-4, atol=1e2)


# ---------------------------------------------------------------------- layers


def test_rms_norm() -> None:
    norm, x = RMSNorm(4), randn(3, 4)
    norm.scale.data = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for row, found in zip(x.tolist(), norm(x).tolist(), strict=True):
        root = math.sqrt(sum(v * v for v in row) / 4 + 1e-4)
        assert found == pytest.approx([(i + 1) * v / root for i, v in enumerate(row)], rel=1e-5)


@pytest.mark.parametrize("dim", [1, -1])
def test_the_gradient_of_a_norm_is_that_of_its_formula(dim: int) -> None:
    shape = [3, 5, 4]
    x, gradient = randn(*shape).requires_grad_(), randn(*shape, seed=1)
    scale = randn(shape[dim], seed=2).view(-1, *[1] * (len(shape) - 1 - dim % 3)).requires_grad_()
    found = scaled_to_one(x, scale, dim)
    expected = x / torch.sqrt(x.square().mean(dim, keepdim=True) + 1e-4) * scale
    torch.testing.assert_close(found, expected)
    for own, other in zip(
        torch.autograd.grad(found, (x, scale), gradient),
        torch.autograd.grad(expected, (x, scale), gradient),
        strict=True,
    ):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("num_rows", [5, 1500])
@pytest.mark.parametrize("deter", [0, 6])
def test_a_layer_adds_up_the_columns_of_drawn_classes(num_rows: int, deter: int) -> None:
    layer = linear_layer(deter + 3 * 4, 7, 1.0, stream())
    layer.bias.data = randn(7, seed=1)
    h = randn(2, num_rows, deter, seed=2) if deter else None
    drawn = Drawn(h, torch.randint(4, (2, num_rows, 3), generator=stream()), 4)
    found, expected = linear_of_drawn(layer, drawn), layer(drawn.features)
    torch.testing.assert_close(found, expected)
    gradient = randn(2, num_rows, 7, seed=3)
    for own, other in zip(
        torch.autograd.grad(found, (layer.weight, layer.bias), gradient),
        torch.autograd.grad(expected, (layer.weight, layer.bias), gradient),
        strict=True,
    ):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4)
    normed = Normed(deter + 3 * 4, 7, stream())
    torch.testing.assert_close(normed(drawn), normed(drawn.features))


def test_block_linear_is_a_block_diagonal_matrix() -> None:
    layer, x = BlockLinear(8, 12, 4, stream()), randn(5, 8)
    layer.bias.data = randn(12, seed=1)
    dense = torch.block_diag(*layer.weight)
    torch.testing.assert_close(layer(x), x @ dense + layer.bias)


def test_weights_are_normal_by_fan_in_and_cut_off() -> None:
    weight = linear_layer(400, 500, 2.0, stream()).weight
    assert weight.std().item() == pytest.approx(2 / 20, rel=0.02)
    assert weight.abs().max() <= 2 * 2 / 20 / 0.8796 + 1e-6
    assert not linear_layer(4, 4, 0.0, stream()).weight.any()


# ---------------------------------------------------------------------- latents


def test_unimix_leaves_no_class_impossible() -> None:
    logits = torch.tensor([[0.0, 100.0, -100.0, 0.0]])
    probs = unimix(logits).exp()
    torch.testing.assert_close(probs, torch.tensor([[0.0025, 0.9925, 0.0025, 0.0025]]))
    assert probs.sum().item() == pytest.approx(1.0)


def test_draws_are_as_likely_as_their_classes() -> None:
    log_probs = unimix(randn(1, 3, 4)).expand(20_000, 3, 4)
    drawn = draw(log_probs, torch.rand(20_000, 3, generator=stream()))
    torch.testing.assert_close(drawn.mean(0), log_probs[0].exp(), atol=0.02, rtol=0)
    assert torch.equal(draw(log_probs[:1], None).argmax(-1), log_probs[:1].argmax(-1))


@pytest.mark.parametrize(("noise", "number"), [(0.0, 0), (1 - 2**-24, 3)])
def test_the_ends_of_the_noise_are_the_ends_of_the_classes(noise: float, number: int) -> None:
    drawn = draw(unimix(randn(50, 3, 4)), torch.full((50, 3), noise))
    assert (drawn.argmax(-1) == number).all()
    torch.testing.assert_close(drawn.sum(-1), torch.ones(50, 3))


def test_a_draw_has_the_gradient_of_its_probabilities() -> None:
    logits = randn(2, 3, 4).requires_grad_()
    weights, noise = randn(2, 3, 4, seed=1), torch.rand(2, 3, generator=stream(2))
    (draw(unimix(logits), noise) * weights).sum().backward()
    found, logits.grad = logits.grad, None
    (unimix(logits).exp() * weights).sum().backward()
    torch.testing.assert_close(found, logits.grad)


def test_divergence_and_entropy_are_sums_over_variables_and_classes() -> None:
    p, q = unimix(randn(2, 3, 4)), unimix(randn(2, 3, 4, seed=1))
    for row in range(2):
        divergence = spread = 0.0
        for s in range(3):
            for k in range(4):
                a, b = p[row, s, k].item(), q[row, s, k].item()
                divergence += math.exp(a) * (a - b)
                spread -= math.exp(a) * a
        assert kl(p, q)[row].item() == pytest.approx(divergence, rel=1e-4)
        assert entropy(p)[row].item() == pytest.approx(spread, rel=1e-4)


def test_stored_latents_come_back_and_nothing_stays_nothing() -> None:
    drawn = draw(unimix(randn(5, 3, 4)), torch.rand(5, 3, generator=stream())).detach().round()
    drawn[2] = 0
    stored = packed(drawn)
    assert stored.dtype == torch.uint8 and not stored[2].any()
    torch.testing.assert_close(unpacked(stored, 4), drawn)


# ---------------------------------------------------------------------- the state-space model


def test_the_block_gru_of_one_row_written_out() -> None:
    rssm = make_rssm()
    before, action = Latent(randn(1, 16), draw(unimix(randn(1, 3, 4)), None)), randn(1, 2)
    with torch.no_grad():
        new = torch.cat(
            [rssm.from_h(before.h), rssm.from_z(before.z.flatten(1)), rssm.act_inputs(action)], 1
        )
        mixed = new @ rssm.mix_inputs.weight.T + before.h @ torch.block_diag(*rssm.mix_h.weight)
        mixed = torch.nn.functional.silu(rssm.mix_norm(mixed))
        gates = (mixed @ torch.block_diag(*rssm.gates.weight))[0].tolist()
        expected = []
        for unit, old in enumerate(before.h[0].tolist()):
            block, place = divmod(unit, 4)  # a block has 4 units, and 4 of each gate in a row
            reset, candidate, update = (gates[12 * block + 4 * g + place] for g in range(3))
            candidate = math.tanh(candidate / (1 + math.exp(-reset)))
            share = 1 / (1 + math.exp(-(update - 1)))
            expected.append(share * candidate + (1 - share) * old)
        found = rssm.advance(before, rssm.act_inputs(action))[0].tolist()
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_large_actions_are_scaled_back() -> None:
    rssm = make_rssm()
    assert torch.equal(
        rssm.act_inputs(torch.tensor([[5.0, -0.5]])), rssm.act_inputs(torch.tensor([[1.0, -0.5]]))
    )


def sequences(length: int = 6, batch: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    is_first = torch.zeros(length, batch, dtype=torch.bool)
    is_first[0, 0] = is_first[3, 1] = is_first[3, 2] = is_first[4, 2] = True
    noise = torch.rand(length, batch, 3, generator=stream(4))
    return randn(length, batch, 7), randn(length, batch, 2, seed=1), is_first, noise


def test_steps_one_by_one_are_the_sequence() -> None:
    rssm, (tokens, actions, is_first, noise) = make_rssm(), sequences()
    before = Latent(randn(3, 16, seed=5), draw(unimix(randn(3, 3, 4)), None).detach())
    whole = rssm.observe(tokens, actions, is_first, before, noise)
    for t in range(len(tokens)):
        row = slice(t, t + 1)
        step = rssm.observe(tokens[row], actions[row], is_first[row], before, noise[row])
        for name in ("posterior", "prior"):
            torch.testing.assert_close(getattr(step, name)[0], getattr(whole, name)[t])
        before = Latent(step.latents.h[0], step.latents.z[0])
        torch.testing.assert_close(before.h, whole.latents.h[t])
        torch.testing.assert_close(before.z, whole.latents.z[t])


def test_an_episode_that_begins_amid_a_sequence_knows_nothing_of_before() -> None:
    rssm, (tokens, actions, is_first, noise) = make_rssm(), sequences()
    whole = rssm.observe(tokens, actions, is_first, rssm.initial(3), noise)
    later = slice(3, None)
    own = rssm.observe(
        tokens[later],
        99 * actions[later],
        is_first[later],
        Latent(randn(3, 16), randn(3, 3, 4)),
        noise[later],
    )
    # The action that led to a first row counts no more than the state.
    torch.testing.assert_close(own.latents.h[0, 1:], whole.latents.h[3, 1:])
    assert not torch.allclose(own.latents.h[0, 0], whole.latents.h[3, 0])


def test_what_is_dreamed_is_drawn_from_the_prior() -> None:
    rssm, before = make_rssm(), Latent(randn(3, 16), draw(unimix(randn(3, 3, 4)), None))
    actions, noise = randn(3, 2), torch.rand(3, 3, generator=stream())
    dreamed = rssm.dream(before, actions, noise)
    h = rssm.advance(before, rssm.act_inputs(actions))
    torch.testing.assert_close(dreamed.h, h)
    torch.testing.assert_close(dreamed.z, draw(rssm.prior_of(h), noise))
    drawn = Drawn(before.h, before.z.argmax(-1), before.z.shape[-1])
    by_classes = rssm.dream_on(drawn, actions, noise)
    torch.testing.assert_close(by_classes.h, dreamed.h)
    torch.testing.assert_close(by_classes.z, dreamed.z)


# ---------------------------------------------------------------------- observations


@pytest.mark.parametrize("size", [(6, 8), (9, 12), (5, 7)])
def test_a_convolution_of_enlarged_images_by_enlarging_them(size: tuple[int, int]) -> None:
    layer, x = torch.nn.Conv2d(2, 3, 5, padding=2), randn(2, 2, 3, 4).requires_grad_()
    found, expected = enlarged(layer, x, size), layer(torch.nn.functional.interpolate(x, size=size))
    torch.testing.assert_close(found, expected)
    gradient = randn(2, 3, *size, seed=1)
    for own, other in zip(
        torch.autograd.grad(found, (x, *layer.parameters()), gradient),
        torch.autograd.grad(expected, (x, *layer.parameters()), gradient),
        strict=True,
    ):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((84, 84), [(42, 42), (21, 21), (7, 7)]),
        ((64, 64), [(32, 32), (16, 16), (8, 8), (4, 4)]),
        ((3, 20), [(3, 10), (3, 5)]),
        ((1, 1), [(1, 1)]),
    ],
)
def test_images_shrink_to_seven_pixels_at_most(
    size: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    assert stage_sizes(size) == expected


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("scale", [255.0, 1.0])
@pytest.mark.parametrize("size", [(84, 84), (10, 7), (3, 3)])
def test_images_there_and_back(size: tuple[int, int], scale: float, channels_first: bool) -> None:
    shape = (3, *size) if channels_first else (*size, 3)
    image = ImageSpec(shape, channels_first, scale)
    images = torch.rand(2, 4, *shape, generator=stream()) * (255 if scale == 255 else 9)
    encoder = ImageTokens(image, 2, stream())
    tokens = encoder(images)
    assert tokens.shape == (2, 4, encoder.width)
    decoded = ImageDecoder(5, image, 2, stream())(randn(2, 4, 5))
    assert decoded.shape == squeezed(images, image).shape == (2, 4, 3, *size)
    torch.testing.assert_close(
        unsqueezed(squeezed(images, image), image), images, rtol=1e-4, atol=1e-3
    )


def test_a_decoder_sums_the_errors_of_all_parts() -> None:
    image = ImageSpec((8, 8, 1), False, 255.0)
    spec = FeatureSpec(3, {"eye": image}, {"body": (0, 3)}, num_mask=2)
    decoder = Decoder(5, spec, SIZE, stream())
    states = randn(4, 5)
    features = {
        VECTOR: 10 * randn(4, 3, seed=1),
        "eye": torch.randint(0, 256, (4, 8, 8, 1), generator=stream(), dtype=torch.uint8),
        "@action_mask": torch.tensor([[True, False]] * 4),
    }
    assert TokenEncoder(spec, SIZE, stream())(features).shape[0] == 4
    predicted = decoder(states)
    found = decoder.losses(states, features)
    for row in range(4):
        vector = (symlog(predicted[VECTOR][row]) - symlog(features[VECTOR][row])).square().sum()
        pixels = ((predicted["eye"][row] - features["eye"][row]) / 255).square().sum()
        logits = decoder.vector(states)[row, 3:].tolist()  # type: ignore[misc]
        mask = math.log(1 + math.exp(-logits[0])) + math.log(1 + math.exp(logits[1]))
        assert found[row].item() == pytest.approx((vector + pixels).item() + mask, rel=1e-3)
    mask_found = decoder.mask(states)
    assert mask_found is not None and torch.equal(mask_found, predicted["@action_mask"])


# ---------------------------------------------------------------------- the actor


def probabilities(distribution: Distribution, inputs: Tensor) -> Tensor:
    actions = torch.arange(distribution.num_inputs)
    return distribution.logp(inputs.expand(len(actions), -1), actions).exp()


def test_no_action_is_ever_certain() -> None:
    inputs = restless(Categorical(4), torch.tensor([1000.0, 0, 0, 0]))
    torch.testing.assert_close(
        probabilities(Categorical(4), inputs), torch.tensor([0.9925, 0.0025, 0.0025, 0.0025])
    )


def test_gaussians_stay_between_bounds() -> None:
    distribution = distribution_for(gym.spaces.Box(-1, 1, (2,), np.float32))
    mean, log_std = restless(distribution, 100 * randn(50, 4)).chunk(2, -1)
    assert mean.abs().max() <= 1
    assert log_std.exp().min() >= 0.1 - 1e-6 and log_std.exp().max() <= 1 + 1e-6
    start = restless(distribution, torch.zeros(1, 4))
    assert start[0, 2:].exp().tolist() == pytest.approx([0.1 + 0.9 / (1 + math.exp(-2))] * 2)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.MultiDiscrete([2, 3]),
        gym.spaces.MultiBinary(3),
        gym.spaces.Tuple((gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,), np.float32))),
    ],
)
def test_actions_of_every_kind_have_a_gradient(space: gym.Space) -> None:
    distribution = distribution_for(space)
    outputs = (3 * randn(6, distribution.num_inputs)).requires_grad_()
    inputs = restless(distribution, outputs)
    actions = distribution.sample(inputs.detach(), stream())
    logp, entropies = distribution.logp_and_entropy(inputs, actions)
    (logp + entropies).sum().backward()
    assert inputs.isfinite().all() and outputs.grad is not None
    assert outputs.grad.isfinite().all() and outputs.grad.abs().min() > 0


# ---------------------------------------------------------------------- the whole module


def make_dreamer() -> Dreamer:
    spec = FeatureSpec(3, {}, {"": (0, 3)}, num_prev_action=2)
    return Dreamer(spec, Categorical(2), {}, stream(), **SIZE.to_dict())


def test_acting_step_by_step_is_the_sequence() -> None:
    module, length = make_dreamer(), 5
    features = {VECTOR: randn(length, 2, 3), PREV_ACTION: randn(length, 2, 2, seed=1)}
    is_first = torch.zeros(length, 2, dtype=torch.bool)
    is_first[2, 1] = True
    state = module.initial_state(2)
    whole, after = module.unroll_inputs(features, state, is_first)
    for t in range(length):
        row = {name: part[t : t + 1] for name, part in features.items()}
        inputs, state = module.unroll_inputs(row, state, is_first[t : t + 1])
        torch.testing.assert_close(inputs[0], whole[t])
    for name, part in after.items():
        torch.testing.assert_close(state[name], part)


def test_the_stream_of_the_latents_is_its_owners() -> None:
    """With one they are drawn, without they are the most likely ones; copies have none."""
    module = make_dreamer()
    features = {VECTOR: randn(8, 2, 3), PREV_ACTION: randn(8, 2, 2, seed=1)}
    is_first, state = torch.zeros(8, 2, dtype=torch.bool), module.initial_state(2)

    def inputs(of: Dreamer) -> Tensor:
        return of.unroll_inputs(features, state, is_first)[0]

    greedy = inputs(module)
    assert torch.equal(greedy, inputs(module))
    module.set_noise(stream(1))
    drawn = inputs(module)
    assert not torch.equal(drawn, greedy)
    module.set_noise(stream(1))
    assert torch.equal(inputs(module), drawn)
    assert torch.equal(inputs(copy.deepcopy(module)), greedy)
