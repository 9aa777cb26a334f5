"""What RLlib and Stable-Baselines3 call settings, and their defaults: for the pages about them.

A tool of the developers, as `reference_table` is. Where the libraries themselves are at hand, tests
compare these with their source.
"""

from __future__ import annotations

from typing import Any

SB3_VERSION = "2.9.2"
RLLIB_VERSION = "2.60.0"

RLLIB_ALGORITHMS = [
    "PPO",
    "A2C",
    "IMPALA",
    "APPO",
    "DQN",
    "SAC",
    "BC",
    "MARWIL",
    "CQL",
    "IQL",
    "QMIX",
    "DreamerV3",
    "TQC",
    "A3C",
    "PG",
    "DDPPO",
    "SimpleQ",
    "ApexDQN",
    "R2D2",
    "DDPG",
    "TD3",
    "ApexDDPG",
    "ES",
    "ARS",
    "MADDPG",
    "AlphaStar",
    "Dreamer",
    "CRR",
    "DT",
    "AlphaZero",
    "LeelaChessZero",
    "MAML",
    "MBMPO",
    "BanditLinUCB",
    "BanditLinTS",
    "SlateQ",
]
"""RLlib's algorithms, those of older releases too."""

SB3_ALGORITHMS = [
    "PPO",
    "A2C",
    "DQN",
    "SAC",
    "TD3",
    "DDPG",
    "RecurrentPPO",
    "MaskablePPO",
    "TRPO",
    "QRDQN",
    "TQC",
    "CrossQ",
    "ARS",
]
"""Algorithms of Stable-Baselines3 and of its contributed package."""

CLEANRL = [
    "env_id",
    "total_timesteps",
    "seed",
    "learning_rate",
    "anneal_lr",
    "num_envs",
    "num_steps",
    "num_minibatches",
    "update_epochs",
    "gamma",
    "gae_lambda",
    "norm_adv",
    "clip_coef",
    "clip_vloss",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "target_kl",
    "cuda",
    "capture_video",
    "track",
]
"""Arguments of CleanRL's `ppo.py`."""

_SDE = {"use_sde": False, "sde_sample_freq": -1}
_LAST = {
    "stats_window_size": 100,
    "tensorboard_log": None,
    "policy_kwargs": None,
    "verbose": 0,
    "seed": None,
    "device": "auto",
}
_ROLLOUT = {"rollout_buffer_class": None, "rollout_buffer_kwargs": None}
_REPLAY = {
    "replay_buffer_class": None,
    "replay_buffer_kwargs": None,
    "optimize_memory_usage": False,
    "n_steps": 1,
}

SB3: dict[str, dict[str, Any]] = {
    "PPO": {
        "learning_rate": 3e-4,
        "n_steps": 2048,
        "batch_size": 64,
        "n_epochs": 10,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "clip_range_vf": None,
        "normalize_advantage": True,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        **_SDE,
        **_ROLLOUT,
        "target_kl": None,
        **_LAST,
    },
    "A2C": {
        "learning_rate": 7e-4,
        "n_steps": 5,
        "gamma": 0.99,
        "gae_lambda": 1.0,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "rms_prop_eps": 1e-5,
        "use_rms_prop": True,
        **_SDE,
        **_ROLLOUT,
        "normalize_advantage": False,
        **_LAST,
    },
    "DQN": {
        "learning_rate": 1e-4,
        "buffer_size": 1_000_000,
        "learning_starts": 100,
        "batch_size": 32,
        "tau": 1.0,
        "gamma": 0.99,
        "train_freq": 4,
        "gradient_steps": 1,
        **_REPLAY,
        "target_update_interval": 10000,
        "exploration_fraction": 0.1,
        "exploration_initial_eps": 1.0,
        "exploration_final_eps": 0.05,
        "max_grad_norm": 10,
        **_LAST,
    },
    "SAC": {
        "learning_rate": 3e-4,
        "buffer_size": 1_000_000,
        "learning_starts": 100,
        "batch_size": 256,
        "tau": 0.005,
        "gamma": 0.99,
        "train_freq": 1,
        "gradient_steps": 1,
        "action_noise": None,
        **_REPLAY,
        "ent_coef": "auto",
        "target_update_interval": 1,
        "target_entropy": "auto",
        **_SDE,
        "use_sde_at_warmup": False,
        **_LAST,
    },
}
"""Arguments of Stable-Baselines3's algorithms with their defaults, besides `policy` and `env`."""

_SHARED = {
    "num_envs_per_env_runner": 1,
    "restart_failed_env_runners": True,
    "sample_timeout_s": 60.0,
    "evaluation_sample_timeout_s": 120.0,
}
_PRIORITIZED = "PrioritizedEpisodeReplayBuffer"

RLLIB: dict[str, dict[str, Any]] = {
    "PPO": {
        "lr": 5e-5,
        "train_batch_size_per_learner": 4000,
        "num_epochs": 30,
        "minibatch_size": 128,
        "lambda_": 1.0,
        "clip_param": 0.3,
        "vf_clip_param": 10.0,
        "vf_loss_coeff": 1.0,
        "use_kl_loss": True,
        "grad_clip": None,
        "num_env_runners": 2,
        **_SHARED,
    },
    "IMPALA": {
        "num_learners": 1,
        "num_env_runners": 2,
        "max_requests_in_flight_per_env_runner": 1,
        "min_time_s_per_iteration": 10,
        "shuffle_batch_per_epoch": False,
        **_SHARED,
    },
    "APPO": {
        "clip_param": 0.4,
        "kl_coeff": 1.0,
        "circular_buffer_num_batches": 8,
        "num_learners": 1,
        "num_env_runners": 2,
        "max_requests_in_flight_per_env_runner": 1,
        "min_time_s_per_iteration": 10,
        "shuffle_batch_per_epoch": False,
        **_SHARED,
    },
    "DQN": {
        "hiddens": [256],
        "categorical_distribution_temperature": 1.0,
        "burn_in_len": 0,
        "training_intensity": None,
        "grad_clip": 40.0,
        "replay_buffer_config.type": _PRIORITIZED,
        "replay_buffer_config.capacity": 50000,
        **_SHARED,
    },
    "SAC": {
        "actor_lr": 3e-5,
        "training_intensity": None,
        "num_steps_sampled_before_learning_starts": 1500,
        "min_sample_timesteps_per_iteration": 100,
        "min_time_s_per_iteration": 1,
        "replay_buffer_config.type": _PRIORITIZED,
        "replay_buffer_config.capacity": 1_000_000,
        **_SHARED,
    },
}
"""RLlib's defaults, on its new API stack, of settings that have other ones here."""
