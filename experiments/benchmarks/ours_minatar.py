"""PPO on MinAtar with Tunescape itself; the last line it prints is one JSON object."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import minatar_ppo  # type: ignore[import-not-found]  # the neighbour, see there

from trainables import PPOConfig


def config(s: minatar_ppo.Settings) -> PPOConfig:
    """The settings that everyone has."""
    return (
        PPOConfig()
        .environment(s.env, disable_env_checking=True)  # its steps would be recorded
        .env_runners(num_envs_per_env_runner=s.slots)
        .training(
            train_batch_size_per_learner=s.slots * s.rollout_length,
            num_epochs=s.epochs,
            minibatch_size=s.minibatch_size,
            lr=s.lr,
            gamma=s.gamma,
            lambda_=s.lambda_,
            clip_param=s.clip,
            vf_loss_coeff=s.vf_coeff,
            entropy_coeff=s.entropy_coeff,
            grad_clip=s.max_grad_norm,
            model={
                "conv_filters": [[s.channels, 3, 1]],
                "fcnet_hiddens": [s.hidden],
                "fcnet_activation": "relu",
                "vf_share_layers": True,
            },
        )
    )


def run(settings: minatar_ppo.Settings, steps: int, seed: int) -> dict[str, Any]:
    """Train for `steps` environment steps."""
    recorder = minatar_ppo.Recorder(settings.env)
    # By name: a config copies what it is given, and would copy the recorder.
    gym.register("Recorded-v0", entry_point=lambda **_: recorder.make(), disable_env_checker=True)
    algo = config(settings).environment("Recorded-v0").debugging(seed=seed).build()

    def train() -> None:
        while algo.num_env_steps_sampled < steps:
            algo.train()

    result: dict[str, Any] = minatar_ppo.trained(recorder, train)
    algo.stop()
    return result


if __name__ == "__main__":
    minatar_ppo.main("ours", run)
