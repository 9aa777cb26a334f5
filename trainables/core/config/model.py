"""The settings inside the `model` and `optimizer` dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from trainables.core.callables import refuse_uncalled
from trainables.core.config.settings import CODE, MEMORY, Settings, is_search_domain, setting
from trainables.core.errors import ConfigError
from trainables.core.features import feature, feature_settings

ACTIVATIONS = ("tanh", "relu", "elu", "gelu", "silu", "swish", "leaky_relu", "linear")

LOG_STD_MIN = -5.0
"""Of a squashed Gaussian. SAC's paper has code that allows -20; below -5 a policy is as good as
deterministic and its log-probabilities only add noise to the entropy term."""
MAX_WIDTH = 16_384
"""Units of a layer."""
MAX_LAYERS = 100
MAX_WEIGHTS = 10**9
"""Of the hidden layers together: 4 GB, and three times that with an optimiser."""

_CELLS = ("use_lstm", "use_gru")
MEMORIES = (*_CELLS, "use_attention")
# Settings that are ignored unless one of the others is on.
_ONLY_WITH: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("lstm_cell_size", "lstm_use_prev_action", "lstm_use_prev_reward"), _CELLS),
    "max_seq_len": MEMORIES,
    **dict.fromkeys(
        (
            "attention_dim",
            "attention_num_transformer_units",
            "attention_num_heads",
            "attention_head_dim",
            "attention_memory_inference",
            "attention_position_wise_mlp_dim",
            "attention_init_gru_gate_bias",
            "attention_use_n_prev_actions",
            "attention_use_n_prev_rewards",
        ),
        ("use_attention",),
    ),
    "custom_model_config": ("custom_model",),
}
# Of which a custom model takes the place.
_ENCODER = ("fcnet_hiddens", "conv_filters", "conv_activation", "scale_images")
# The reference's names of initial weights: of each kind of layer, with a config each.
_INITIALIZERS = [
    f"{layer}_initializer{end}"
    for layer in [
        "fcnet_weights",
        "fcnet_bias",
        "post_fcnet_weights",
        "post_fcnet_bias",
        "conv_kernel",
        "conv_bias",
        "conv_transpose_kernel",
        "conv_transpose_bias",
        "lstm_weights",
        "lstm_bias",
    ]
    for end in ("", "_config")
]
# Settings of the reference that will not be here, each with the reason.
MODEL_REFUSED: dict[str, str] = {
    "custom_action_dist": "the action space decides; squash_actions and free_log_std vary it",
    **dict.fromkeys(
        ("post_fcnet_hiddens", "post_fcnet_activation"),
        "fcnet_hiddens and fcnet_activation are those behind the convolutions",
    ),
    "no_final_linear": "every network ends in a linear layer of the width that is needed",
    "dim": "give it with the game: env_config={'img_height': 84, 'img_width': 84}",
    "grayscale": "give it with the game: env_config={'grayscale': True}",
    "framestack": "use frame_stack of .environment(): 4 is True, 1 is False",
    "zero_mean": "images of bytes are divided by 255 on the device; scale_images turns it off",
    "_time_major": "sequences are always time-major",
    "custom_preprocessor": "use env_to_module_connector of .env_runners()",
    "encoder_latent_dim": "it is the last of fcnet_hiddens",
    "always_check_shapes": "shapes are always checked",
    "_use_default_native_models": "there is one set of networks",
    "_disable_preprocessor_api": "observations are preprocessed by the Policy",
    "_disable_action_flattening": "actions are stored as they are",
    "log_std_clip_param": "log sigma is clamped to fixed bounds",
    **dict.fromkeys(_INITIALIZERS, "fcnet_initializer is that of all layers"),
}
# Older names, and names that mean the same thing here.
ALIASES: dict[str, tuple[str, ...]] = {
    "lstm_use_prev_action_reward": ("lstm_use_prev_action", "lstm_use_prev_reward"),
    "attention_memory_training": ("attention_memory_inference",),
}


@dataclass
class ModelConfig(Settings):
    """Settings of the networks, given as `model={…}`."""

    what: ClassVar[str] = "model setting"
    also_called: ClassVar[str] = "model"

    fcnet_hiddens: list[int] = setting(
        [64, 64], "model", "widths of the hidden layers, units", ge=1, le=MAX_WIDTH
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
    conv_filters: list[Any] | None = setting(
        None,
        "model",
        "convolutions of an image, [[channels, kernel, stride], …], before the hidden layers; "
        "None: by its size",
    )
    conv_activation: str = setting(
        "relu", "model", "activation after each convolution", choices=ACTIVATIONS
    )
    scale_images: bool = setting(
        True, "model", "divide an image by the range of its values, 255 for bytes"
    )
    use_lstm: bool = setting(False, "model", "an LSTM after the hidden layers")
    use_gru: bool = setting(False, "model", "a GRU after the hidden layers")
    lstm_cell_size: int = setting(
        256, "model", "width of the LSTM or GRU, units", ge=1, le=MAX_WIDTH
    )
    lstm_use_prev_action: bool = setting(
        False, "model", "the LSTM or GRU also sees the previous action"
    )
    lstm_use_prev_reward: bool = setting(
        False, "model", "the LSTM or GRU also sees the previous reward"
    )
    max_seq_len: int = setting(
        20, "model", "length of the sequences on which a memory is trained, environment steps", ge=1
    )
    use_attention: bool = setting(
        False, "model", "a gated transformer (GTrXL) after the hidden layers"
    )
    attention_dim: int = setting(
        64, "model", "width between the transformer's layers", ge=1, le=MAX_WIDTH
    )
    attention_num_transformer_units: int = setting(
        1, "model", "layers of the transformer", ge=1, le=MAX_LAYERS, harmless=(1, 64), risk=MEMORY
    )
    attention_num_heads: int = setting(1, "model", "attention heads of a layer", ge=1, le=1024)
    attention_head_dim: int = setting(32, "model", "width of a head", ge=1, le=MAX_WIDTH)
    attention_memory_inference: int = setting(
        50,
        "model",
        "earlier steps that each layer sees, in acting as in training",
        ge=1,
        le=100_000,
        harmless=(1, 4096),
        risk=MEMORY,
    )
    attention_position_wise_mlp_dim: int = setting(
        32, "model", "width of the hidden layer in each layer's MLP", ge=1, le=MAX_WIDTH
    )
    attention_init_gru_gate_bias: float = setting(
        2.0, "model", "bias of the gates at the start; above 0 a layer begins near the identity"
    )
    attention_use_n_prev_actions: int = setting(
        0,
        "model",
        "1: the transformer also sees the previous action; its memory has earlier ones",
        ge=0,
        le=1,
    )
    attention_use_n_prev_rewards: int = setting(
        0,
        "model",
        "1: the transformer also sees the previous reward; its memory has earlier ones",
        ge=0,
        le=1,
    )
    custom_model: str | type | None = setting(
        None, "model", "'module:Class' or a class that replaces the encoder", risk=CODE
    )
    custom_model_config: dict[str, Any] = setting(
        {}, "model", "keyword arguments of the custom model", harmless=True
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
        False, "model", "tanh-squashed Gaussian instead of one with clipping at the bounds"
    )

    @property
    def memory(self) -> str | None:
        """The setting that asks for a memory, e.g. "use_lstm"; None: feed-forward."""
        return next((name for name in MEMORIES if getattr(self, name)), None)

    @property
    def uses_prev_action(self) -> bool:
        """Whether the memory sees the previous action."""
        return self.lstm_use_prev_action or self.attention_use_n_prev_actions > 0

    @property
    def uses_prev_reward(self) -> bool:
        """Whether the memory sees the previous reward."""
        return self.lstm_use_prev_reward or self.attention_use_n_prev_rewards > 0

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        checked = super().check(_canonical(values))
        check_widths("fcnet_hiddens", checked.get("fcnet_hiddens"))
        filters = checked.get("conv_filters")
        if filters is not None and not is_search_domain(filters):
            feature_settings("networks").check_filters(filters)
        memories = [name for name in MEMORIES if checked.get(name) is True]
        if len(memories) > 1:
            raise ConfigError(f"model: {' and '.join(memories)} are given; allowed: one of them")
        for name, value in checked.items():
            switches = _ONLY_WITH.get(name, ())
            ignored = switches and not any(checked.get(switch) for switch in switches)
            if ignored and value != cls.settings()[name].default:
                needed = " or ".join(switches)
                raise ConfigError(
                    f"model setting {name} = {value!r} has no effect without {needed}"
                )
        custom = checked.get("custom_model")
        if isinstance(custom, str) and ":" not in custom:
            raise ConfigError(
                f"custom_model = {custom!r} is not allowed; allowed: 'module:Class' or a class"
            )
        if isinstance(custom, type):
            refuse_uncalled(custom, "MODULE")
        return checked

    @classmethod
    def check_given(cls, values: Mapping[str, Any], replaced_too: Iterable[str] = ()) -> None:
        """Refuse what a user gives beside a custom model that would be ignored.

        Apart from `check`, which also sees the defaults of algorithms.

        Args:
            values: What is given as `model`.
            replaced_too: What else a custom model takes the place of with this algorithm.
        """
        replaced = [name for name in (*_ENCODER, *replaced_too) if name in values]
        if values.get("custom_model") is not None and replaced:
            raise ConfigError(
                f"model setting {replaced[0]!r} has no effect with custom_model, which takes the "
                "place of the encoder"
            )

    @classmethod
    def unknown(cls, name: str) -> ConfigError:
        if name in MODEL_REFUSED:
            return ConfigError(f"model setting {name!r} is not supported: {MODEL_REFUSED[name]}")
        return super().unknown(name)

    @classmethod
    def known_names(cls) -> Iterable[str]:
        return [*cls.settings(), *ALIASES]


def check_widths(name: str, widths: Any) -> None:
    """Refuse hidden layers that no machine could hold, before any is made.

    Raises:
        ConfigError: naming the setting and the bound.
    """
    if not isinstance(widths, list):
        return
    if len(widths) > MAX_LAYERS:
        raise ConfigError(f"{name} has {len(widths)} layers; allowed: at most {MAX_LAYERS}")
    fixed = [[width] if isinstance(width, int) else [] for width in widths]  # or search domains
    weights = sum(a * b for before, after in pairwise(fixed) for a in before for b in after)
    if weights > MAX_WEIGHTS:
        raise ConfigError(
            f"{name} = {widths!r} has {weights:,} weights; allowed: at most {MAX_WEIGHTS:,}"
        )


def _canonical(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by their present names, without what the reference has by default."""
    values = {
        name: value
        for name, value in values.items()
        if name in ModelConfig.settings() or not feature("reference").is_model_default(name, value)
    }
    given = {name: value for name, value in values.items() if name not in ALIASES}
    for alias, names in ALIASES.items():
        for name in names if alias in values else ():
            if given.setdefault(name, values[alias]) != values[alias]:
                raise ConfigError(
                    f"model: {name} = {given[name]!r} and {alias} = {values[alias]!r} are given; "
                    "allowed: the same value, since they are one setting here"
                )
    return given


@dataclass
class OptimizerConfig(Settings):
    """Settings of the optimiser, given as `optimizer={…}`. The learning rate is `lr`."""

    what: ClassVar[str] = "optimizer setting"
    also_called: ClassVar[str] = "optimizer"

    type: str = setting(
        "adam",
        "optimizer",
        "update rule",
        choices=("adam", "adamw", "laprop", "rmsprop", "sgd"),
        fixed="what one optimiser has learned means nothing to another",
    )
    eps: float = setting(1e-5, "optimizer", "added to the denominator (all but sgd)", gt=0)
    beta1: float = setting(0.9, "optimizer", "decay of the mean (adam, adamw, laprop)", ge=0, lt=1)
    beta2: float = setting(
        0.999, "optimizer", "decay of the square (adam, adamw, laprop)", ge=0, lt=1
    )
    decay: float = setting(0.99, "optimizer", "decay of the square (rmsprop)", ge=0, lt=1)
    momentum: float = setting(0.0, "optimizer", "momentum (rmsprop, sgd)", ge=0, lt=1)
    weight_decay: float = setting(
        0.0, "optimizer", "weight decay, decoupled for adamw and laprop", ge=0
    )
