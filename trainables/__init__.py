"""Reinforcement-learning algorithms, each a Ray Tune `Trainable`.

Nothing heavy is imported until a name is used: `from trainables import PPO, PPOConfig`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.features import feature
from trainables.core.lazy_names import offer_names, refuse_imports

# A name whose config stands beside it is an algorithm: `trainables.registry` reads them here.
if TYPE_CHECKING:
    from trainables.a2c import A2C, A2CConfig
    from trainables.algorithm import Algorithm
    from trainables.appo import APPO, APPOConfig
    from trainables.bc import BC, BCConfig
    from trainables.core.config.config import AlgorithmConfig
    from trainables.core.config.policies import PolicySpec
    from trainables.core.data.space_preprocessor import get_preprocessor
    from trainables.core.estimation.evaluator import OfflineEvaluator, OffPolicyEstimator
    from trainables.core.policy.fixed_policy import FixedPolicy
    from trainables.core.policy.policy import Policy
    from trainables.cql import CQL, CQLConfig
    from trainables.dqn import DQN, DQNConfig
    from trainables.dreamerv3.algorithm import DreamerV3, DreamerV3Config
    from trainables.impala import IMPALA, IMPALAConfig
    from trainables.iql import IQL, IQLConfig
    from trainables.marwil import MARWIL, MARWILConfig
    from trainables.ppo import PPO, PPOConfig
    from trainables.qmix import QMIX, QMIXConfig
    from trainables.runtime.callbacks.callbacks import Callbacks, DefaultCallbacks
    from trainables.runtime.callbacks.memory_tracking import MemoryTrackingCallbacks
    from trainables.runtime.envs.multi_agent.independent_agents import make_multi_agent
    from trainables.runtime.envs.multi_agent.multi_agent_env import MultiAgentEnv
    from trainables.runtime.offline.io_context import IOContext
    from trainables.runtime.offline.readers import InputReader, register_input
    from trainables.sac import SAC, SACConfig


def _why_not(name: str) -> str:
    words = None if name.startswith("_") else feature("reference").whats_become_of(name)
    return f": {words}" if words else ""


offer_names(globals(), _why_not)
refuse_imports()
