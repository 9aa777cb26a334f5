"""The settings inside the `model` and `optimizer` dicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from trainables.core.compatibility import MODEL_PLANNED
from trainables.core.settings import ConfigError, Settings, setting

ACTIVATIONS = ("tanh", "relu", "elu", "gelu", "silu", "swish", "leaky_relu", "linear")


@dataclass
class ModelConfig(Settings):
    """Settings of the networks, given as `model={…}`."""

    what: ClassVar[str] = "model setting"

    fcnet_hiddens: list[int] = setting(
        [64, 64], "model", "widths of the hidden layers, units", ge=1
    )
    fcnet_activation: str = setting(
        "tanh", "model", "activation after each hidden layer", choices=ACTIVATIONS
    )
    fcnet_initializer: str = setting(
        "orthogonal",
        "model",
        "orthogonal (gain sqrt 2; last layers 0.01 for the policy, 1 for the value) or PyTorch's",
        choices=("orthogonal", "default"),
    )
    vf_share_layers: bool = setting(
        False, "model", "policy and value function share their hidden layers"
    )
    free_log_std: bool = setting(
        True, "model", "Gaussian log sigma is a free parameter, not an output of the network"
    )
    initial_log_std: float = setting(
        0.0, "model", "log sigma of a Gaussian policy at the start", ge=-20, le=2
    )
    squash_actions: bool = setting(
        False, "model", "tanh-squashed Gaussian instead of one that is clipped at the bounds"
    )

    @classmethod
    def unknown(cls, name: str) -> ConfigError:
        if name in MODEL_PLANNED:
            return ConfigError(
                f"model setting {name!r} is not supported yet ({MODEL_PLANNED[name]})"
            )
        return super().unknown(name)

    @classmethod
    def known_names(cls) -> Iterable[str]:
        return [*cls.settings(), *MODEL_PLANNED]


@dataclass
class OptimizerConfig(Settings):
    """Settings of the optimiser, given as `optimizer={…}`. The learning rate is `lr`."""

    what: ClassVar[str] = "optimizer setting"

    type: str = setting(
        "adam",
        "optimizer",
        "update rule",
        choices=("adam", "adamw", "rmsprop", "sgd"),
        fixed="what one optimiser has learned means nothing to another",
    )
    eps: float = setting(1e-5, "optimizer", "added to the denominator (adam, adamw, rmsprop)", gt=0)
    beta1: float = setting(0.9, "optimizer", "decay of the mean (adam, adamw)", ge=0, lt=1)
    beta2: float = setting(0.999, "optimizer", "decay of the square (adam, adamw)", ge=0, lt=1)
    decay: float = setting(0.99, "optimizer", "decay of the square (rmsprop)", ge=0, lt=1)
    momentum: float = setting(0.0, "optimizer", "momentum (rmsprop, sgd)", ge=0, lt=1)
    weight_decay: float = setting(0.0, "optimizer", "weight decay, decoupled for adamw", ge=0)
