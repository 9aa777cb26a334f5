"""The modules that a policy can be made of, by the name that its folder keeps."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from trainables.core.callables import callable_name, refuse_uncalled, resolve_callable
from trainables.core.config.model import ModelConfig
from trainables.core.errors import ConfigError
from trainables.core.networks.modules import PolicyModule

# By type, the class: it is imported for the policies that are made of it.
_MODULES = {
    "actor_critic": "trainables.core.networks.modules:ActorCritic",
    "dreamer": "trainables.core.networks.world_model.dreamer:Dreamer",
    "implicit_q": "trainables.core.networks.implicit_q:ImplicitQ",
    "q_network": "trainables.core.networks.q_network:QNetwork",
    "soft_actor_critic": "trainables.core.networks.soft_actor_critic:SoftActorCritic",
    "team_q": "trainables.core.networks.team_q:TeamQ",
}


class ModuleChoice(NamedTuple):
    """A module's class, and what it is made with besides features and distribution."""

    module_class: type[PolicyModule]
    model: ModelConfig
    options: dict[str, Any]


def module_class(name: str) -> type[PolicyModule]:
    """Return the class of a type of module.

    Raises:
        ConfigError: if there is no such type.
    """
    if name not in _MODULES:
        raise ConfigError(f"module type {name!r} is unknown; known: {', '.join(_MODULES)}")
    found: type[PolicyModule] = resolve_callable(_MODULES[name])
    return found


def is_known(module_class: type[PolicyModule]) -> bool:
    """Tell whether a class is one of the types, and none of a user's own."""
    return callable_name(module_class) in _MODULES.values()


def chosen_module(module: dict[str, Any], model: ModelConfig) -> ModuleChoice:
    """Return what a policy is made of.

    Args:
        module: The type and options: `{"type": name, **options}`.
        model: The `model` of the config. Its `custom_model` may be a subclass of the named
            module, which then takes its place, with `custom_model_config` as further options. Any
            other custom model takes the place of the encoder, see `make_encoder`.

    Raises:
        ConfigError: if there is no such module, or the custom one is of another algorithm.
    """
    options = dict(module)
    base, named = module_class(options.pop("type")), model.custom_model
    for other in base.other_models & options.keys():
        options[other] = ModelConfig.of({**model.given, **options[other]})
    custom = resolve_callable(named) if isinstance(named, str) else named
    if not (inspect.isclass(custom) and issubclass(custom, PolicyModule)):
        return ModuleChoice(base, model, options)
    if not issubclass(custom, base):
        raise ConfigError(
            f"custom_model = {custom.__qualname__!r} is not allowed; allowed: a subclass of "
            f"{base.__name__}, or a torch.nn.Module that takes the place of the encoder"
        )
    refuse_uncalled(custom, "MODULE")
    own = model.custom_model_config
    rest = {k: v for k, v in model.given.items() if not k.startswith("custom_model")}
    return ModuleChoice(custom, ModelConfig.of(rest), {**options, **own})
