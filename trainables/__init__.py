"""Reinforcement-learning algorithms, each a Ray Tune `Trainable`.

Nothing heavy is imported until a name is used: `from trainables import PPO, PPOConfig`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainables.core.config.reference import not_here

if TYPE_CHECKING:
    from trainables.a2c import A2C as A2C
    from trainables.a2c import A2CConfig as A2CConfig
    from trainables.algorithm import Algorithm as Algorithm
    from trainables.appo import APPO as APPO
    from trainables.appo import APPOConfig as APPOConfig
    from trainables.core.config.config import AlgorithmConfig as AlgorithmConfig
    from trainables.core.data.space_preprocessor import get_preprocessor as get_preprocessor
    from trainables.core.policy.policy import Policy as Policy
    from trainables.dqn import DQN as DQN
    from trainables.dqn import DQNConfig as DQNConfig
    from trainables.impala import IMPALA as IMPALA
    from trainables.impala import IMPALAConfig as IMPALAConfig
    from trainables.ppo import PPO as PPO
    from trainables.ppo import PPOConfig as PPOConfig
    from trainables.runtime.callbacks.callbacks import Callbacks as Callbacks
    from trainables.runtime.callbacks.callbacks import DefaultCallbacks as DefaultCallbacks
    from trainables.runtime.callbacks.memory_tracking import (
        MemoryTrackingCallbacks as MemoryTrackingCallbacks,
    )
    from trainables.sac import SAC as SAC
    from trainables.sac import SACConfig as SACConfig

_ELSEWHERE = {
    "Algorithm": "trainables.algorithm",
    "AlgorithmConfig": "trainables.core.config.config",
    "Callbacks": "trainables.runtime.callbacks.callbacks",
    "DefaultCallbacks": "trainables.runtime.callbacks.callbacks",
    "MemoryTrackingCallbacks": "trainables.runtime.callbacks.memory_tracking",
    "Policy": "trainables.core.policy.policy",
    "get_preprocessor": "trainables.core.data.space_preprocessor",
}
_ALGORITHMS = ("A2C", "APPO", "DQN", "IMPALA", "PPO", "SAC")

__all__ = [
    "A2C",
    "APPO",
    "DQN",
    "IMPALA",
    "PPO",
    "SAC",
    "A2CConfig",
    "APPOConfig",
    "Algorithm",
    "AlgorithmConfig",
    "Callbacks",
    "DQNConfig",
    "DefaultCallbacks",
    "IMPALAConfig",
    "MemoryTrackingCallbacks",
    "PPOConfig",
    "Policy",
    "SACConfig",
    "get_preprocessor",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    algorithm = name.removesuffix("Config")
    if algorithm in _ALGORITHMS:
        from trainables.registry import get_algorithm

        algorithm_class = get_algorithm(algorithm)
        return algorithm_class.config_class if name.endswith("Config") else algorithm_class
    from trainables.core.config.reference.planned import whats_become_of

    words = None if name.startswith("_") else whats_become_of(name)
    told = f": {words}" if words else ""
    raise AttributeError(f"module 'trainables' has no attribute {name!r}{told}")


def __dir__() -> list[str]:
    return __all__


not_here.install()
