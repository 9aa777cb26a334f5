"""DreamerV3: learn a model of the world, and act by what is learned in its dreams."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.core.config.own_settings import default_config_of
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import LossFn
from trainables.core.networks.memory import state_arrays
from trainables.core.networks.modules import PolicyModule
from trainables.core.networks.world_model.dreamer import Dreamer
from trainables.core.policy.policy import Policy
from trainables.core.reported_metrics import ENTROPY, learned
from trainables.dreamerv3.config import DreamerV3Config as DreamerV3Config
from trainables.dreamerv3.replay import SequenceReplay
from trainables.dreamerv3.sizes import SIZES
from trainables.dreamerv3.update import dreamer_update
from trainables.off_policy import OffPolicy
from trainables.runtime.learners.group import LearnerWorker
from trainables.runtime.learners.off_policy_update import UpdatePlan
from trainables.runtime.replay.stores import StateLayout


class DreamerV3(OffPolicy):
    """Learn from replayed sequences how the world goes on, and from dreams of it how to act."""

    config_class = DreamerV3Config
    config: DreamerV3Config
    reported_metrics = (
        learned(
            "decoder_loss",
            "",
            "mean over rows of the squared error of predicted observations, summed over their "
            "parts: of symlogs, and of pixels in [0, 1]",
        ),
        learned("reward_loss", "nats", "mean cross-entropy of predicted rewards"),
        learned(
            "continuation_loss",
            "nats",
            "mean cross-entropy of the prediction whether an episode continues",
        ),
        learned(
            "dynamics_loss",
            "nats",
            "mean KL(posterior || prior), at least `free_nats`; its gradient moves the prior",
        ),
        learned("representation_loss", "nats", "the same; its gradient moves the posterior"),
        learned("policy_loss", "", "mean of -w (log pi(a|s) A + `entropy_scale` H) over dreams"),
        learned("critic_loss", "nats", "mean cross-entropy with dreamed returns, and slow critic"),
        learned("replay_critic_loss", "nats", "the same of returns of replayed rewards"),
        learned("prior_entropy", "nats", "entropy of z before the observation"),
        learned("posterior_entropy", "nats", "entropy of z given the observation"),
        learned("dreamed_reward_mean", "reward", "mean reward of dreamed steps"),
        learned("dreamed_return_mean", "discounted return", "mean lambda-return of dreamed steps"),
        learned(
            "return_scale",
            "discounted return",
            "divisor of advantages: the range from the 5th to the 95th percentile of dreamed "
            "returns, at least 1",
        ),
        learned("v_mean", "discounted return", "mean V(s) of dreamed states"),
        ENTROPY._replace(meaning="mean entropy of the actor in dreamed states"),
        learned(
            "world_model_grad_norm", "", "L2 norm of the world model's gradient before clipping"
        ),
        learned("actor_grad_norm", "", "the same of the actor's"),
        learned("critic_grad_norm", "", "the same of the critic's"),
        learned(
            "curr_world_model_lr",
            "",
            "the world model's learning rate at this environment step, when it is warmed up",
        ),
        learned("curr_actor_lr", "", "the actor's"),
        learned("curr_critic_lr", "", "the critic's"),
        *OffPolicy.reported_metrics,
    )

    def learning_rates(self, module_id: str | None = None) -> dict[str, float]:
        """Return the present rates of world model, actor and critic, once they are warmed up."""
        config = self.config if module_id is None else self.config_of(module_id)
        rates = {
            "world_model": config.world_model_lr,
            "actor": config.actor_lr,
            "critic": config.critic_lr,
        }
        return {n: self.scheduled(config.base_lr if r is None else r) for n, r in rates.items()}

    def learn(self, num_new_steps: dict[str, int], rates: dict[str, Any]) -> None:
        for module_id, drawn in self.experience.draws(num_new_steps, beta=1.0):
            ids = drawn.columns["ids"]
            batch = self.prepare(self.policies[module_id], drawn.columns)
            plan = UpdatePlan(
                rates[module_id],
                self._num_updates[module_id],
                self._targets_due(module_id, drawn.num_batches, num_new_steps[module_id]),
            )
            learned = self.learners.run(dreamer_update, drawn.with_columns(batch), module_id, plan)
            replay: Any = self.experience[module_id]
            replay.write_latents(ids, learned.after)
            self._take_in(module_id, ids, learned)
            self._num_updates[module_id] += drawn.num_batches
            self.num_env_steps_trained += sum(drawn.num_rows)

    def module_options(self, module_id: str | None = None) -> dict[str, Any]:
        config = self.config if module_id is None else self.config_of(module_id)
        return {"type": "dreamer", **SIZES[config.model_size].size.to_dict()}

    @classmethod
    def learner_options(cls, config: Any, module: PolicyModule) -> dict[str, Any]:
        assert isinstance(module, Dreamer)
        return {
            "groups": {
                "world_model": chain.from_iterable(p.parameters() for p in module.world_model),
                "actor": module.actor.parameters(),
                "critic": module.critic.parameters(),
            },
            "targets": {"critic": module.critic},
        }

    @classmethod
    def make_loss(cls, worker: LearnerWorker, module_id: str) -> LossFn:
        raise ConfigError("DreamerV3's loss is made by its own update, dreamer_update")

    def _make_buffer(
        self, module_id: str, policy: Policy, seed: np.random.SeedSequence
    ) -> SequenceReplay:
        fields = state_arrays(policy.module.initial_state(1))
        return SequenceReplay(
            self._resolved.replay,
            policy.observations.layout,
            policy.distribution.action_shape,
            policy.distribution.action_dtype,
            self.module_slots.num_slots(self.config, module_id),
            seed,
            policy.observations.num_frames,
            StateLayout(1, {name: (part.shape[1:], part.dtype) for name, part in fields.items()}),
            length=self.config_of(module_id).batch_length_T,
        )


if TYPE_CHECKING:
    DEFAULT_CONFIG: dict[str, Any]
else:
    __getattr__ = default_config_of(DreamerV3Config, __name__)
