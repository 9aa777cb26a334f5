"""Config classes of the algorithms: their settings and checks, without PyTorch and Ray.

Each is a name of its algorithm's module, too: `from trainables.ppo import PPOConfig`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.lazy_names import offer_names

if TYPE_CHECKING:
    from trainables.dreamerv3.config import DreamerV3Config
    from trainables.settings.a2c import A2CConfig
    from trainables.settings.appo import APPOConfig
    from trainables.settings.bc import BCConfig
    from trainables.settings.cql import CQLConfig
    from trainables.settings.dqn import DQNConfig
    from trainables.settings.impala import IMPALAConfig
    from trainables.settings.iql import IQLConfig
    from trainables.settings.marwil import MARWILConfig
    from trainables.settings.ppo import PPOConfig
    from trainables.settings.qmix import QMIXConfig
    from trainables.settings.sac import SACConfig

offer_names(globals())
