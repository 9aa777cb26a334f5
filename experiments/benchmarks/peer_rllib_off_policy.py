"""DQN and SAC with RLlib's new API stack; runs in the peers' virtual environment (see README.md).

The last line it prints is one JSON object::

    python peer_rllib_off_policy.py sac throughput --steps 3000
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

# Before Ray starts: workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
import ray
import torch
from off_policy import DQNSettings, SACSettings, Stopwatch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.sac.sac_catalog import SACCatalog
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import Tensor, nn


class StateAction(nn.Module):
    """The first layer of a Q network whose input is observation and action side by side."""

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__()
        self.layer = nn.Linear(size_in, size_out)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Features by the name that RLlib gives them."""
        inputs = torch.cat((batch[Columns.OBS], batch[Columns.ACTIONS]), 1)
        return {ENCODER_OUT: self.layer(inputs).relu()}


class EqualCatalog(SACCatalog):
    """Q networks of two layers, of fcnet_hiddens and head_fcnet_hiddens, one number each.

    RLlib's own encode observation and action separately and fuse them in further layers: with
    fcnet_hiddens=[256, 256] each has several times the weights of everyone else's.
    """

    def build_qf_encoder(self, framework: str) -> nn.Module:
        """The first hidden layer; the head has the second."""
        size_in = self.observation_space.shape[0] + self.action_space.shape[0]
        [size_out] = self._model_config_dict["fcnet_hiddens"]
        return StateAction(size_in, size_out)


def equal_dqn(slots: int, seed: int) -> DQNConfig:
    """The settings that `throughput.py` gives everyone, sampled in process."""
    s = DQNSettings()
    return (
        DQNConfig()
        .environment(s.env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=slots)
        .training(
            train_batch_size_per_learner=s.batch_size,
            # Replayed per sampled step: one update per environment step.
            training_intensity=s.batch_size,
            lr=s.lr,
            gamma=s.gamma,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": s.capacity},
            num_steps_sampled_before_learning_starts=s.learning_starts,
            target_network_update_freq=s.target_every,
            epsilon=[(0, 1.0), (s.epsilon_steps, s.epsilon_final)],
            n_step=1,
            double_q=True,
            dueling=False,
            grad_clip=s.max_grad_norm,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[256, 256], fcnet_activation="relu", head_fcnet_hiddens=[]
            )
        )
        # Iterations long enough that reporting costs next to nothing.
        .reporting(min_sample_timesteps_per_iteration=500)
        .debugging(seed=seed, log_level="ERROR")
    )


def equal_sac(slots: int, seed: int) -> SACConfig:
    """The settings that `throughput.py` gives everyone, sampled in process."""
    s = SACSettings()
    return (
        SACConfig()
        .environment(s.env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=slots)
        .training(
            train_batch_size_per_learner=s.batch_size,
            training_intensity=s.batch_size,
            lr=None,
            actor_lr=s.lr,
            critic_lr=s.lr,
            alpha_lr=s.lr,
            gamma=s.gamma,
            tau=s.tau,
            target_network_update_freq=0,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": s.capacity},
            num_steps_sampled_before_learning_starts=s.learning_starts,
            n_step=1,
        )
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=DefaultSACTorchRLModule,
                catalog_class=EqualCatalog,
                model_config=DefaultModelConfig(
                    fcnet_hiddens=[256],
                    fcnet_activation="relu",
                    head_fcnet_hiddens=[256],
                    head_fcnet_activation="relu",
                ),
            )
        )
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=500)
        .debugging(seed=seed, log_level="ERROR")
    )


def tuned_dqn(seed: int) -> DQNConfig:
    """RLlib's own tuned settings for CartPole-v1, sampled in process."""
    return (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(
            lr=0.0005,
            train_batch_size_per_learner=32,
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": 50_000,
                "alpha": 0.6,
                "beta": 0.4,
            },
            n_step=(2, 5),
            double_q=True,
            dueling=True,
            epsilon=[(0, 1.0), (10_000, 0.02)],
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[256],
                fcnet_activation="tanh",
                fcnet_bias_initializer="zeros_",
                head_fcnet_hiddens=[256],
                head_fcnet_bias_initializer="zeros_",
            )
        )
        .reporting(metrics_num_episodes_for_smoothing=off_policy.SCORES["dqn"].episodes)
        .debugging(seed=seed, log_level="ERROR")
    )


def tuned_sac(seed: int) -> SACConfig:
    """RLlib's own tuned settings for Pendulum-v1, sampled in process."""
    return (
        SACConfig()
        .environment("Pendulum-v1")
        .env_runners(num_env_runners=0)
        .training(
            initial_alpha=1.001,
            actor_lr=2e-4,
            critic_lr=8e-4,
            alpha_lr=9e-4,
            lr=None,
            target_entropy="auto",
            n_step=(2, 5),
            tau=0.005,
            train_batch_size_per_learner=256,
            target_network_update_freq=1,
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": 100_000,
                "alpha": 1.0,
                "beta": 0.0,
            },
            num_steps_sampled_before_learning_starts=256,
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[256, 256],
                fcnet_activation="relu",
                fcnet_kernel_initializer=nn.init.xavier_uniform_,
                head_fcnet_hiddens=[],
                head_fcnet_activation=None,
                head_fcnet_kernel_initializer="orthogonal_",
                head_fcnet_kernel_initializer_kwargs={"gain": 0.01},
                fusionnet_hiddens=[256, 256, 256],
                fusionnet_activation="relu",
            )
        )
        .reporting(metrics_num_episodes_for_smoothing=off_policy.SCORES["sac"].episodes)
        .debugging(seed=seed, log_level="ERROR")
    )


class RLlib:
    """An algorithm of RLlib; `iterate` is one `train()`."""

    def __init__(self, config: DQNConfig | SACConfig) -> None:
        self.config = config
        self.algo = config.build_algo()
        self.env_steps, self.updates = 0, 0
        self.env_runners: dict[str, Any] = {}
        self.stopwatch = Stopwatch()
        buffer, learners = self.algo.local_replay_buffer, self.algo.learner_group
        buffer.sample = self.stopwatch.timed(buffer.sample)
        learners.update = self.stopwatch.timed(learners.update)

    @property
    def update_seconds(self) -> float:
        """Seconds of drawing batches and of updates."""
        return self.stopwatch.seconds

    def iterate(self) -> None:
        """One training iteration."""
        result = self.algo.train()
        self.env_runners = result["env_runners"]
        self.env_steps = int(result["num_env_steps_sampled_lifetime"])
        trained = result.get("learners", {}).get("default_policy", {})
        rows = trained.get("num_module_steps_trained_lifetime", 0)
        self.updates = round(rows / self.config.total_train_batch_size)

    def mean_return(self) -> float:
        """The mean return of the last training episodes; NaN before there are enough."""
        enough = self.config.metrics_num_episodes_for_smoothing
        if self.env_runners.get("num_episodes_lifetime", 0) < enough:
            return float("nan")
        return float(self.env_runners["episode_return_mean"])

    def stop(self) -> None:
        """Ends the algorithm's actors."""
        self.algo.stop()


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    args = off_policy.parser(__doc__, ["dqn", "sac"], off_policy.TASKS[:2]).parse_args()
    torch.set_num_threads(1)
    logging.getLogger("ray").setLevel(logging.ERROR)
    begin = time.perf_counter()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray_seconds = time.perf_counter() - begin
    try:
        if args.task == "throughput":
            equal = equal_dqn if args.algorithm == "dqn" else equal_sac
            algo = RLlib(equal(args.slots, args.seed))
            result = off_policy.throughput(algo, args.steps, args.warmup)
        else:
            tuned = tuned_dqn if args.algorithm == "dqn" else tuned_sac
            result = off_policy.time_to_score(
                lambda: RLlib(tuned(args.seed)), off_policy.target(args), args.cap
            )
    finally:
        ray.shutdown()
    off_policy.report("rllib", args, {"ray_init_seconds": ray_seconds, **result})


if __name__ == "__main__":
    main()
