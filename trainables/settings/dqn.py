"""The settings of DQN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trainables.core.config.exploration import (
    ExplorationConfig,
    how_actions_are_chosen,
    per_worker_mean,
)
from trainables.core.config.model import MAX_WIDTH, OptimizerConfig
from trainables.core.config.off_policy import OffPolicyConfig, ResolvedOffPolicy
from trainables.core.config.own_settings import settings_of
from trainables.core.config.resolved import SequenceShape
from trainables.core.config.settings import setting
from trainables.core.errors import ConfigError


@dataclass(frozen=True)
class ResolvedDQN(ResolvedOffPolicy):
    """What the settings of DQN mean together.

    Attributes:
        epsilon: The probability of a uniform action, by whichever setting says it.
    """

    epsilon: float | list[Any]


@settings_of("trainables.dqn:DQN")
@dataclass(kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Settings of DQN. Every part of Rainbow can be switched by itself.

    All of them: double_q, dueling, noisy, num_atoms=51, n_step=3, and replay_buffer_config with
    the type "PrioritizedReplayBuffer".
    """

    several_agents: ClassVar[str | None] = None
    learns_together: ClassVar[bool] = True
    _custom_model_replaces: ClassVar[tuple[str, ...]] = ()  # `hiddens` have their activation
    model_without: ClassVar[dict[str, str]] = {
        "vf_share_layers": "there is no value function beside Q",
        **dict.fromkeys(
            ("free_log_std", "initial_log_std", "squash_actions"), "its actions are discrete"
        ),
    }

    exploration_types: ClassVar[tuple[str, ...]] = (
        "EpsilonGreedy",
        "PerWorkerEpsilonGreedy",
        "SoftQ",
        "Random",
        "ParameterNoise",
        "StochasticSampling",
    )
    why_no_exploration: ClassVar[str] = "its actions are discrete"
    why_no_intrinsic: ClassVar[str | None] = None

    double_q: bool = setting(
        True,
        "training",
        "choose the next action with the online network, evaluate it with the target network",
    )
    dueling: bool = setting(
        True,
        "training",
        "heads for the state's value and the actions' advantages",
        fixed="it is what the networks are built of",
    )
    hiddens: list[int] = setting(
        [],
        "training",
        "widths of the hidden layers of each head, units",
        ge=1,
        le=MAX_WIDTH,
        fixed="it is what the networks are built of",
    )
    noisy: bool = setting(
        False,
        "training",
        "explore by noise on the heads' weights, drawn at each step for all slots together",
        fixed="it is what the networks are built of",
    )
    sigma0: float = setting(
        0.5,
        "training",
        "initial noise of a weight, x 1/sqrt(fan-in), sigma_0",
        ge=0,
        fixed="it is where a learned value starts, and a clone goes on with its donor's",
    )
    num_atoms: int = setting(
        1,
        "training",
        "atoms of the return's distribution; 1 learns its mean",
        ge=1,
        le=MAX_WIDTH,
        fixed="it is what the networks are built of",
    )
    v_min: float = setting(
        -10.0,
        "training",
        "lowest atom, a discounted return",
        fixed="it is what the networks are built of",
    )
    v_max: float = setting(
        10.0,
        "training",
        "highest atom, a discounted return",
        fixed="it is what the networks are built of",
    )
    epsilon: float | list[Any] | None = setting(
        None,
        "training",
        "probability of a uniform action; None: by exploration_config, whose default is from 1 to "
        "0.05 in 10,000 environment steps, or 0 if noisy",
        ge=0,
        le=1,
        schedule=True,
    )
    categorical_distribution_temperature: float = setting(
        0.0,
        "training",
        "actions that are not uniform by epsilon: 0: the best action, tau > 0: drawn from "
        "softmax(Q/tau)",
        ge=0,
    )
    td_error_loss_fn: str = setting(
        "huber",
        "training",
        "loss of the TD error if num_atoms = 1. huber is robust, but errors beyond 1 count "
        "linearly: if returns vary by more than that, Q is closer to their median than to their "
        "mean (clip or scale rewards, or use mse with grad_clip)",
        choices=("huber", "mse"),
    )
    burn_in_len: int | None = setting(
        None,
        "training",
        "with a memory: rows before a sequence that only update its stored state; None: as many "
        "as training rows, max_seq_len, as in R2D2",
        ge=0,
    )
    adam_epsilon: float | None = setting(
        None, "training", "overrides eps of the optimizer setting", gt=0
    )
    # What differs from the base class by default.
    lr: float | list[Any] = setting(
        5e-4, "training", "learning rate of the optimiser, alpha", ge=0, schedule=True
    )
    train_batch_size_per_learner: int = setting(
        32,
        "training",
        "transitions per gradient step; with a memory as many whole sequences of max_seq_len rows "
        "as fit, at least one",
        ge=1,
    )
    training_intensity: float | None = setting(
        8.0,
        "training",
        "replayed steps per sampled step, i.e. batch size x updates per environment step; None: "
        "one update per sampling round of any size",
        gt=0,
    )

    def resolve(self) -> ResolvedDQN:
        return self._resolved_as(ResolvedDQN)

    def resolved_values(self) -> dict[str, Any]:
        values = super().resolved_values()
        if self.adam_epsilon is not None:
            given = {**values["optimizer"].given, "eps": self.adam_epsilon}
            values["optimizer"] = OptimizerConfig.of(given)
        per_worker = values["explores_per_worker"]
        epsilon = per_worker_mean(self.num_env_runners) if per_worker else self._own_epsilon(values)
        return {**values, "epsilon": epsilon}

    def _own_epsilon(self, values: dict[str, Any]) -> float | list[Any]:
        """Return the probability of a uniform action, by whichever setting says it."""
        exploring: ExplorationConfig = values["exploration"]
        if self.epsilon is not None:
            return self.epsilon
        if exploring.type == "Random":
            return 1.0
        is_own = not how_actions_are_chosen(self.exploration_config)  # then noisy layers are enough
        if exploring.type != "EpsilonGreedy" or (self.noisy and is_own):
            return 0.0
        return exploring.epsilon

    def sequence_shape(self, length: int, n_step: int) -> SequenceShape | None:
        if not length:
            return None
        burn_in = length if self.burn_in_len is None else self.burn_in_len
        return SequenceShape(burn_in, length, n_step)

    def validate(self) -> None:
        super().validate()
        resolved = self.resolve()
        self._validate_exploration(resolved)
        if self.adam_epsilon is not None and resolved.optimizer.type == "sgd":
            raise ConfigError(
                f"adam_epsilon = {self.adam_epsilon:g} has no effect on the optimizer type 'sgd'"
            )
        if self.model.get("custom_model") and "fcnet_activation" in self.model and not self.hiddens:
            raise ConfigError(
                "model setting 'fcnet_activation' has no effect with custom_model and hiddens = []"
            )
        if self.burn_in_len and not resolved.sequence_length:
            raise ConfigError(
                f"burn_in_len = {self.burn_in_len} has no effect without a memory: set use_lstm, "
                "use_gru or use_attention in model"
            )
        if self.num_atoms > 1 and self.v_min >= self.v_max:
            raise ConfigError(
                f"v_min = {self.v_min:g} is not below v_max = {self.v_max:g}: the atoms are the "
                "discounted returns between them"
            )

    def _validate_exploration(self, resolved: ResolvedDQN) -> None:
        """Check that what two settings say agrees, and that nothing is without effect."""
        exploring, kind = resolved.exploration, resolved.exploration.type
        if kind == "EpsilonGreedy":
            if resolved.explores_per_worker and self.epsilon is not None:
                raise ConfigError(
                    f"epsilon = {self.epsilon!r} has no effect with exploration_config of the type "
                    "'PerWorkerEpsilonGreedy' and env runners: each has a constant of its own"
                )
            said = how_actions_are_chosen(self.exploration_config).keys() - {"type"}
            both = self.epsilon is not None and said
            if both and _points(self.epsilon) != _points(exploring.epsilon):
                raise ConfigError(
                    f"epsilon = {self.epsilon!r} is given twice with different values: "
                    f"exploration_config says {exploring.epsilon!r}"
                )
        elif kind != "ParameterNoise" and self.epsilon:
            raise ConfigError(
                f"epsilon = {self.epsilon!r} has no effect with exploration_config of the type "
                f"{kind!r}; leave it out"
            )
        tau = self.categorical_distribution_temperature
        if tau and (kind == "Random" or (kind == "SoftQ" and tau != exploring.temperature)):
            raise ConfigError(
                f"categorical_distribution_temperature = {tau:g} does not fit exploration_config "
                f"= {self.exploration_config!r}; leave it out"
            )
        if kind == "ParameterNoise" and self.noisy:
            raise ConfigError(
                "exploration_config: type = 'ParameterNoise' is noise on the parameters, and so is "
                "noisy = True; give one of them"
            )
        if kind == "StochasticSampling" and not (self.noisy or tau):
            raise ConfigError(
                "exploration_config: type = 'StochasticSampling' has nothing to sample from: Q is "
                "no distribution; allowed with noisy = True, else use 'SoftQ' or 'EpsilonGreedy'"
            )


def _points(schedule: float | list[Any] | None) -> list[Any]:
    """Return a schedule as points, however it is written."""
    return schedule if isinstance(schedule, list) else [[0, schedule]]
