"""The modules that a policy can be made of, by the name that its folder keeps."""

from __future__ import annotations

from trainables.core.modules import ActorCritic, PolicyModule
from trainables.core.q_network import QNetwork
from trainables.core.settings import ConfigError
from trainables.core.soft_actor_critic import SoftActorCritic

MODULES: dict[str, type[PolicyModule]] = {
    "actor_critic": ActorCritic,
    "q_network": QNetwork,
    "soft_actor_critic": SoftActorCritic,
}


def module_class(name: str) -> type[PolicyModule]:
    """The module of a name.

    Raises:
        ConfigError: if there is none.
    """
    if name not in MODULES:
        raise ConfigError(f"module type {name!r} is unknown; known: {', '.join(MODULES)}")
    return MODULES[name]
