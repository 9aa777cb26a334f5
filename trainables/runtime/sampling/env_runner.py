"""`EnvRunner`: steps environment slots with a policy and records what happens as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from trainables.core.callables import callable_name, refuse_uncalled, resolve_callable
from trainables.core.config.config import AlgorithmConfig
from trainables.core.data.batch import Rollout
from trainables.core.data.stored import like
from trainables.core.errors import ConfigError
from trainables.core.features import feature, features_of
from trainables.core.policy.policy import Policy
from trainables.runtime.callbacks.hooks import episode_hooks
from trainables.runtime.envs.all_slots import (
    SlotsApart,
    count_restarts,
    reset_with_infos,
)
from trainables.runtime.envs.kinds import AgentSlots, AnyVectorEnv
from trainables.runtime.envs.state import get_env_state, set_env_state
from trainables.runtime.envs.sub_environment import RESTARTS
from trainables.runtime.sampling.module_slots import ModuleSlots, module_seeds, together
from trainables.runtime.sampling.recording import SlotRecorder, StepColumns
from trainables.runtime.sampling.row_checks import Place, check_rewards
from trainables.runtime.sampling.sampling_worker import Episodes, SamplingWorker

_STEPS_AT_ONCE = 16  # that are stepped before a look at whether enough episodes are over


class EnvRunner(SamplingWorker):
    """Samples rollouts from vectorised environments, in process or as a Ray actor.

    Args:
        config: The algorithm's config.
        policies: The policies that act, by module id: the learner's in process; copies of its own
            in an actor.
        env: The slots that are stepped; this runner closes them.
        seed: The root of this runner's random streams: environments and exploration.
        worker_index: 0 in process, 1, 2, … for actors.
        module_slots: Which module acts in which slot; None: the only one in all.

    """

    env: VectorEnv

    def __init__(
        self,
        config: AlgorithmConfig,
        policies: Mapping[str, Policy],
        env: VectorEnv,
        seed: np.random.SeedSequence,
        worker_index: int = 0,
        module_slots: ModuleSlots | None = None,
    ):
        super().__init__(config, worker_index)
        self.policies = dict(policies)
        self.env, self.num_envs = env, env.num_envs
        self._place = Place(config.env, f"env runner {worker_index}")
        self._num_restarts = 0  # those counted so far
        env_seed, action_seed = seed.spawn(2)
        self._slots = (module_slots or ModuleSlots()).of(worker_index, self.num_envs)
        seeds = module_seeds(self._slots, action_seed)
        self.recorders = {
            m: SlotRecorder(
                config,
                self.policies[m],
                slots if len(self._slots) > 1 else None,
                len(slots),
                self._place,
                seeds[m],
            )
            for m, slots in self._slots.items()
        }
        self._acting = together(self.recorders, self._slots)
        self._hooks = episode_hooks(
            self.callbacks,
            self._logger,
            self.policies,
            self._slots,
            env,
            self,
            is_evaluation=False,
        )
        self._output: Any = None  # what records its samples, if they are recorded
        self._begin(env_seed)

    def write_output(self, plan: Any) -> None:
        self._output = feature("offline").record(self, plan)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes and exploration on the random streams of `seed`."""
        env_seed, action_seed = seed.spawn(2)
        seeds = module_seeds(self._slots, action_seed)
        for m, recorder in self.recorders.items():
            recorder.reseed(seeds[m])
        self._begin(env_seed)

    def _begin(self, seed: np.random.SeedSequence) -> None:
        """Start new episodes in all slots."""
        first, infos = reset_with_infos(self.env, seed)
        self._resets_next = np.zeros(self.num_envs, dtype=bool)  # the slot's next row only resets
        self._follows = False  # whether the next rollout goes on where the last one ended
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        actors = {m: recorder.actor for m, recorder in self.recorders.items()}
        shown = together(actors, self._slots)
        shown.observe(first, self._returns, np.ones(self.num_envs, dtype=bool), self._lengths)
        if self._hooks is not None:
            self._hooks.was_reset(first, infos)

    def sample(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        """Step every slot `num_steps` times, or until as many steps are in whole episodes.

        Returns:
            A rollout `[T, N]` by module id, and the episodes that ended in it.
        """
        held = {m: r.whole for m, r in self.recorders.items() if r.whole is not None}
        enough = {m: num_steps * self.recorders[m].num_slots for m in held}
        if not held:
            rollouts, episodes = self.fragment(num_steps)
            return self._sampled(rollouts, episodes)
        episodes = Episodes()
        while not all(whole.is_enough(enough[m]) for m, whole in held.items()):
            fragments, ended = self.fragment(min(num_steps, _STEPS_AT_ONCE))
            for m, whole in held.items():
                whole.add(fragments[m])
            episodes.extend(ended)
        return self._sampled({m: whole.take() for m, whole in held.items()}, episodes)

    def fragment(self, num_steps: int) -> tuple[dict[str, Rollout], Episodes]:
        """Step every slot `num_steps` times: rollouts `[T, N]`, and the episodes that ended."""
        columns, episodes = self._begin_columns(num_steps), Episodes()
        acting, hooks = self._acting, self._hooks
        some_reset = True  # whether there are rows that only reset; of the first one: perhaps
        for rewards, terminated, truncated, valid in columns.rows():
            actions = acting.act(self._resets_next, self._lengths)
            obs, rewards[:], terminated[:], truncated[:], infos = self.env.step(actions)
            is_first = self._resets_next
            np.logical_not(is_first, out=valid)
            if RESTARTS in infos:
                self._drop_episodes(valid, infos[RESTARTS] > 0)
                is_first, some_reset = ~valid, True
            if some_reset:
                rewards[is_first] = 0.0  # nobody acted, whatever an environment gives
            check_rewards(rewards, self._lengths, self._place)
            self._lengths += valid
            acting.observe(obs, rewards, is_first, self._lengths)
            some_reset = self._track_episodes(rewards, terminated | truncated, episodes)
            if hooks is not None:
                hooks.act(actions)
                hooks.row(obs, rewards, terminated, truncated, infos, valid)
        return self._rollouts(columns), episodes

    def _begin_columns(self, num_steps: int) -> StepColumns:
        """Return the columns of all slots for a fragment; those of the modules are begun, too."""
        if self._hooks is not None:
            self._hooks.begin()
        for recorder in self.recorders.values():
            recorder.begin(num_steps)
        return StepColumns(num_steps, self.num_envs)

    def _rollouts(self, columns: StepColumns) -> dict[str, Rollout]:
        """Return what was sampled by module; the next rollouts go on from their last rows."""
        follows, self._follows = self._follows, True
        return {
            m: recorder.rollout(columns, self.weights_version, follows)
            for m, recorder in self.recorders.items()
        }

    def _sampled(
        self, rollouts: dict[str, Rollout], episodes: Episodes
    ) -> tuple[dict[str, Rollout], Episodes]:
        episodes.num_env_steps = sum(rollout.num_env_steps for rollout in rollouts.values())
        sampled = super()._sampled(rollouts, episodes)
        total = count_restarts(self.env)
        episodes.num_restarts, self._num_restarts = total - self._num_restarts, total
        return sampled

    def _drop_episodes(self, valid: np.ndarray, replaced: np.ndarray) -> None:
        """Drop the episodes of replaced environments: nothing is known of this row's action.

        They count nowhere: their returns and lengths are not those of whole ones.
        """
        valid &= ~replaced
        self._returns[replaced] = 0
        self._lengths[replaced] = 0

    def _track_episodes(self, rewards: np.ndarray, done: np.ndarray, episodes: Episodes) -> bool:
        """Count the rewards of a row, and the episodes that it ends; return whether it ends any."""
        self._returns += rewards
        ends = bool(np.count_nonzero(done))  # faster than `any`, of as few
        if ends:
            ended = done & (self._lengths > 0)  # else an environment that was over when it reset
            episodes.returns += self._returns[ended].tolist()
            episodes.lengths += self._lengths[ended].tolist()
            self._returns[done] = 0
            self._lengths[done] = 0
        self._resets_next = done
        return ends

    def get_state(self) -> dict[str, Any]:
        """Return random streams, running episodes and the environment's state, if it has one."""
        states = {m: recorder.get_state() for m, recorder in self.recorders.items()}
        is_alone = len(self.policies) == 1  # a set of one has no ids in what is stored
        if self._output is not None:
            self._output.flush()  # what a checkpoint knows of is in whole files
        return {
            "env": get_env_state(self.env),
            "resets_next": self._resets_next.copy(),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "follows": self._follows,
            **(next(iter(states.values())) if is_alone else {"modules": states}),
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Take over `get_state`'s.

        Returns:
            Whether episodes go on where they were; False if new ones were started, because the
            environment cannot give its state or the slots differ.
        """
        states = state.get("modules", dict.fromkeys(self.policies, state))
        if set(states) != set(self.recorders):
            return False
        for m, recorder in self.recorders.items():
            recorder.set_moments(states[m])
        if state["env"] is None or len(state["resets_next"]) != self.num_envs:
            return False
        if not all(recorder.fits(states[m]) for m, recorder in self.recorders.items()):
            return False
        set_env_state(self.env, state["env"])
        for m, recorder in self.recorders.items():
            recorder.set_state(states[m])
        self._resets_next = like(self._resets_next, state["resets_next"], "resets_next")
        self._returns = like(self._returns, state["returns"], "returns")
        self._lengths = like(self._lengths, state["lengths"], "lengths")
        self._follows = bool(state.get("follows", False))  # a seam is always right
        if self._hooks is not None:
            self._hooks.forget()  # what callbacks know of the running episodes was not saved
        return True

    def choose_tasks(self, task_fn: Callable[..., Any], result: dict[str, Any]) -> list[Any]:
        """Ask for each slot's task and set it; return the tasks."""
        tasks: list[Any] = feature("tasks").choose(self.env, task_fn, result, self._context)
        return tasks

    def set_tasks(self, tasks: list[Any]) -> None:
        """Set each slot's task."""
        feature("tasks").set(self.env, tasks)

    def end_output(self) -> None:
        """Write what has been sampled and is not in whole files yet; record no more.

        Raises:
            DataError: if it cannot be written.
        """
        output, self._output = self._output, None
        for recorder in self.recorders.values():
            recorder.listener = None
        if output is not None:
            output.close()


def make_env_runner(
    config: AlgorithmConfig,
    policies: Mapping[str, Policy],
    env: AnyVectorEnv,
    seed: np.random.SeedSequence,
    worker_index: int = 0,
    module_slots: ModuleSlots | None = None,
    output: Any = None,
) -> SamplingWorker:
    """Return the env runner of an environment: the class of `env_runner_cls` if there is one.

    It records what it samples if `output` says where to.
    """
    fitting = _fitting(isinstance(env, AgentSlots), isinstance(env, SlotsApart))
    runner_class = _runner_class(config, fitting)
    for used in features_of(config):
        runner_class = used.replace_env_runner(runner_class)
    runner: SamplingWorker = runner_class(config, policies, env, seed, worker_index, module_slots)
    if output is not None:
        runner.write_output(output)
    return runner


def check_runner_class(config: AlgorithmConfig) -> None:
    """See that `env_runner_cls` can sample, before there is an environment.

    Raises:
        ConfigError: if it is no class that fits.
    """
    if config.env_runner_cls is not None:
        _runner_class(config, _fitting(config.is_multi_agent(), config.remote_worker_envs))


def _fitting(has_several_agents: bool, is_apart: bool) -> type[Any]:
    """Return the class that samples from an environment, and what one of a user derives from."""
    kind: type[Any] = EnvRunner
    if has_several_agents:
        kind = feature("agents").env_runner_class()
    elif is_apart:
        kind = feature("actors").slots_runner_class()
    return kind


def _runner_class(config: AlgorithmConfig, fitting: type[Any]) -> type[Any]:
    given = config.env_runner_cls
    if given is None:
        return fitting
    found = resolve_callable(given) if isinstance(given, str) else given
    if isinstance(found, type) and issubclass(found, fitting):
        refuse_uncalled(found, "ENV_RUNNER")
        return found
    name = given if isinstance(given, str) else callable_name(given)
    raise ConfigError(
        f"env_runner_cls = {name!r} is not allowed; allowed: a subclass of "
        f"{fitting.__module__}:{fitting.__name__}"
        + (", as remote_worker_envs is set" if fitting.__name__ == "RemoteEnvRunner" else "")
    )
