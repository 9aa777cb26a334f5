"""Calls to workers, their environments and policies by the reference's names; its episodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import CrashingEnv

from trainables import Callbacks, PPOConfig
from trainables.core.config.reference.worker_calls import CallsWorkers
from trainables.core.errors import ConfigError
from trainables.runtime.callbacks.callbacks import CallbackError
from trainables.runtime.envs.slots import EnvContext


class Told(gym.Env):
    """Takes what it is told, and keeps what it was made with."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config: EnvContext):
        self.context, self.level = config, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {"t": 0}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.zeros(2, np.float32), float(self.t), self.t == 3, False, {"t": self.t}

    def set_level(self, level: int) -> int:
        before, self.level = self.level, level
        return before


def small(**settings: Any) -> PPOConfig:
    given = {"env": Told, "train_batch_size_per_learner": 64, "minibatch_size": 64, "seed": 0}
    return PPOConfig.from_dict({**given, "num_envs_per_env_runner": 2, **settings})


@pytest.fixture(scope="module")
def algo() -> Iterator[Any]:
    with small().build() as made:
        yield made


def test_environments_of_all_workers(algo: Any) -> None:
    assert algo.workers is algo.env_runner_group is algo.env_runners
    assert algo.workers.foreach_env(lambda env: env.set_level(3)) == [[0, 0]]
    assert algo.workers.foreach_env(lambda env: env.level) == [[3, 3]]
    contexts = algo.workers.foreach_env_with_context(
        lambda env, context: (env.context is context, context.vector_index)
    )
    assert contexts == [[(True, 0), (True, 1)]]
    worker = algo.workers.local_worker()
    assert worker.foreach_env(lambda env: type(env)) == [Told, Told]


def test_policies_of_all_workers(algo: Any) -> None:
    worker = algo.workers.local_worker()
    assert worker.policy_map["default_policy"] is worker.get_policy() is algo.get_policy()
    ids = algo.workers.foreach_policy(lambda policy, policy_id: (policy_id, policy.has_state))
    assert ids == [("default_policy", False)]


def test_keywords_of_the_reference(algo: Any) -> None:
    workers = algo.workers
    assert workers.foreach_worker(func=lambda worker: worker.worker_index) == [0]
    assert workers.foreach_worker(lambda worker: 1, local_worker=False) == []
    assert workers.foreach_worker(lambda worker: 1, local_worker=True, healthy_only=True) == [1]
    by_id = workers.foreach_worker_with_id(func=lambda index, worker: (index, worker.env))
    by_index = workers.foreach_worker_with_index(lambda index, worker: (index, worker.env))
    assert by_id == by_index == [(0, workers.local_worker().env)]
    for options, why in (
        ({"healthy_only": False}, "only healthy workers can be asked; restore_workers"),
        ({"return_obj_refs": True}, "results are returned themselves"),
        ({"nonsense": 1}, r"foreach_worker\(nonsense=1\): there is no such keyword"),
    ):
        with pytest.raises(TypeError, match=why):
            workers.foreach_worker(lambda worker: 1, **options)


def test_what_groups_and_evaluating_workers_do_not_have(algo: Any) -> None:
    for group in (algo.workers, algo.evaluation_workers):
        with pytest.raises(AttributeError, match=r"foreach_worker\(function, local_worker=False"):
            group.remote_workers()
        with pytest.raises(AttributeError, match=r"object has no attribute 'nonsense'$"):
            _ = group.nonsense
    with pytest.raises(RuntimeError, match=r"else evaluation_workers.play\(\) plays a whole eval"):
        algo.evaluation_workers.foreach_worker(lambda worker: worker.sample())


class OfActors(CallsWorkers):
    """A group whose two workers are in actors."""

    local_env_runner = None

    def foreach_env_runner(
        self,
        function: Any,
        local_env_runner: bool = True,
        env_runner_ids: Any = None,
        timeout_s: float | None = None,
    ) -> list[Any]:
        return [function(f"actor {index}") for index in env_runner_ids or (1, 2)]

    def local_worker(self) -> Any:
        return "local"


def test_the_local_worker_is_asked_where_it_is_wanted() -> None:
    group = OfActors()
    assert group.foreach_worker(str) == ["actor 1", "actor 2"]
    assert group.foreach_worker(str, local_worker=True) == ["local", "actor 1", "actor 2"]
    assert group.foreach_worker(str, local_worker=True, remote_worker_ids=[2]) == [
        "local",
        "actor 2",
    ]
    assert group.foreach_worker(str, local_worker=False) == ["actor 1", "actor 2"]


def test_workers_of_evaluations_have_environments_while_they_play() -> None:
    levels: list[list[int]] = []

    class Looks(Callbacks):
        def on_episode_end(self, *, worker: Any, is_evaluation: bool, **kwargs: Any) -> None:
            if is_evaluation:
                levels.append(worker.foreach_env(lambda env: env.set_level(1)))

    with small(callbacks_class=Looks, evaluation_duration=2).build() as algo:
        workers = algo.evaluation_workers
        assert workers.foreach_policy(lambda policy, policy_id: policy_id) == ["default_policy"]
        assert workers.foreach_worker(func=lambda worker: worker.worker_index) == [0]
        with pytest.raises(RuntimeError, match="an evaluation makes its environments when it beg"):
            workers.foreach_env(lambda env: env.level)
        algo.evaluate()
        assert levels == [[0, 0], [1, 1]]


def test_slots_in_processes_of_their_own_are_reached() -> None:
    with small(env=CrashingEnv, remote_worker_envs=True).build() as algo:
        indices = algo.workers.foreach_env_with_context(
            lambda env, context: (type(env).__name__, context.vector_index)
        )
        assert indices == [[("CrashingEnv", 0), ("CrashingEnv", 1)]]
        assert algo.workers.foreach_env(lambda env: type(env).__name__) == [["CrashingEnv"] * 2]


def test_contexts_know_the_older_name() -> None:
    context = EnvContext({}, num_workers=3)
    assert context.num_rollout_workers == context.num_env_runners == context.num_workers == 3


# ------------------------------------------------------------------ episodes


class Angles(Callbacks):
    """The reference's example of custom metrics."""

    def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
        episode.user_data["rewards"] = []
        episode.hist_data["rewards"] = []

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        episode.user_data["rewards"].append(episode.last_reward_for())

    def on_episode_end(self, *, episode: Any, worker: Any, **kwargs: Any) -> None:
        assert episode.worker is worker and episode.env_id == episode.env_index
        assert episode.get_agents() == ["agent0"]
        assert episode.policy_for("agent0") == "default_policy"
        assert episode.policy_map["default_policy"] is worker.get_policy()
        assert episode.agent_rewards == {("agent0", "default_policy"): episode.total_reward}
        assert episode.last_info_for() == {"t": 3} and episode.last_reward_for("agent0") == 3
        assert (episode.last_observation_for() == 0).all() and episode.last_action_for() in (0, 1)
        episode.custom_metrics["best"] = max(episode.user_data["rewards"])
        episode.hist_data["rewards"] = episode.user_data["rewards"]


def test_the_documents_custom_metrics() -> None:
    settings = {"callbacks_class": Angles, "evaluation_interval": 1}
    with small(**settings).build() as algo:
        result = algo.train()
        for where in ("", "evaluation/"):
            assert result[f"{where}custom_metrics/best_mean"] == 3
            found = [result[f"{where}hist_stats/rewards_{n}"] for n in ("min", "mean", "max")]
            assert found == [1, 2, 3]


def test_what_is_no_list_of_numbers_is_named() -> None:
    class Wrong(Callbacks):
        values: Any = None

        def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
            episode.hist_data["angles"] = self.values

    with small(callbacks_class=Wrong).build() as algo:
        for Wrong.values in (3.0, [np.nan], ["a"]):
            with pytest.raises(ConfigError, match="'angles'"):
                algo.train()


def test_other_members_say_what_to_use() -> None:
    class Asks(Callbacks):
        ask: Any = None

        def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
            Asks.ask(episode)

    asked: list[tuple[Any, str]] = [
        (lambda e: e.prev_action_for("agent0"), r"prev_action_for is not kept: note it in on_epi"),
        (lambda e: e.batch_builder, "batch_builder does not exist: .* a learner_connector"),
        (lambda e: e.nonsense, r"AttributeError: episode\.nonsense does not exist"),
        (lambda e: e.last_info_for("other"), r"KeyError: .no agent 'other'; there are \['agent0'"),
    ]
    for Asks.ask, message in asked:
        with (
            small(callbacks_class=Asks).build() as algo,
            pytest.raises(CallbackError, match=message),
        ):
            algo.train()
