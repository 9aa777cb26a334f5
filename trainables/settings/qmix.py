"""The settings of QMIX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainables.core.config.model import MAX_WIDTH
from trainables.core.config.own_settings import settings_of
from trainables.core.config.settings import refuse_given, setting
from trainables.settings.dqn import DQNConfig

_MEANS = "a mixer is of mean returns, not of their distributions"


@settings_of("trainables.qmix:QMIX")
@dataclass(kw_only=True)
class QMIXConfig(DQNConfig):
    """Settings of QMIX, and with `mixer="vdn"` of VDN (Sunehag et al., 2018).

    Those of DQN are of the network that the agents share. The agents of an environment are one team
    that learns from the sum of their rewards; they need no settings of several agents.
    """

    without: ClassVar[dict[str, str]] = {
        **DQNConfig.without,
        "num_atoms": _MEANS,
        "v_min": _MEANS,
        "v_max": _MEANS,
        "observation_fn": "a team's agents see what the environment shows them",
    }
    several_agents: ClassVar[str | None] = (
        "it makes one team of all agents, with one policy that acts for all"
    )
    plays_as_team: ClassVar[bool] = True
    learns_together: ClassVar[bool] = False
    exploration_types: ClassVar[tuple[str, ...]] = tuple(
        kind for kind in DQNConfig.exploration_types if kind != "ParameterNoise"
    )
    why_no_exploration: ClassVar[str] = "each of its agents chooses among actions by their values"
    why_no_intrinsic: ClassVar[str | None] = "what is new to a team is new to no agent alone"

    mixer: str = setting(
        "qmix",
        "training",
        "how to combine the agents' Qs: qmix: by a network that is monotone in each, with weights "
        "from the global state; vdn: their sum",
        choices=("qmix", "vdn"),
        fixed="it is what the networks are built of",
    )
    mixing_embed_dim: int = setting(
        32,
        "training",
        "hidden units of the mixer",
        ge=1,
        le=MAX_WIDTH,
        fixed="it is what the networks are built of",
    )
    hypernet_embed_dim: int = setting(
        64,
        "training",
        "hidden units of the networks that output the mixer's weights; 0: the weights are linear "
        "in the state, as in the paper of 2018",
        ge=0,
        le=MAX_WIDTH,
        fixed="it is what the networks are built of",
    )
    obs_agent_id: bool = setting(
        True,
        "training",
        "each agent sees its own number, one-hot, so that agents with one network may act "
        "differently",
        fixed="it is what the networks are built of",
    )

    def validate(self) -> None:
        super().validate()
        if self.mixer == "vdn":
            for name in ("mixing_embed_dim", "hypernet_embed_dim"):
                refuse_given(self, name, "mixer = 'vdn': a sum has no weights")
