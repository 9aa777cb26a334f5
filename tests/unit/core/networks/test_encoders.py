"""Encoders: every image size, raw or scaled, any leading dimensions; and custom models."""

import re
from typing import Any

import pytest
import torch
from refusals import Golden, refusals
from torch import Tensor, nn

from trainables.core.config.conv_filters import default_filters
from trainables.core.config.model import ModelConfig
from trainables.core.data.features import VECTOR, Features, FeatureSpec, ImageSpec, vector_of
from trainables.core.errors import ConfigError
from trainables.core.networks.chosen.images import ImageEncoder, ImagesEncoder
from trainables.core.networks.encoders import VectorEncoder, make_encoder, network
from trainables.core.networks.layers import frozen


def model(**settings: Any) -> ModelConfig:
    return ModelConfig(**ModelConfig.check(settings))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def image_spec(
    height: int, width: int, channels: int = 3, *, first: bool = False, scale: float = 255.0
) -> ImageSpec:
    shape = (channels, height, width) if first else (height, width, channels)
    return ImageSpec(shape, first, scale)


def pixels(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=seeded(1))


# ---------------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("size", "width"),
    [(84, 64 * 7 * 7), (96, 64 * 8 * 8), (64, 64 * 4 * 4), (42, 64 * 7 * 7), (10, 16 * 8 * 8)],
)
def test_default_filters_of_common_sizes(size: int, width: int) -> None:
    assert ImageEncoder("", image_spec(size, size), model()).width == width


def test_filters_of_the_nature_paper() -> None:
    found = [(f.channels, f.kernel[0], f.stride[0]) for f in default_filters((84, 84))]
    assert found == [(32, 8, 4), (64, 4, 2), (64, 3, 1)]


def test_default_filters_fit_every_size_and_leave_little() -> None:
    sizes = [*range(1, 130), 160, 210, 500, 1000]
    for height in sizes:
        for width in (1, 2, 7, 84, height, 160):
            size, filters = (height, width), default_filters((height, width))
            for conv in filters:
                size = conv.output_size(size)
                assert min(size) >= 1, (height, width, filters)
            assert max(size) <= 12 and size[0] * size[1] * filters[-1].channels <= 64 * 144


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (3, 2), (7, 7), (24, 25), (210, 160)])
def test_images_of_any_size_are_encoded(size: tuple[int, int]) -> None:
    encoder = ImageEncoder("", image_spec(*size), model(), seeded())
    output = encoder(pixels(2, *size, 3))
    assert output.shape == (2, encoder.width) and output.isfinite().all() and output.std() > 0


def test_given_filters() -> None:
    encoder = ImageEncoder("", image_spec(20, 10), model(conv_filters=[[4, [8, 4], [4, 2]]]))
    assert encoder.width == 4 * 4 * 4
    assert ImageEncoder("", image_spec(2, 3), model(conv_filters=[])).width == 18


def test_filter_that_does_not_fit_is_named() -> None:
    settings = model(conv_filters=[[4, 8, 4], [8, 5, 1]])
    with pytest.raises(
        ConfigError, match=re.escape("filter 1 ([8, 5, 1]) does not fit the image 'camera/rgb' of")
    ):
        ImageEncoder("camera/rgb", image_spec(20, 20), settings)


def test_what_is_no_filter_is_refused(golden: Golden) -> None:
    cases = [[[4, 8]], [[4, 0, 1]], [[4, [2, 2, 2], 1]], [[True, 1, 1]]]
    golden(
        "encoders/what_is_no_filter_is_refused",
        refusals(lambda filters: model(conv_filters=filters), cases),
    )


# ---------------------------------------------------------------------- images


def test_bytes_equal_scaled_floats() -> None:
    raw = pixels(4, 12, 12, 3)
    scaled = ImageEncoder("", image_spec(12, 12), model(), seeded())
    plain = ImageEncoder("", image_spec(12, 12, scale=1.0), model(), seeded())
    torch.testing.assert_close(scaled(raw), plain(raw.float() / 255))
    unscaled = ImageEncoder("", image_spec(12, 12), model(scale_images=False), seeded())
    torch.testing.assert_close(unscaled(raw), plain(raw.float()))
    assert not torch.allclose(unscaled(raw), scaled(raw))
    assert plain(raw > 100).shape == (4, plain.width)  # bool, as MinAtar has it


def test_channels_first_equal_channels_last() -> None:
    raw = pixels(4, 12, 9, 3)
    last = ImageEncoder("", image_spec(12, 9), model(), seeded())
    first = ImageEncoder("", image_spec(12, 9, first=True), model(), seeded())
    torch.testing.assert_close(first(raw.movedim(-1, -3)), last(raw))


def test_many_images_without_gradients_equal_few() -> None:
    encoder, raw = ImageEncoder("", image_spec(6, 6), model(), seeded()), pixels(300, 2, 6, 6, 3)
    with torch.no_grad():
        chunked = encoder(raw)
    torch.testing.assert_close(chunked, encoder(raw))
    assert chunked.shape == (300, 2, encoder.width)


def test_convolutions_are_orthogonal_and_activated() -> None:
    encoder = ImageEncoder("", image_spec(12, 12), model(), seeded())
    conv = encoder.layers[0]
    assert isinstance(conv, nn.Conv2d) and conv.bias is not None
    rows = conv.weight.flatten(1)
    torch.testing.assert_close(rows @ rows.T, 2 * torch.eye(len(rows)), rtol=1e-4, atol=1e-4)
    assert not conv.bias.any() and encoder(pixels(3, 12, 12, 3)).min() == 0
    assert (
        ImageEncoder("", image_spec(12, 12), model(conv_activation="tanh"))(
            pixels(3, 12, 12, 3)
        ).min()
        < 0
    )


# ---------------------------------------------------------------------- all leaves together


SPEC = FeatureSpec(4, {"a/b": image_spec(7, 7), "c": image_spec(5, 5, 1, first=True)})


def random_features(*leading: int) -> dict[str, Tensor]:
    return {
        VECTOR: torch.randn(*leading, 4, generator=seeded(2)),
        "a/b": pixels(*leading, 7, 7, 3),
        "c": pixels(*leading, 1, 5, 5),
    }


def test_vector_and_images_side_by_side() -> None:
    encoder = make_encoder(SPEC, model(fcnet_hiddens=[]), seeded())
    assert isinstance(encoder, ImagesEncoder)
    features = random_features(6)
    output = encoder(features)
    assert output.shape == (6, encoder.width)
    assert torch.equal(output[:, -4:], features[VECTOR])
    for name in features:
        changed = {**features, name: features[name].roll(1, 0)}
        assert not torch.equal(encoder(changed), output)


@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (2, 3, 4)])
def test_any_leading_dimensions(leading: tuple[int, ...]) -> None:
    encoder = make_encoder(SPEC, model(fcnet_hiddens=[9]), seeded())
    features = random_features(*leading)
    output = encoder(features)
    assert output.shape == (*leading, 9)
    flat = {
        name: tensor.reshape(-1, *tensor.shape[len(leading) :]) for name, tensor in features.items()
    }
    torch.testing.assert_close(output.reshape(-1, 9), encoder(flat))


def test_images_are_encoded_once_beside_several_vectors() -> None:
    encoder = make_encoder(SPEC, model(fcnet_hiddens=[9]), seeded())
    assert isinstance(encoder, ImagesEncoder)
    features, vectors = random_features(6), torch.randn(6, 5, 4, generator=seeded(3))
    expected = [encoder({**features, VECTOR: vectors[:, i]}) for i in range(5)]
    seen = []
    for cnn in encoder.images:
        cnn.register_forward_hook(lambda _module, given, _output: seen.append(len(given[0])))
    torch.testing.assert_close(encoder.of_each(features, vectors), torch.stack(expected, 1))
    assert seen == [6, 6]


def test_a_vector_inside_a_dict() -> None:
    encoder = make_encoder(FeatureSpec(4, num_mask=2), model(), seeded())
    x = random_features(3)[VECTOR]
    assert torch.equal(encoder({VECTOR: x}), encoder(x))
    assert isinstance(encoder, VectorEncoder) and encoder.width == 64


def test_settings_of_images_without_an_image(golden: Golden) -> None:
    def act(name: str) -> None:
        values = {"conv_filters": [[1, 1, 1]], "conv_activation": "tanh", "scale_images": False}
        make_encoder(FeatureSpec(4), model(**{name: values[name]}))

    cases = ["conv_filters", "conv_activation", "scale_images"]
    golden("encoders/settings_of_images_without_an_image", refusals(act, cases))


def test_nothing_to_see() -> None:
    with pytest.raises(ConfigError, match="holds nothing that a network could see"):
        make_encoder(FeatureSpec(0, num_mask=2), model())


# ---------------------------------------------------------------------- frozen


@pytest.mark.parametrize("kind", ["vector", "images", "custom"])
def test_frozen_networks_give_gradients_to_their_input_alone(kind: str) -> None:
    spec = FeatureSpec(4) if kind != "images" else SPEC
    custom = {"custom_model": Doubled, "custom_model_config": {"units": 3}}
    net = network(spec, model(**(custom if kind == "custom" else {})), 2, generator=seeded())
    features = random_features(5)
    features[VECTOR].requires_grad_()
    x: Features = features if kind == "images" else features[VECTOR]
    torch.testing.assert_close(frozen(net, x), net(x))
    frozen(net, x).sum().backward()
    gradient = features[VECTOR].grad
    assert gradient is not None and gradient.any()
    assert all(parameter.grad is None for parameter in net.parameters())
    (expected,) = torch.autograd.grad(net(x).sum(), features[VECTOR])
    torch.testing.assert_close(gradient, expected)


# ---------------------------------------------------------------------- custom models


class Doubled(nn.Module):
    """Sees twice the vector."""

    def __init__(self, spec: FeatureSpec, units: int = 6, said: int | None = None):
        super().__init__()
        self.layer = nn.Linear(spec.num_features, units)
        self.width: Any = units if said is None else said

    def forward(self, features: Features) -> Tensor:
        vector = vector_of(features)
        assert vector is not None
        return self.layer(2 * vector)


def custom(named: Any, **settings: Any) -> ModelConfig:
    return model(custom_model=named, custom_model_config=settings)


@pytest.mark.parametrize("named", [Doubled, f"{__name__}:Doubled"])
def test_custom_model_by_class_and_by_name(named: Any) -> None:
    encoder = make_encoder(FeatureSpec(4), custom(named, units=7), seeded())
    assert encoder.width == 7 and encoder(torch.zeros(2, 3, 4)).shape == (2, 3, 7)


def test_a_seed_gives_a_custom_models_weights_too() -> None:
    before = torch.get_rng_state()
    weights = [
        make_encoder(FeatureSpec(4), custom(Doubled), seeded(s)).state_dict()["model.layer.weight"]
        for s in (0, 0, 1)
    ]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.get_rng_state(), before)


def not_a_class(spec: FeatureSpec) -> nn.Module:
    return Doubled(spec)


def test_custom_models_that_cannot_be(golden: Golden) -> None:
    cases = [
        (f"{__name__}:Missing", {}),
        (f"{__name__}:not_a_class", {}),
        (dict, {}),
        (Doubled, {"depth": 2}),
        (Doubled, {"said": 0}),
        ("Doubled", {}),
    ]
    golden(
        "encoders/custom_models_that_cannot_be",
        refusals(
            lambda named, settings: make_encoder(FeatureSpec(4), custom(named, **settings)), cases
        ),
    )


def test_custom_model_whose_output_is_not_as_wide_as_it_says() -> None:
    encoder = make_encoder(FeatureSpec(4), custom(Doubled, said=5))
    with pytest.raises(ConfigError, match=r"Doubled gave \(2, 6\), but its width is 5"):
        encoder(torch.zeros(2, 4))
