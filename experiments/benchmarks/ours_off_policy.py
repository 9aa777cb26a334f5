"""DQN and SAC with Tunescape itself.

The last line it prints is one JSON object::

    python ours_off_policy.py sac throughput --steps 3000
    python ours_off_policy.py dqn throughput --slots 8 --learners 2  # which share the batch
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import off_policy  # type: ignore[import-not-found]  # the neighbour, see there
from off_policy import DQNSettings, Recorded, Result, SACSettings

from experiments.sweep.load import load_spec
from trainables import DQNConfig, SACConfig

RETURN = "episode_return_mean"

TUNED = {"dqn": "tuned/dqn/cartpole", "sac": "tuned/sac/pendulum"}
"""The shipped specs that reach the scores."""


def equal_dqn(slots: int) -> DQNConfig:
    """The settings that `throughput.py` gives everyone; one update per environment step."""
    s = DQNSettings()
    return (
        DQNConfig()
        .environment(s.env, disable_env_checking=True)  # its steps would be recorded
        .env_runners(num_envs_per_env_runner=slots)
        .training(
            train_batch_size_per_learner=s.batch_size,
            training_intensity=s.batch_size,
            lr=s.lr,
            gamma=s.gamma,
            replay_buffer_config={"type": "ReplayBuffer", "capacity": s.capacity},
            num_steps_sampled_before_learning_starts=s.learning_starts,
            target_network_update_freq=s.target_every,
            tau=1.0,
            epsilon=[[0, 1.0], [s.epsilon_steps, s.epsilon_final]],
            n_step=1,
            double_q=True,
            dueling=False,
            grad_clip=s.max_grad_norm,
            model={"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
        )
        .reporting(min_sample_timesteps_per_iteration=200)
    )


def equal_sac(settings: SACSettings, slots: int = 1) -> SACConfig:
    """SAC with given settings; one update per environment step."""
    s = settings
    return (
        SACConfig()
        .environment(s.env, disable_env_checking=True)  # its steps would be recorded
        .env_runners(num_envs_per_env_runner=slots)
        .training(
            train_batch_size_per_learner=s.batch_size,
            training_intensity=s.batch_size,
            lr=s.lr,
            gamma=s.gamma,
            tau=s.tau,
            target_network_update_freq=0,
            replay_buffer_config={"type": "ReplayBuffer", "capacity": s.capacity},
            num_steps_sampled_before_learning_starts=s.learning_starts,
            n_step=1,
            model={"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
        )
        .reporting(min_sample_timesteps_per_iteration=200)
    )


def tuned(algorithm: str) -> DQNConfig | SACConfig:
    """What the shipped spec says, reported often enough to notice the score soon."""
    config: DQNConfig | SACConfig = DQNConfig() if algorithm == "dqn" else SACConfig()
    config.update_from_dict(load_spec(TUNED[algorithm]).config)
    return config.reporting(
        metrics_num_episodes_for_smoothing=off_policy.SCORES[algorithm].episodes,
        min_sample_timesteps_per_iteration=200,
    )


class Ours:
    """An algorithm of Tunescape; `iterate` is one `train()`."""

    def __init__(self, config: DQNConfig | SACConfig, seed: int) -> None:
        self.enough = config.metrics_num_episodes_for_smoothing
        self.algo = config.debugging(seed=seed).build()
        self.env_steps, self.updates, self.update_seconds = 0, 0, 0.0
        self.result: dict[str, Any] = {}

    def iterate(self) -> None:
        """One training iteration."""
        self.result = self.algo.train()
        self.env_steps = self.result["num_env_steps_sampled_lifetime"]
        self.updates = self.result["num_updates_lifetime"]
        self.update_seconds += self.result["time/learn_s"]

    def mean_return(self) -> float:
        """The mean return of the last training episodes; NaN before there are enough."""
        full = self.result.get("num_episodes_lifetime", 0) >= self.enough
        return float(self.result[RETURN]) if full else float("nan")

    def stop(self) -> None:
        """Ends the algorithm."""
        self.algo.stop()


def curve(env_id: str, steps: int, seed: int) -> Result:
    """Returns of SAC's training episodes, and of its final policy."""
    env = Recorded(gym.make(env_id))
    gym.register("Recorded-v0", entry_point=lambda **kwargs: env)
    ours = Ours(equal_sac(SACSettings(env="Recorded-v0")), seed)

    def train() -> None:
        while ours.env_steps < steps:
            ours.iterate()

    result = off_policy.curve(
        env, env_id, train, lambda obs: ours.algo.compute_single_action(obs, explore=False)
    )
    ours.stop()
    return result


def main() -> None:
    """Runs the task that the command line names and prints its result."""
    algorithms = ["dqn", "sac"]
    tasks = off_policy.TASKS
    args = off_policy.parser(__doc__, algorithms, tasks, compiles=True, learners=True).parse_args()
    if args.task == "throughput":
        dqn = args.algorithm == "dqn"
        config = equal_dqn(args.slots) if dqn else equal_sac(SACSettings(), args.slots)
        config.framework(torch_compile_learner=args.compile)
        rows = config.train_batch_size_per_learner // max(1, args.learners)
        config.learners(num_learners=args.learners)
        config.training(train_batch_size_per_learner=rows)
        result = off_policy.throughput(Ours(config, args.seed), args.steps, args.warmup)
    elif args.task == "time-to-score":
        config = tuned(args.algorithm)
        result = off_policy.time_to_score(
            lambda: Ours(config, args.seed), off_policy.target(args), args.cap
        )
    else:
        result = curve(args.env, args.steps, args.seed)
    off_policy.report("ours", args, result)


if __name__ == "__main__":
    main()
