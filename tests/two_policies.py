"""Two policies on one environment by slot: even slots are one module's, odd slots the other's."""

from __future__ import annotations

from typing import Any

from trainables import PPO, PPOConfig

SMALL, LARGE = "small", "large"
SIZES = {SMALL: 8, LARGE: 16}


class TwoPolicies(PPO):
    """PPO in which each module learns from slots of its own, with a network of its own size."""

    @classmethod
    def module_ids(cls, config: Any) -> tuple[str, ...]:
        return (SMALL, LARGE)

    @staticmethod
    def module_of_slot(slot: int, worker_index: int) -> str:
        return (SMALL, LARGE)[slot % 2]

    def policy_options(self, module_id: str) -> dict[str, Any]:
        return {"model": {"fcnet_hiddens": [SIZES[module_id]]}}


def two_policies(**settings: Any) -> TwoPolicies:
    """Return a small one, with filters and KL coefficients, which modules have apart."""
    config = PPOConfig(
        env="CartPole-v1",
        seed=3,
        num_envs_per_env_runner=5,
        train_batch_size_per_learner=200,
        minibatch_size=50,
        num_epochs=2,
        lr=0.02,
        use_kl_loss=True,
        observation_filter="MeanStdFilter",
        evaluation_interval=1,
        evaluation_duration=4,
    )
    config.update_from_dict(settings)
    return TwoPolicies(config=config)
