"""`Algorithm`: the loop that Tune drives, its resources, and saving and restoring."""

from __future__ import annotations

import logging
import os
import tempfile
import time
import zlib
from abc import abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from ray import tune
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.tune import _Config

from trainables import registry
from trainables.core.batch import Rollout
from trainables.core.checkpoint import (
    CHECKPOINT_FILE,
    CheckpointError,
    load_state,
    policy_folder,
    save_state,
    trusted,
)
from trainables.core.compatibility import missing_attribute
from trainables.core.config import DEFAULT_MODULE_ID, AlgorithmConfig
from trainables.core.export import export_torch_program
from trainables.core.learner import Learner
from trainables.core.policy import Policy
from trainables.core.schedules import Schedule
from trainables.core.settings import ConfigError
from trainables.runtime.env_runner import draw_seed
from trainables.runtime.env_runner_group import EnvRunnerGroup
from trainables.runtime.envs import EnvContext, env_name, make_vector_env, trusted_env
from trainables.runtime.evaluation import evaluate_policy
from trainables.runtime.learner_group import LearnerGroup
from trainables.runtime.metrics import EpisodeWindow, Timers

logger = logging.getLogger("trainables")

_Config.register(AlgorithmConfig)  # tune.Tuner(param_space=PPOConfig()…) calls its to_dict()

_STATE = "checkpoint"


class Algorithm(tune.Trainable):
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
        torch.set_num_threads(max(1, int(self.config.num_cpus_for_main_process)))
        self._zero_counters()
        env: VectorEnv | None = None
        try:
            env = self._make_env()
            self._seed_entropy = (
                int(cast(int, np.random.SeedSequence().entropy))
                if self.config.seed is None
                else self.config.seed
            )
            module, learner, runners, evaluation = self._random_streams()
            self._evaluation_seed = evaluation
            self.policies = {DEFAULT_MODULE_ID: self._make_policy(env, module)}
            self.learners = LearnerGroup(self._make_learners(), draw_seed(learner))
            self._set_up_env_runners(env, runners)
        except BaseException:
            # Actors that outlive a failed set-up would keep the trial's bundles for ever.
            self.cleanup()
            if env is not None:
                env.close()
            raise

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

    def _random_streams(self, *key: int) -> list[np.random.SeedSequence]:
        """Independent streams of module, learner, env runners, evaluation; others for other keys.

        Never `seed + i`: neighbouring seeds would share streams.
        """
        return np.random.SeedSequence(self._seed_entropy, spawn_key=key).spawn(4)

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
            config.model,
            observation_filter=config.observation_filter,
            normalize_actions=config.normalize_actions,
            clip_actions=config.clip_actions,
            explore=config.explore,
            seed=draw_seed(seed),
            device=_device(config),
        )

    def _make_learners(self) -> dict[str, Learner]:
        config = self.config
        return {
            module_id: Learner(
                policy.module, config.optimizer, config.grad_clip, config.grad_clip_by
            )
            for module_id, policy in self.policies.items()
        }

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

    # ------------------------------------------------------------------ acting and weights

    def get_policy(self, policy_id: str = DEFAULT_MODULE_ID) -> Policy:
        """The learner's policy.

        Raises:
            KeyError: naming the ids there are.
        """
        if policy_id not in self.policies:
            raise KeyError(f"no policy {policy_id!r}; there are {sorted(self.policies)}")
        return self.policies[policy_id]

    get_module = get_policy

    def compute_single_action(
        self,
        observation: Any,
        state: None = None,
        *,
        policy_id: str = DEFAULT_MODULE_ID,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """The action for one observation; see `Policy.compute_single_action`."""
        return self.get_policy(policy_id).compute_single_action(
            observation, state, explore=explore, full_fetch=full_fetch
        )

    def compute_actions(
        self,
        observations: Any,
        state: None = None,
        *,
        policy_id: str = DEFAULT_MODULE_ID,
        explore: bool | None = None,
        full_fetch: bool = False,
    ) -> Any:
        """Actions for a batch `[B, …]`, or by key for a dict of observations."""
        policy = self.get_policy(policy_id)
        if not isinstance(observations, dict):
            return policy.compute_actions(
                observations, state, explore=explore, full_fetch=full_fetch
            )
        batch = np.stack(list(observations.values()))
        actions = policy.compute_actions(batch, state, explore=explore)
        return dict(zip(observations, actions, strict=True))

    def get_weights(
        self, policies: Collection[str] | None = None
    ) -> dict[str, dict[str, np.ndarray]]:
        """Copies of the weights by policy id; None: of all policies."""
        return {p: self.get_policy(p).get_weights() for p in policies or self.policies}

    def set_weights(self, weights: dict[str, dict[str, np.ndarray]]) -> None:
        """Set weights by policy id, here and on all env runners."""
        for policy_id, policy_weights in weights.items():
            self.get_policy(policy_id).set_weights(policy_weights)
        self.env_runners.sync_weights()

    # ------------------------------------------------------------------ saving

    def get_state(self) -> dict[str, Any]:
        """Everything that `from_state` needs to go on exactly."""
        return {
            "algorithm": registry.name_of(type(self)),
            "config": self.config.to_dict(),
            "trial_id": self._own_trial_id,
            "seed_entropy": self._seed_entropy,
            "counters": {
                "iteration": self.iteration,
                "time_total_s": self._time_total,
                "num_env_steps_sampled": self.num_env_steps_sampled,
                "num_env_steps_trained": self.num_env_steps_trained,
                "num_training_steps": self.num_training_steps,
            },
            "episodes": self.episodes.get_state(),
            "evaluation": self._evaluation,
            "policies": {m: policy.get_state() for m, policy in self.policies.items()},
            "learners": self.learners.get_state(),
            "env_runners": self.env_runners.get_state(),
            "learned": self.get_learned_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what another run has learned; the settings of this one stay.

        The same run goes on with its random streams and episodes. A clone (another trial's state,
        as in population-based training) gets new ones.
        """
        for module_id, policy in self.policies.items():
            policy.set_state(state["policies"][module_id])
        self.set_learned_state(state["learned"])
        counters = state["counters"]
        self._iteration = counters["iteration"]
        self._time_total = counters["time_total_s"]
        self.num_env_steps_sampled = counters["num_env_steps_sampled"]
        self.num_env_steps_trained = counters["num_env_steps_trained"]
        self.num_training_steps = counters["num_training_steps"]
        self._timesteps_total = self.num_env_steps_sampled  # type: ignore[assignment]
        self.episodes.set_state(state["episodes"])
        self._evaluation = dict(state["evaluation"])
        is_clone = None not in (state["trial_id"], self._own_trial_id) and (
            state["trial_id"] != self._own_trial_id
        )
        self.learners.set_state(state["learners"], with_random=not is_clone)
        if is_clone:
            self._become_another_run()
            return
        if not self.env_runners.set_state(state["env_runners"]):
            logger.warning(
                "%s cannot give its state (get_state/set_state): the resumed run starts new "
                "episodes",
                env_name(self.config.env),
            )

    def _become_another_run(self) -> None:
        key = (zlib.crc32(self.trial_id.encode()), self._iteration)
        _, learner, runners, _ = self._random_streams(*key)
        self.learners.reseed(draw_seed(learner))
        self.env_runners.sync_weights()
        self.env_runners.reseed(runners)

    @property
    def _own_trial_id(self) -> str | None:
        return self.trial_id if self._trial_info else None

    def get_learned_state(self) -> dict[str, Any]:
        """What an algorithm has learned besides weights, e.g. an adaptive coefficient."""
        return {}

    def set_learned_state(self, state: dict[str, Any]) -> None:
        """Take over `get_learned_state`'s."""

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write JSON and safetensors. `checkpoint.json` comes last: without it there is none."""
        folder = Path(checkpoint_dir)
        # A checkpoint that is written over is none until the new one is whole.
        (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
        state = self.get_state()
        state["policies"] = sorted(self.policies)
        for policy_id in self.policies:
            path = self.export_policy_checkpoint(
                str(policy_folder(folder, policy_id)), policy_id=policy_id
            )
            if self.config.export_native_model_files:
                self.export_policy_model(str(path), policy_id)
        save_state(folder, _STATE, state)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Read what `save_checkpoint` wrote."""
        if not isinstance(checkpoint, (str, os.PathLike)):
            raise CheckpointError(f"a checkpoint is a folder, not a {type(checkpoint).__name__}")
        self.set_state(_read_checkpoint(Path(checkpoint)))

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from a checkpoint: a folder, a Tune `Checkpoint`, or what `save` returned.

        Tune's own `restore` would unpickle a file that it finds in the folder; this one never does.

        Raises:
            CheckpointError: naming the folder and what is wrong with it.
        """
        checkpoint = getattr(checkpoint_path, "checkpoint", checkpoint_path)
        if hasattr(checkpoint, "as_directory"):
            with checkpoint.as_directory() as folder:
                self.load_checkpoint(folder)
        else:
            self.load_checkpoint(checkpoint)
        self._time_since_restore = 0.0
        self._iterations_since_restore = 0
        self._timesteps_since_restore = 0
        self._episodes_total = None
        self._restored = True

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str], trust: Collection[str] = ()) -> Any:
        """Rebuild an algorithm from its checkpoint and go on from there.

        Args:
            path: A checkpoint folder.
            trust: Callables, as `module:qualname`, that may be imported if the checkpoint names
                them (environments for example). Without it, loading runs no code.

        Raises:
            CheckpointError: if it is damaged or names a callable that is not trusted.
        """
        return cls.from_state(_read_checkpoint(Path(path)), trust, f"checkpoint {path}")

    @classmethod
    def from_state(
        cls, state: dict[str, Any], trust: Collection[str] = (), what: str = "the state"
    ) -> Any:
        """Rebuild an algorithm from `get_state`'s."""
        algorithm_class = registry.get_algorithm(state["algorithm"])
        if not issubclass(algorithm_class, cls):
            raise CheckpointError(f"{what} is of {state['algorithm']}, not of {cls.__name__}")
        settings = trusted(state["config"], trust, what)
        trusted_env(settings.get("env"), trust, what)
        # An evaluation may have an environment of its own.
        trusted_env((settings.get("evaluation_config") or {}).get("env"), trust, what)
        algorithm = algorithm_class(config=settings)
        algorithm.set_state(state)
        return algorithm

    def export_policy_checkpoint(self, export_dir: str, policy_id: str = DEFAULT_MODULE_ID) -> Path:
        """Write a policy to a folder that `Policy.load` serves without Ray or an environment."""
        policy = self.get_policy(policy_id)
        policy.metadata = {
            "algorithm": registry.name_of(type(self)),
            "env": env_name(self.config.env),
            "env_config": self.config.env_config,
            "num_env_steps_sampled_lifetime": self.num_env_steps_sampled,
            "tunescape_version": registry.VERSION,
        }
        return policy.save(export_dir)

    def export_policy_model(
        self, export_dir: str, policy_id: str = DEFAULT_MODULE_ID, onnx: int | None = None
    ) -> Path:
        """Write a policy's network as a `torch.export` program, `model.pt2`.

        Args:
            export_dir: Made if missing.
            policy_id: Which policy.
            onnx: An ONNX opset version; not supported yet.

        Returns:
            The file. The program maps observations `[B, *shape]` to distribution inputs and values.
        """
        if onnx is not None:
            raise ConfigError(f"onnx = {onnx!r} is not supported yet (ONNX export)")
        return export_torch_program(self.get_policy(policy_id), Path(export_dir))

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        exporters = {"checkpoint": self.export_policy_checkpoint, "model": self.export_policy_model}
        unknown = [name for name in export_formats if name not in exporters]
        if unknown:
            raise ConfigError(
                f"export format {unknown[0]!r} is unknown; known: {', '.join(exporters)}"
            )
        return {name: str(exporters[name](export_dir)) for name in export_formats}

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


def _read_checkpoint(folder: Path) -> dict[str, Any]:
    state = load_state(folder, _STATE)
    state["policies"] = {
        p: load_state(policy_folder(folder, p), "policy") for p in state["policies"]
    }
    return state


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
