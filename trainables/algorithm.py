"""`Algorithm`: the loop that Tune drives, and its resources.

How it is saved is in `checkpointing`, what it offers through its policies in `policy_access`.
"""

from __future__ import annotations

import logging
import tempfile
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from ray import tune
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.tune import _Config

from trainables.checkpointing import Checkpointing, RandomStreams
from trainables.core.batch import Rollout
from trainables.core.compatibility import missing_attribute
from trainables.core.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.learner import Learner
from trainables.core.modules import PolicyModule
from trainables.core.policy import Policy
from trainables.core.schedules import Schedule
from trainables.core.settings import ConfigError
from trainables.runtime.env_runner import draw_seed
from trainables.runtime.env_runner_group import EnvRunnerGroup
from trainables.runtime.envs import EnvContext, env_name, make_vector_env
from trainables.runtime.evaluation import evaluate_policy
from trainables.runtime.learner_group import LearnerGroup
from trainables.runtime.metrics import EpisodeWindow, Timers

logger = logging.getLogger("trainables")

_Config.register(AlgorithmConfig)  # tune.Tuner(param_space=PPOConfig()…) calls its to_dict()


class Algorithm(Checkpointing, tune.Trainable):
    """Base of every algorithm: a Tune `Trainable` that samples, learns, evaluates and saves.

    A subclass sets `config_class` and writes `training_step`.

    Args:
        config: A config object, or a dict of settings.
        env: Overrides the `env` setting.

    Attributes:
        config: The settings in use, read-only.
        policies: By module id.
        env_runners: Samples.
        learners: Train.
    """

    config_class: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    config: AlgorithmConfig  # type: ignore[assignment]  # Tune hands over a dict; setup replaces it

    def __init__(
        self,
        config: AlgorithmConfig | dict[str, Any] | None = None,
        env: Any = None,
        logger_creator: None = None,
        **kwargs: Any,
    ):
        given = config.to_dict() if isinstance(config, AlgorithmConfig) else dict(config or {})
        if env is not None:
            given["env"] = env
        if logger_creator is not None:
            raise ConfigError("logger_creator is not supported: Tune's callbacks log results")
        super().__init__(given, **kwargs)

    # ------------------------------------------------------------------ set up and take down

    def setup(self, config: dict[str, Any]) -> None:
        """Build everything that the settings describe. Called by Tune, and by `reset_config`."""
        self._given_config = config
        self.config = self._validated(config)
        self.config.freeze()
        logging.getLogger("trainables").setLevel(self.config.log_level)
        torch.set_num_threads(self._num_threads())
        self._zero_counters()
        env: VectorEnv | None = None
        try:
            env = self._make_env()
            self._seed_entropy = (
                int(cast(int, np.random.SeedSequence().entropy))
                if self.config.seed is None
                else self.config.seed
            )
            seeds = self._random_streams()
            self._evaluation_seed = seeds.evaluation
            self.policies = {DEFAULT_MODULE_ID: self._make_policy(env, seeds.module)}
            self.learners = LearnerGroup(self._make_learners(), draw_seed(seeds.learner))
            self._set_up_learning(seeds.storage)
            self._set_up_env_runners(env, seeds.env_runners)
        except BaseException:
            # Actors that outlive a failed set-up would keep the trial's bundles for ever.
            self.cleanup()
            if env is not None:
                env.close()
            raise

    def _num_threads(self) -> int:
        """As many as this process has CPUs: a scheduler may have given it more than the config."""
        resources = getattr(self._trial_info, "trial_resources", None)
        bundles = getattr(resources, "bundles", None)
        given = bundles[0].get("CPU", 0) if bundles else 0
        return max(1, int(given), int(self.config.num_cpus_for_main_process))

    def _validated(self, given: dict[str, Any]) -> AlgorithmConfig:
        config = self.config_class.from_dict(given)
        config.validate()
        return config

    def _zero_counters(self) -> None:
        self.num_env_steps_sampled = 0
        self.num_env_steps_trained = 0
        self.num_training_steps = 0
        self.timers = Timers()
        self.episodes = EpisodeWindow(self.config.metrics_num_episodes_for_smoothing)
        self._evaluation: dict[str, float] = {}

    def _random_streams(self, *key: int) -> RandomStreams:
        """Independent streams; others for other keys."""
        # Never `seed + i`: neighbouring seeds would share streams.
        root = np.random.SeedSequence(self._seed_entropy, spawn_key=key)
        return RandomStreams(*root.spawn(len(RandomStreams._fields)))

    def _make_env(self) -> VectorEnv:
        """All slots of the in-process env runner; one slot to read the spaces from with actors."""
        in_process = self.config.num_env_runners == 0
        num_envs = self.config.num_envs_per_env_runner if in_process else 1
        env = make_vector_env(self.config.env, self.config.env_config, num_envs)
        self.validate_env(env, EnvContext(self.config.env_config))
        return env

    @staticmethod
    def validate_env(env: Any, env_context: EnvContext) -> None:
        """Override to refuse environments: raise with the reason.

        Args:
            env: The vector environment.
            env_context: What it was made with.
        """

    def _make_policy(self, env: VectorEnv, seed: np.random.SeedSequence) -> Policy:
        config = self.config
        return Policy(
            config.observation_space or env.single_observation_space,
            config.action_space or env.single_action_space,
            config.full_model,
            module=self.module_options(),
            observation_filter=config.observation_filter,
            normalize_actions=config.normalize_actions,
            clip_actions=config.clip_actions,
            explore=config.explore,
            seed=draw_seed(seed),
            device=_device(config),
        )

    def module_options(self) -> dict[str, Any]:
        """What policies are made of: a type in `core.catalog` and its options."""
        return {"type": "actor_critic"}

    def _make_learners(self) -> dict[str, Learner]:
        return {
            module_id: self.make_learner(policy.module)
            for module_id, policy in self.policies.items()
        }

    def make_learner(self, module: PolicyModule) -> Learner:
        """The learner of a module."""
        config = self.config
        return Learner(module, config.full_optimizer, config.grad_clip, config.grad_clip_by)

    def _set_up_learning(self, seed: np.random.SeedSequence) -> None:
        """What else an algorithm needs to learn, e.g. room for experience.

        Before any actor is started, and cleaned up after if it fails.
        """

    def _set_up_env_runners(self, env: VectorEnv, seed: np.random.SeedSequence) -> None:
        mine = env if self.config.num_env_runners == 0 else None
        existing: EnvRunnerGroup | None = getattr(self, "env_runners", None)
        if existing is None:
            self.env_runners = EnvRunnerGroup(self.config, self.get_policy(), mine, seed)
        else:
            existing.rebuild(self.config, self.get_policy(), mine, seed)
        if mine is None:
            env.close()

    def cleanup(self) -> None:
        """Close environments and end actors. Called by `stop`."""
        env_runners: EnvRunnerGroup | None = getattr(self, "env_runners", None)
        if env_runners is not None:
            env_runners.stop()
            del self.env_runners

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Become a new trial in this process. Tune hangs on False, so it rebuilds or raises."""
        self.setup(new_config)
        return True

    def _setup_logdir(self) -> None:
        if self._storage is None:  # outside Tune: not in the user's home
            self._logdir = tempfile.mkdtemp(prefix="tunescape-")  # type: ignore[assignment]
        else:
            super()._setup_logdir()

    # ------------------------------------------------------------------ resources

    @classmethod
    def default_resource_request(cls, config: AlgorithmConfig | dict[str, Any]) -> Any:
        """The trial's bundles: the driver with the GPU first, then one for each env runner."""
        settings = (
            config if isinstance(config, AlgorithmConfig) else cls.config_class.from_dict(config)
        )
        driver = {"CPU": settings.num_cpus_for_main_process, "GPU": settings.num_gpus_per_learner}
        runner = {
            "CPU": settings.num_cpus_per_env_runner,
            **settings.custom_resources_per_env_runner,
        }
        bundles = [driver, *[runner] * settings.num_env_runners]
        return PlacementGroupFactory(
            [{name: amount for name, amount in bundle.items() if amount} for bundle in bundles],
            strategy=settings.placement_strategy,
        )

    @classmethod
    def resource_help(cls, config: AlgorithmConfig | dict[str, Any]) -> str:
        """Which settings decide the resources of a trial."""
        return (
            "Driver bundle: num_cpus_for_main_process, num_gpus_per_learner. One bundle for each "
            "of num_env_runners: num_cpus_per_env_runner, custom_resources_per_env_runner. "
            f"This config asks for {cls.default_resource_request(config).bundles}."
        )

    # ------------------------------------------------------------------ the loop

    @abstractmethod
    def training_step(self) -> dict[str, float]:
        """Sample, learn and sync once; returns flat metrics."""

    def iteration_metrics(self) -> dict[str, float]:
        """What is reported once an iteration, however many training steps it has."""
        return {}

    def step(self) -> dict[str, Any]:
        """One training iteration: `training_step` until the reporting minima are met."""
        start, sampled, trained = (
            time.perf_counter(),
            self.num_env_steps_sampled,
            self.num_env_steps_trained,
        )
        while True:
            metrics = self.training_step()
            self.num_training_steps += 1
            self._check_finite(metrics)
            elapsed = time.perf_counter() - start
            if self._iteration_is_full(elapsed, sampled, trained):
                break
        metrics |= self.iteration_metrics()
        self._check_finite(metrics)
        num_env_steps = self.num_env_steps_sampled - sampled
        metrics |= self.episodes.metrics()
        metrics |= {
            "num_env_steps_sampled": num_env_steps,
            "num_env_steps_sampled_lifetime": self.num_env_steps_sampled,
            "num_env_steps_trained_lifetime": self.num_env_steps_trained,
            "num_training_step_calls_lifetime": self.num_training_steps,
            "env_steps_per_second": num_env_steps / elapsed,
            "num_healthy_workers": self.env_runners.num_env_runners,
        }
        metrics |= {f"evaluation/{k}": v for k, v in self._evaluate_if_due().items()}
        metrics |= self.timers.metrics()
        return metrics | _legacy_metrics(metrics)

    def _iteration_is_full(self, elapsed: float, sampled: int, trained: int) -> bool:
        """Whether the minima are met and a first episode has ended.

        Tune and Optuna break on a result without a return, so the first one waits for an episode.
        """
        config = self.config
        if self.episodes.num_lifetime == 0:
            if self.num_env_steps_sampled >= config.max_env_steps_without_episode:
                raise RuntimeError(
                    f"env {env_name(config.env)!r}: no episode ended in "
                    f"{self.num_env_steps_sampled} steps; give it a time limit, or raise "
                    "max_env_steps_without_episode"
                )
            return False
        return (
            elapsed >= (config.min_time_s_per_iteration or 0)
            and self.num_env_steps_sampled - sampled
            >= (config.min_sample_timesteps_per_iteration or 0)
            and self.num_env_steps_trained - trained
            >= (config.min_train_timesteps_per_iteration or 0)
        )

    def _check_finite(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if not np.isfinite(value):
                raise RuntimeError(
                    f"training diverged: {name} = {value} after {self.num_env_steps_sampled} steps "
                    f"of {env_name(self.config.env)!r}; a lower lr or grad_clip may help"
                )

    def sample(self) -> dict[str, Rollout]:
        """Rollouts of all env runners by module id; counts their steps and episodes."""
        with self.timers("sample"):
            rollouts, episodes = self.env_runners.sample()
        self.episodes.add(episodes)
        self.num_env_steps_sampled += rollouts[DEFAULT_MODULE_ID].num_env_steps
        return rollouts

    def scheduled(self, value: float | list[Any]) -> float:
        """The present value of a setting that may be a schedule over environment steps."""
        if not isinstance(value, list):
            return float(value)
        return Schedule(value)(self.num_env_steps_sampled)

    # ------------------------------------------------------------------ evaluation

    def evaluate(self) -> dict[str, float]:
        """Play `evaluation_duration` episodes (or steps) with the present policy.

        Neither training's random streams nor filter statistics are touched, and every evaluation
        plays on the same seeds, so that two of them differ by the policy alone.
        """
        config = self.config.get_evaluation_config_object()
        in_episodes = config.evaluation_duration_unit == "episodes"
        with self.timers("evaluate"):
            result = evaluate_policy(
                self.get_policy(),
                config.env,
                config.env_config,
                num_episodes=config.evaluation_duration if in_episodes else None,
                num_timesteps=None if in_episodes else config.evaluation_duration,
                seed=self._evaluation_seed,
                explore=config.explore,
            )
        self._evaluation = result.metrics()
        return dict(self._evaluation)

    def _evaluate_if_due(self) -> dict[str, float]:
        interval = self.config.evaluation_interval
        if not interval:
            return {}
        due = (self.iteration + 1) % interval == 0
        attach = self.config.always_attach_evaluation_results
        if due or (attach and not self._evaluation):
            return self.evaluate()
        return self._evaluation if attach else {}

    # ------------------------------------------------------------------ for Tune's bookkeeping

    def get_auto_filled_metrics(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Tune's own metrics; `config` holds the settings as they were given."""
        filled = super().get_auto_filled_metrics(*args, **kwargs)
        if "config" in filled:
            filled["config"] = self._given_config
        return filled

    @classmethod
    def merge_algorithm_configs(
        cls, config1: dict[str, Any], config2: dict[str, Any]
    ) -> dict[str, Any]:
        """`config1` with the settings of `config2` on top, nested dicts merged."""
        merged = cls.config_class.check(config1)
        for name, value in cls.config_class.check(config2).items():
            both = isinstance(value, dict) and isinstance(merged.get(name), dict)
            merged[name] = {**merged[name], **value} if both else value
        return merged

    merge_trainer_configs = merge_algorithm_configs

    @property
    def workers(self) -> EnvRunnerGroup:
        """The older name of `env_runners`."""
        return self.env_runners

    if not TYPE_CHECKING:  # for mypy every attribute would then exist

        def __getattr__(self, name: str) -> Any:
            """Say what becomes of the reference's methods that are not here."""
            raise missing_attribute(type(self), name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _legacy_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """The older names that users' stop criteria and plots still have."""
    return {
        "episode_reward_mean": metrics["episode_return_mean"],
        "episode_reward_min": metrics["episode_return_min"],
        "episode_reward_max": metrics["episode_return_max"],
        "episodes_this_iter": metrics["num_episodes"],
        "episodes_total": metrics["num_episodes_lifetime"],
        "timesteps_total": metrics["num_env_steps_sampled_lifetime"],
    }


def _device(config: AlgorithmConfig) -> torch.device:
    """The learner's device.

    Raises:
        ConfigError: if a GPU is asked for and there is none.
    """
    if not config.num_gpus_per_learner or config.fake_gpus:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError(
            f"num_gpus_per_learner = {config.num_gpus_per_learner}, but PyTorch sees no GPU here; "
            "set it to 0, or fake_gpus=True to test on the CPU"
        )
    return torch.device("cuda")
