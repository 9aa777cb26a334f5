"""What settings mean: `Resolved` and its parts, as what is built from a config takes them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from trainables.core.config.exploration import ExplorationConfig
from trainables.core.config.model import ModelConfig, OptimizerConfig


@dataclass(frozen=True)
class CompileOptions:
    """How `torch.compile` compiles: its backend and mode."""

    backend: str = "inductor"
    mode: str | None = None


@dataclass(frozen=True)
class Resolved:
    """What the settings of a config mean together, typed; see `AlgorithmConfig.resolve`.

    A setting that says the same by itself stays in the config alone: here is what its dicts are
    as objects, with the algorithm's own defaults, and what its None and "auto" stand for.

    Attributes:
        model: `model` over the algorithm's defaults.
        optimizer: `optimizer` over the algorithm's defaults.
        exploration: How actions are chosen, with the type that each env runner has.
        intrinsic: `exploration_config` if it adds an intrinsic reward, else None.
        explores_per_worker: Whether each env runner explores by a constant of its own, see
            `core.config.exploration`.
        plays_atari: Whether the environment is an Atari game that is preprocessed.
        num_frames: How many observations a policy sees as one.
        critic_key: The key of a Dict observation that only the value function sees, or None.
        reward_bound: What the learner sees of a reward, see `clip_rewards`.
        state_stride: Rows from one stored recurrent state to the next; 0 without a memory.
        compile: What the `torch_compile_learner` settings say; None: losses are not compiled.
        compile_acting: What the `torch_compile_worker` settings say; None: what acts is not.
    """

    model: ModelConfig
    optimizer: OptimizerConfig
    exploration: ExplorationConfig
    intrinsic: ExplorationConfig | None
    explores_per_worker: bool
    plays_atari: bool
    num_frames: int
    critic_key: str | None
    reward_bound: bool | float | list[float]
    state_stride: int
    compile: CompileOptions | None
    compile_acting: CompileOptions | None


class SequenceShape(NamedTuple):
    """How many rows a sequence has of each kind.

    Attributes:
        burn_in: Unrolled without a gradient first.
        length: Trained on.
        n_step: Steps of the return at most.
    """

    burn_in: int
    length: int
    n_step: int

    @property
    def num_rows(self) -> int:
        """Rows to draw; the observation after the last of them is drawn, too."""
        return self.burn_in + self.length + self.n_step - 1


def exact(number: float) -> Fraction:
    """Return a number as people write it: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(str(number))
