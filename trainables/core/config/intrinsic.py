"""The settings of intrinsic rewards, inside `exploration_config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainables.core.config.model import ACTIVATIONS, MAX_WIDTH, ModelConfig, check_widths
from trainables.core.config.settings import MEMORY, Settings, is_search_domain, setting
from trainables.core.errors import ConfigError

_OF_NETWORKS = (
    "lr",
    "feature_net_config",
    "normalize_observations",
    "num_epochs",
    "minibatch_size",
)
_OF_ALL = ("eta", "normalize_bonus", "intrinsic_gamma", "sub_exploration")
# The options of each type, besides those of how actions are chosen.
INTRINSIC_OPTIONS: dict[str, tuple[str, ...]] = {
    "Curiosity": (
        *_OF_ALL,
        *_OF_NETWORKS,
        "feature_dim",
        "beta",
        "detach_features",
        "inverse_net_hiddens",
        "inverse_net_activation",
        "forward_net_hiddens",
        "forward_net_activation",
    ),
    "RND": (*_OF_ALL, *_OF_NETWORKS, "feature_dim", "predictor_hiddens", "predictor_activation"),
    "Counts": (*_OF_ALL, "cells_per_deviation", "hash_bits", "table_size"),
}
# What of `model` the networks of an intrinsic reward are made of.
_FEATURE_NET = (
    "fcnet_hiddens",
    "fcnet_activation",
    "fcnet_initializer",
    "conv_filters",
    "conv_activation",
    "scale_images",
    "custom_model",
    "custom_model_config",
)
_SHAPE = "it is what the networks are built of"


@dataclass
class IntrinsicSettings(Settings):
    """Part of `ExplorationConfig`: rewards that a learner adds for what is new.

    Names are the reference's as far as it has them. What is added is `eta` times a bonus, which is
    divided by its running root mean square unless `normalize_bonus` is off.
    """

    eta: float | list[Any] | None = setting(
        None,
        "exploration",
        "weight of a bonus relative to the environment's rewards; 0: no effect; None: 0.05, with "
        "intrinsic_gamma 1 (Curiosity, RND, Counts)",
        ge=0,
        schedule=True,
    )
    normalize_bonus: bool | None = setting(
        None,
        "exploration",
        "divide bonuses by their running root mean square, so that eta is the usual size of a "
        "bonus; None: for all but Counts, whose bonuses have a fixed scale (Curiosity, RND, "
        "Counts)",
    )
    intrinsic_gamma: float | None = setting(
        None,
        "exploration",
        "discount factor of bonuses with a separate value function. Bonuses then continue over "
        "the ends of episodes, as in RND's paper, and are multiplied by 1 - intrinsic_gamma; eta "
        "weighs their advantages, about 1. None: bonuses are added to the rewards (PPO, A2C with "
        "Curiosity, RND, Counts)",
        ge=0,
        lt=1,
        fixed="it says whether there is such a network",
    )
    sub_exploration: dict[str, Any] | None = setting(
        None,
        "exploration",
        "how actions are chosen, a nested exploration_config; None: the algorithm's default "
        "(Curiosity, RND, Counts)",
        fixed="what a donor has learned, it has learned with its own type of exploration",
    )
    lr: float = setting(
        1e-3, "exploration", "learning rate of the networks of the bonus (Curiosity, RND)", ge=0
    )
    feature_net_config: dict[str, Any] = setting(
        {},
        "exploration",
        "hidden layers before the features, as in `model`: fcnet_hiddens (by default [64]), "
        "fcnet_activation (relu), conv_filters, … (Curiosity, RND)",
        fixed=_SHAPE,
    )
    normalize_observations: bool = setting(
        True,
        "exploration",
        "scale the inputs of the bonus networks by their running mean and deviation, clipped to 5 "
        "deviations (Curiosity, RND)",
        fixed="what they have learned means nothing in another scale",
    )
    num_epochs: int = setting(
        1,
        "exploration",
        "training passes of the bonus networks over a rollout; with a replay buffer they take one "
        "step for each drawn batch (Curiosity, RND)",
        ge=1,
    )
    minibatch_size: int = setting(
        256, "exploration", "rows per gradient step on a rollout (Curiosity, RND)", ge=1
    )
    feature_dim: int = setting(
        64, "exploration", "features, units (Curiosity, RND)", ge=1, le=MAX_WIDTH, fixed=_SHAPE
    )
    beta: float = setting(
        0.2,
        "exploration",
        "weight of the forward model's loss; the inverse model's is 1 - beta (Curiosity)",
        ge=0,
        le=1,
    )
    detach_features: bool = setting(
        False,
        "exploration",
        "the forward model's loss does not train the features (Curiosity)",
    )
    inverse_net_hiddens: list[int] = setting(
        [64],
        "exploration",
        "hidden layers of the inverse model, units (Curiosity)",
        ge=1,
        le=MAX_WIDTH,
        fixed=_SHAPE,
    )
    inverse_net_activation: str = setting(
        "relu", "exploration", "and their activation", choices=ACTIVATIONS, fixed=_SHAPE
    )
    forward_net_hiddens: list[int] = setting(
        [64],
        "exploration",
        "hidden layers of the forward model, units (Curiosity)",
        ge=1,
        le=MAX_WIDTH,
        fixed=_SHAPE,
    )
    forward_net_activation: str = setting(
        "relu", "exploration", "and their activation", choices=ACTIVATIONS, fixed=_SHAPE
    )
    predictor_hiddens: list[int] = setting(
        [64],
        "exploration",
        "additional hidden layers of the predictor, units (RND)",
        ge=1,
        le=MAX_WIDTH,
        fixed=_SHAPE,
    )
    predictor_activation: str = setting(
        "relu", "exploration", "and their activation", choices=ACTIVATIONS, fixed=_SHAPE
    )
    cells_per_deviation: float = setting(
        2.0,
        "exploration",
        "cells per standard deviation of each number, as measured in the first rollout or drawn "
        "batch; observations in the same cells are the same state. Images are the same state only "
        "if all bytes are (Counts)",
        gt=0,
        fixed="states would be others",
    )
    hash_bits: int | None = setting(
        None,
        "exploration",
        "number of random planes; observations on the same sides of all are the same state "
        "(SimHash), for many numbers; None: cells (Counts)",
        ge=1,
        le=62,
        fixed="states would be others",
    )
    table_size: int = setting(
        2**18,
        "exploration",
        "number of counters; more states than these share counters (Counts)",
        ge=2,
        le=2**26,
        fixed="states would be others",
        harmless=(2, 2**22),
        risk=MEMORY,
    )


def check_intrinsic(checked: Mapping[str, Any]) -> None:
    """Check what the options of an intrinsic reward say inside.

    Args:
        checked: Of an `exploration_config`, by themselves checked.

    Raises:
        ConfigError: naming the option.
    """
    for name in ("inverse_net_hiddens", "forward_net_hiddens", "predictor_hiddens"):
        check_widths(f"exploration_config: {name}", checked.get(name))
    if checked.get("hash_bits") is not None and "cells_per_deviation" in checked:
        raise ConfigError(
            "exploration_config: cells_per_deviation has no effect with hash_bits, which says what "
            "the same state is; give one of them"
        )
    feature_net = checked.get("feature_net_config")
    if isinstance(feature_net, dict) and not is_search_domain(feature_net):
        check_feature_net(feature_net)
        if "scale_images" in feature_net and checked.get("normalize_observations", True) is True:
            raise ConfigError(
                "exploration_config: feature_net_config: scale_images has no effect with "
                "normalize_observations = True: pixels are seen by their means and deviations"
            )


def check_feature_net(given: Mapping[str, Any]) -> None:
    """Check a `feature_net_config`.

    Raises:
        ConfigError: for what is no setting of its layers.
    """
    try:
        checked = ModelConfig.check(given)
        ModelConfig.check_given(checked, ("fcnet_activation",))
    except ConfigError as error:
        raise ConfigError(f"exploration_config: feature_net_config: {error}") from None
    for name in checked:
        if name not in _FEATURE_NET:
            raise ConfigError(
                f"exploration_config: feature_net_config: {name!r} is none of its settings; "
                f"allowed: {', '.join(_FEATURE_NET)}"
            )


def is_intrinsic(exploration_config: Mapping[str, Any]) -> bool:
    """Tell whether an `exploration_config` adds an intrinsic reward."""
    kind = exploration_config.get("type")
    return isinstance(kind, str) and kind in INTRINSIC_OPTIONS


def how_actions_are_chosen(exploration_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an `exploration_config` that says how actions are chosen.

    That is all of it, but for an intrinsic reward its `sub_exploration`; nothing while that is a
    search domain.
    """
    if not is_intrinsic(exploration_config):
        return dict(exploration_config)
    given = exploration_config.get("sub_exploration") or {}
    return {} if is_search_domain(given) else dict(given)
