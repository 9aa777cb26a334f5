"""Callbacks: which hooks are called, when, with what; and errors that name class and hook."""

from __future__ import annotations

import importlib.util
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runners
from callback_cases import Counts, Logs, mark, whole
from fakes import CrashingEnv, EncodingVectorEnv, RecordEnv
from gymnasium.vector import VectorEnv

from trainables import PPO, Callbacks, DefaultCallbacks, MemoryTrackingCallbacks, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError
from trainables.runtime.callbacks.callbacks import CallbackError, CallbackSet
from trainables.runtime.callbacks.custom_metrics import MetricsLogger
from trainables.runtime.callbacks.hooks import episode_hooks
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.evaluation.play import evaluate_policy
from trainables.runtime.sampling.env_runner import EnvRunner


@pytest.fixture(autouse=True)
def seen() -> Iterator[list[tuple[Any, ...]]]:
    Logs.seen.clear()
    yield Logs.seen
    Logs.seen.clear()


def runner_of(env: VectorEnv, callbacks: Any) -> EnvRunner:
    return runners.runner_of(env, PPOConfig().callbacks(callbacks))


def small(**settings: Any) -> PPOConfig:
    config = PPOConfig().environment("CartPole-v1").debugging(seed=0)
    config.update_from_dict({"train_batch_size_per_learner": 256, "num_epochs": 1, **settings})
    return config


class StepLast(EncodingVectorEnv):
    """The step is the last element of an observation."""

    def _obs(self) -> np.ndarray:
        return super()._obs()[:, [0, 1, 3, 2]]


# ---------------------------------------------------------------------- episodes


def test_hooks_follow_each_slots_episodes(seen: list[tuple[Any, ...]]) -> None:
    """Also over the end of a fragment, and not in rows that only reset."""
    runner = runner_of(StepLast(2, (2, 3)), Logs)
    assert seen == []  # nothing begins before it is sampled
    episodes = [runner.sample(n)[1] for n in (2, 1, 4)]
    first = [e for e in seen if e[1] == 0]
    assert first == whole(0, 0, 2) + whole(0, 2, 2) + whole(0, 4, 2)[:3]
    second = [e for e in seen if e[1] == 1]
    assert second == whole(1, 1, 3) + whole(1, 3, 3)
    assert [e.logged.get(("steps", "mean")) for e in episodes] == [[2.0], [3.0], [2.0, 3.0]]
    assert [e.lengths for e in episodes] == [[2], [3], [2, 3]]


def test_an_episode_whose_environment_fails_never_ends(seen: list[tuple[Any, ...]]) -> None:
    env = make_vector_env(CrashingEnv, {"crashes": True}, 2, options=EnvOptions(restart=True))
    _, episodes = runner_of(env, Logs).sample(14)
    lost = whole(0, 2, 4)[:4]
    assert [e for e in seen if e[1] == 0] == (
        whole(0, 0, 4) + lost + whole(0, 4, 4) + whole(0, 6, 4)[:3]
    )
    assert episodes.logged[("ended", "sum")] == [1.0] * 5 and len(episodes.returns) == 5


def test_slots_with_clocks_of_their_own(seen: list[tuple[Any, ...]]) -> None:
    env = make_vector_env(CrashingEnv, {}, 2, options=EnvOptions(remote=True))
    runner = runner_of(env, Logs)
    try:
        runner.sample(6)
    finally:
        runner.stop()
    for slot in (0, 1):
        mine = [e for e in seen if e[1] == slot]
        first, second = mine[0][2], mine[-1][2]
        assert mine == whole(slot, first, 4) + whole(slot, second, 4)[:3]


def test_a_resumed_run_follows_whole_episodes_only() -> None:
    class Lengths(Callbacks):
        def on_episode_end(self, *, episode: Any, metrics_logger: Any) -> None:
            metrics_logger.log_value("length", episode.length)

    runner = runner_of(make_vector_env("CartPole-v1", {}, 4), Lengths)
    runner.sample(6)
    resumed = runner_of(make_vector_env("CartPole-v1", {}, 4), Lengths)
    assert resumed.set_state(runner.get_state())
    _, episodes = resumed.sample(300)
    logged = episodes.logged["length", "mean"]
    assert len(logged) == len(episodes.lengths) - 4
    assert min(logged) >= 8  # CartPole cannot fall faster


def test_what_an_episode_shows_is_its_slots() -> None:
    """Nested observations, and gymnasium's batched infos."""
    shown = []

    class Looks(Callbacks):
        def on_episode_step(self, *, episode: Any, env_index: int, **kwargs: Any) -> None:
            shown.append((env_index, episode.last_observation, episode.last_info))

    env = make_vector_env(lambda _: RecordEnv(), {}, 2)
    runner_of(env, Looks).sample(2)
    slot, obs, info = shown[-1]
    assert slot == 1 and obs["image"].shape == (10, 10, 1) and (obs["image"] == 60).all()
    assert obs["where"][1] == 2 and obs["where"][0].shape == (2,) and info == {}

    shown.clear()
    runner_of(make_vector_env(CrashingEnv, {}, 2), Looks).sample(1)
    assert [info for _, _, info in shown] == [{"t": 1}, {"t": 1}]


def test_evaluations_call_hooks_for_the_episodes_that_count(seen: list[tuple[Any, ...]]) -> None:
    env = make_vector_env(CrashingEnv, {}, 1)
    hooks = CallbackSet(PPOConfig().callbacks(Logs))
    result = evaluate_policy(runners.policy_for(env), CrashingEnv, num_episodes=33, callbacks=hooks)
    assert len(result.returns) == 33
    ended = [e for e in seen if e[0] == "end"]
    assert len(ended) == len([e for e in seen if e[0] == "start"]) == 33
    metrics = result.metrics()
    assert metrics["custom_metrics/steps_mean"] == 4
    assert metrics["custom_metrics/ended_sum"] == 33


def test_an_episode_is_its_slots_modules() -> None:
    told: dict[int, tuple[Any, ...]] = {}

    class Tells(Callbacks):
        def on_episode_end(
            self, *, episode: Any, rl_module: Any, policies: Any, env_index: int
        ) -> None:
            assert policies == episode.policy_map
            [(agent, module_id)] = episode.agent_rewards
            assert module_id == episode.module_id == episode.policy_for(agent)
            module = policies[module_id].module
            told[env_index] = (module_id, rl_module is module, episode.agent_rewards)

    env = EncodingVectorEnv(3, (1, 1, 1))
    policies = {"even": runners.policy_for(env), "odd": runners.policy_for(env)}
    slots_of = {"even": np.array([0, 2]), "odd": np.array([1])}
    hooks = episode_hooks(
        CallbackSet(PPOConfig().callbacks(Tells)),
        MetricsLogger(),
        policies,
        slots_of,
        env,
        None,
        is_evaluation=True,
    )
    assert hooks is not None
    hooks.was_reset(*env.reset())
    hooks.begin()
    hooks.row(*env.step(np.zeros(3, np.int64)), valid=np.ones(3, bool))
    assert told == {
        0: ("even", True, {("agent0", "even"): 1.0}),
        1: ("odd", True, {("agent0", "odd"): 1.0}),
        2: ("even", True, {("agent0", "even"): 1.0}),
    }


class TellsTheRunner(Callbacks):
    """Uses `worker` as the reference's examples do, in training and in evaluations."""

    def on_episode_end(self, *, worker: Any, episode: Any, metrics_logger: Any) -> None:
        policy = worker.get_policy()
        assert policy is worker.policy_map["default_policy"]
        assert set(worker.get_weights()) == {"default_policy"}
        assert worker.env.num_envs > episode.env_index
        name = "evaluated" if episode.is_evaluation else "sampled"
        metrics_logger.log_value(name, worker.worker_index, reduce="max")


def test_hooks_of_an_evaluation_get_what_plays_it() -> None:
    with small(callbacks_class=TellsTheRunner, evaluation_interval=1).build() as algo:
        result = algo.train()
        assert result["custom_metrics/sampled_max"] == 0
        assert result["evaluation/custom_metrics/evaluated_max"] == 0
        runner = algo.evaluation_workers.local_worker()
        assert runner.policy is algo.get_policy() and runner.env is None
        assert runner.get_policy("default_policy") is runner.policy
        assert runner.get_policy("other") is None


def test_without_hooks_of_episodes_nothing_follows_them() -> None:
    class Other(Callbacks):
        def on_train_result(self, **kwargs: Any) -> None: ...

    for callbacks in (None, Callbacks, Other):
        assert runner_of(EncodingVectorEnv(), callbacks)._hooks is None


# ---------------------------------------------------------------------- the algorithm's hooks


def test_hooks_of_the_algorithm_in_order() -> None:
    order: list[str] = []

    class Orders(Callbacks):
        def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
            assert algorithm.env_runners.local_env_runner is not None
            order.append("init")

        def on_sample_end(self, **kwargs: Any) -> None:
            order.append("sample")

        def on_evaluate_start(self, **kwargs: Any) -> None:
            order.append("evaluate")

        def on_episode_start(self, *, is_evaluation: bool) -> None:
            if is_evaluation and order[-1] != "episode":
                order.append("episode")

        def on_evaluate_end(self, *, evaluation_metrics: dict[str, Any], **kwargs: Any) -> None:
            evaluation_metrics["twice"] = 2 * evaluation_metrics["episode_return_mean"]
            order.append("evaluated")

        def on_train_result(self, *, result: dict[str, Any], **kwargs: Any) -> None:
            assert "training_iteration" in result  # as Tune gets it
            order.append("result")

    with small(evaluation_interval=1).callbacks(Orders).build() as algo:
        result = algo.train()
    assert order == ["init", "sample", "evaluate", "episode", "evaluated", "result"]
    assert result["evaluation/twice"] == 2 * result["evaluation/episode_return_mean"]


def test_metrics_reach_results_and_stay(tmp_path: Path) -> None:
    class Once(Callbacks):
        def on_train_result(
            self, *, algorithm: Any, result: dict[str, Any], metrics_logger: Any
        ) -> None:
            if algorithm.iteration == 1:
                result["own/first"] = 7
                metrics_logger.log_value("logged", 5)
                metrics_logger.log_value("events", 3, reduce="sum")

    config = small().callbacks([Counts, Once], on_train_result=mark)
    with config.build() as algo:
        first, second = algo.train(), algo.train()
        algo.save(str(tmp_path))
        third = algo.train()
    assert first["custom_metrics/return_mean"] == first["episode_return_mean"]
    assert third["custom_metrics/return_max"] == third["episode_return_max"]
    assert second["custom_metrics/return_min"] == second["episode_return_min"]
    assert second["custom_metrics/steps_sum"] == second["num_env_steps_sampled"]
    assert [r["own/first"] for r in (first, second, third)] == [7, 7, 7]
    assert [r["marked"] for r in (first, second, third)] == [10, 20, 30]
    assert [r["custom_metrics/logged_mean"] for r in (first, second, third)] == [5, 5, 5]
    assert [r["custom_metrics/events_sum"] for r in (first, second, third)] == [3, 0, 0]
    assert third["by_function"] == 1
    assert set(first) == set(second) == set(third)

    with config.build() as resumed:
        resumed.restore(str(tmp_path))
        again = resumed.train()
    assert set(again) == set(third)
    # The episodes that were running when it was saved are not followed.
    assert again["num_episodes"] == third["num_episodes"]


def test_a_loaded_checkpoint_is_told_and_names_are_to_be_trusted(tmp_path: Path) -> None:
    told: list[int] = []

    class Tells(Callbacks):
        def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
            told.append(algorithm.iteration)

    with small().callbacks(Tells).build() as algo:
        algo.train()
        algo.save(str(tmp_path / "local"))
        algo.restore(str(tmp_path / "local"))
    assert told == [1]
    given = {"callbacks_class": "callback_cases:Counts", "on_train_result": "callback_cases:mark"}
    for values in (given, {"callbacks_class": Counts, "on_train_result": mark}):
        with small(**values).build() as algo:
            algo.train()
            algo.save(str(tmp_path / "named"))
        with pytest.raises(CheckpointError, match="'callback_cases:Counts'"):
            PPO.from_checkpoint(tmp_path / "named")
        with pytest.raises(CheckpointError, match="'callback_cases:mark'"):
            PPO.from_checkpoint(tmp_path / "named", trust=["callback_cases:Counts"])
        trust = ["callback_cases:Counts", "callback_cases:mark"]
        with PPO.from_checkpoint(tmp_path / "named", trust=trust) as algo:
            result = algo.train()
            assert result["marked"] == 20 and result["by_function"] == 1


# ---------------------------------------------------------------------- how they are given


def test_forms_and_names() -> None:
    assert DefaultCallbacks is Callbacks
    config = PPOConfig().update_from_dict({"callbacks": Counts})
    assert config.callbacks_class is Counts and config["callbacks"] is Counts
    assert CallbackSet(config).has("on_sample_end")
    many = CallbackSet(PPOConfig().callbacks([Logs, "callback_cases:Counts"]))
    assert [type(made) for made in many.objects] == [Logs, Counts]
    for wrong in ("no_colon", [3], Counts()):
        with pytest.raises(ConfigError, match="callbacks_class = "):
            small(callbacks_class=wrong).validate()
    with pytest.raises(ConfigError, match=r"no subclass of trainables\.Callbacks"):
        small().callbacks(Path).build()
    with pytest.raises(ConfigError, match="on_train_result = 3"):
        small(on_train_result=3)
    with pytest.raises(ConfigError, match="flat numbers"):
        small(keep_per_episode_custom_metrics=True)


def test_older_names_of_hooks_and_arguments() -> None:
    class Older(DefaultCallbacks):
        def on_episode_end(
            self, *, worker: Any, base_env: Any, policies: Any, episode: Any, **kwargs: Any
        ) -> None:
            episode.custom_metrics["policies"] = len(policies)
            assert worker.env is base_env is kwargs["env"]

        def on_workers_recreated(
            self, *, algorithm: Any, worker_set: Any, worker_ids: Any, is_evaluation: bool
        ) -> None:
            algorithm.append(worker_ids)

    _, episodes = runner_of(EncodingVectorEnv(1, (2,)), Older).sample(3)
    assert episodes.logged[("policies", "mean")] == [1.0]
    recreated: list[Any] = []
    CallbackSet(PPOConfig().callbacks(Older))(
        "on_env_runners_recreated",
        algorithm=recreated,
        env_runner_group=None,
        env_runner_indices=[2],
        is_evaluation=False,
        metrics_logger=None,
    )
    assert recreated == [[2]]


def test_hooks_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"on_episode_ends: .* did you mean 'on_episode_end'\?"):
        type("Misspelt", (Callbacks,), {"on_episode_ends": lambda self: None})
    with pytest.raises(ConfigError, match=r"on_learn_on_batch is no hook.*learner_connector"):
        type("Old", (Callbacks,), {"on_learn_on_batch": lambda self: None})

    class Needs(Callbacks):
        def on_train_result(self, *, trial: Any) -> None: ...  # type: ignore[override]

    with pytest.raises(ConfigError, match=r"Needs.on_train_result needs 'trial'.* result, "):
        small().callbacks(Needs).build()


# ---------------------------------------------------------------------- errors


def raising(hook: str) -> type[Callbacks]:
    def method(self: Any, **kwargs: Any) -> None:
        raise ValueError("this is mine")

    return type("Bad", (Callbacks,), {hook: method})


def test_what_a_callback_raises_names_class_and_hook() -> None:
    for hook in ("on_algorithm_init", "on_episode_step", "on_train_result"):
        message = rf"callback Bad\.{hook} raised ValueError: this is mine"
        with (
            pytest.raises(CallbackError, match=message),
            small().callbacks(raising(hook)).build() as algo,
        ):
            algo.train()


def test_what_is_no_number_names_callback_and_metric() -> None:
    value: Any = None

    class Bad(Callbacks):
        def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
            episode.custom_metrics.update(fine=1, size=value)

    class Logging(Callbacks):
        def on_sample_end(self, *, metrics_logger: Any, **kwargs: Any) -> None:
            metrics_logger.log_value("size", value)

    class Result(Callbacks):
        def on_train_result(self, *, result: dict[str, Any], **kwargs: Any) -> None:
            result["size"] = value

    for made in (Bad, Logging, Result):
        message = rf"{made.__name__}\.on_\w+ .*'size'.* finite number"
        with small().callbacks(made).build() as algo:
            for value in (float("nan"), "many", None, np.ones(2), 1j):  # noqa: B007 - hooks log it
                with pytest.raises(CallbackError, match=message):
                    algo.train()


def test_a_result_loses_nothing() -> None:
    def remove(*, result: dict[str, Any], **kwargs: Any) -> None:
        del result["episode_return_mean"]

    with (
        small().callbacks(on_train_result=remove).build() as algo,
        pytest.raises(CallbackError, match="removed 'episode_return_mean'"),
    ):
        algo.train()


# ---------------------------------------------------------------------- the example


def test_memory_is_tracked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Tracing(MemoryTrackingCallbacks):
        num_allocations = 3

    held: list[bytes] = []

    def hold(**kwargs: Any) -> None:
        held.append(b"x" * 64 * 2**20)

    config = small(log_level="INFO").callbacks(Tracing, on_train_result=hold)
    with config.build() as algo, caplog.at_level("INFO", "trainables"):
        first, second = algo.train(), algo.train()
    tracemalloc.stop()
    assert second["memory/driver_mb"] > first["memory/driver_mb"] + 60
    assert second["custom_metrics/memory/env_runner_mb_max"] > first["memory/driver_mb"] + 30
    told = [line for line in caplog.messages if line.startswith("largest allocations in ")][-1]
    assert f"{Path(__file__).name}:" in told and "size=64.0 MiB" in told

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="MemoryTrackingCallbacks needs psutil"):
        small().callbacks(MemoryTrackingCallbacks).build()
