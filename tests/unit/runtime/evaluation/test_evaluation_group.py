"""The evaluation group over actors that are late, hang, die or raise; they live in this process."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from evaluation_cases import (
    SEED,
    SMALL,
    FakeActors,
    cartpole_policy,
    config_of,
    evaluated,
    evaluation_group,
    evaluation_of,
    group_of,
    without_ray,
)
from fakes import EndlessEnv
from refusals import Golden, refusals
from tiers import covering

from experiments.monitor.episode_watch import is_unknown
from trainables import PPOConfig
from trainables.core.config.config import DEFAULT_MODULE_ID
from trainables.core.policy.policy import Policy
from trainables.runtime.actors.group import ActorDied, ActorHung
from trainables.runtime.evaluation.plan import EvaluationPlan
from trainables.runtime.evaluation.runner import EvaluationRunner, Task


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ray(monkeypatch)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return cartpole_policy()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"evaluation_duration": 3, "evaluation_config": {"num_envs_per_env_runner": 1}},
        {"evaluation_duration": 150, "evaluation_duration_unit": "timesteps"},
        {"evaluation_duration": 5, "evaluation_config": {"explore": True}},
    ],
    ids=str,
)
def test_the_same_episodes_for_any_number_of_actors(
    settings: dict[str, Any], policy: Policy
) -> None:
    results = [
        evaluated(group_of(policy, evaluation_num_env_runners=number, **settings))
        for number in (0, 1, 2, 3)
    ]
    assert (
        len(results[0].returns) == settings.get("evaluation_duration", 10)
        or results[0].num_env_steps == 150
    )
    for result in results[1:]:
        np.testing.assert_array_equal(result.returns, results[0].returns)
        np.testing.assert_array_equal(result.lengths, results[0].lengths)
        np.testing.assert_array_equal(result.cut_lengths, results[0].cut_lengths)
    assert len(set(results[0].returns)) > 1  # seeds of their own


@pytest.mark.parametrize("unit", ["episodes", "timesteps"])
def test_who_decides_how_long_gets_the_same_from_any_number_of_actors(
    unit: str, policy: Policy
) -> None:
    results = []
    for number in (0, 1, 3):
        settings = {"evaluation_num_env_runners": number, "evaluation_duration_unit": unit}
        group = group_of(policy, **settings)
        group.sync_weights(1, 3, SEED)
        asked: list[int] = []

        def duration(num_done: int, asked: list[int] = asked) -> int:
            asked.append(num_done)
            return min(9, 21 - num_done)

        results.append((group.play_until(duration), asked))
    for result, asked in results:
        assert result is not None and asked[0] == 0 and asked[-1] >= 21
        assert asked == results[0][1]
        np.testing.assert_array_equal(result.returns, results[0][0].returns)


def test_a_late_actor_ends_its_part_and_lives_on(
    policy: Policy, caplog: pytest.LogCaptureFixture
) -> None:
    group = group_of(policy)
    whole = evaluated(group)
    FakeActors.moods[2] = "late"
    with caplog.at_level(logging.WARNING, "trainables"):
        part = evaluated(group)
    assert "1 of 2 actors had not played" in caplog.text
    assert "raise evaluation_sample_timeout_s" in caplog.text
    np.testing.assert_array_equal(part.returns, whole.returns[:5])
    assert group.metrics() == {"num_healthy_workers": 2, "num_timeouts": 1}
    FakeActors.moods.clear()
    np.testing.assert_array_equal(evaluated(group).returns, whole.returns)


def test_no_answer_is_no_result(policy: Policy) -> None:
    group = group_of(policy)
    FakeActors.moods |= {1: "late", 2: "late"}
    assert evaluated(group) is None
    assert group.metrics()["num_timeouts"] == 2


@pytest.mark.parametrize(
    ("mood", "error"), [("hung", ActorHung), ("dies", ActorDied), ("raises", ValueError)]
)
def test_a_failure_ends_training_unless_it_is_tolerated(
    mood: str, error: type[Exception], policy: Policy
) -> None:
    group = group_of(policy)
    FakeActors.moods[2] = mood
    with pytest.raises(error) as caught:
        evaluated(group)
    assert "restart_failed_env_runners" in str(caught.value.__notes__)


@pytest.mark.parametrize("mood", ["hung", "dies", "raises"])
def test_a_failed_actor_is_made_again(mood: str, policy: Policy) -> None:
    group = group_of(policy, restart_failed_env_runners=True)
    whole = evaluated(group)
    FakeActors.moods[2] = mood
    result = evaluated(group)
    # The other one plays in its place, except where there is no time left.
    np.testing.assert_array_equal(result.returns, whole.returns[: 5 if mood == "hung" else 10])
    assert group.metrics()["num_healthy_workers"] == 1
    recreated: list[int] = []
    group.on_recreated = recreated.extend
    np.testing.assert_array_equal(evaluated(group).returns, whole.returns)
    assert group.metrics()["num_healthy_workers"] == 2 and recreated == [2]
    assert group.probe() == group.restore() == []


def test_an_actor_without_a_sign_of_life_is_told_of(
    policy: Policy, caplog: pytest.LogCaptureFixture
) -> None:
    group = group_of(policy, restart_failed_env_runners=True)
    FakeActors.moods[2] = "hung"
    with caplog.at_level(logging.WARNING, "trainables"):
        assert group.probe() == [2]
    assert "actor 2 gives no sign of life" in caplog.text
    assert group.metrics()["num_healthy_workers"] == 1
    assert group.restore() == [2] and group.probe() == []


def test_evaluation_goes_on_without_failed_actors_as_long_as_there_is_one(policy: Policy) -> None:
    group = group_of(policy, ignore_env_runner_failures=True)
    FakeActors.moods[1] = "dies"
    assert len(evaluated(group).returns) == 10
    assert group.metrics()["num_healthy_workers"] == 1
    FakeActors.moods[2] = "dies"
    assert evaluated(group) is None
    with pytest.raises(RuntimeError, match="none of 2 evaluation env runners is left"):
        evaluated(group)


def test_what_was_begun_and_not_collected_is_forgotten(policy: Policy) -> None:
    group = group_of(policy)
    group.sync_weights(1, 1, np.random.SeedSequence(99))
    group.begin()  # and training raises
    expected = evaluated(group_of(policy, evaluation_num_env_runners=0))
    np.testing.assert_array_equal(evaluated(group).returns, expected.returns)


def test_a_hang_of_the_trial_before_is_no_fault_of_the_next(policy: Policy) -> None:
    group = group_of(policy)
    FakeActors.moods[1] = "hung"
    group.sync_weights(0, 1, SEED)
    group.begin()
    group = group_of(policy, group)
    FakeActors.moods.clear()
    assert group.foreach_env_runner(lambda runner: runner.worker_index) == [1, 2]
    group.stop()


def test_actors_go_on_with_another_config_where_they_fit(policy: Policy) -> None:
    group = group_of(policy)
    actors = group._group
    evaluated(group)
    group = group_of(policy, group, evaluation_duration=3)
    assert group._group is actors and len(evaluated(group).returns) == 3
    assert group.foreach_env_runner(lambda runner: runner.weights_version) == [3, 3]
    group = group_of(policy, group, evaluation_num_env_runners=3)
    assert not actors.healthy and group.num_env_runners == 3
    actors = group._group
    group = group_of(policy, group, evaluation_num_env_runners=3, env_runner_restore_timeout_s=9)
    assert not actors.healthy  # they may take another time to start
    actors = group._group
    group = group_of(policy, group, evaluation_num_env_runners=0)
    assert not actors.healthy and group.num_env_runners == 0
    assert group_of(policy, group).num_env_runners == 2


def test_without_actors_there_is_nothing_to_look_after(policy: Policy) -> None:
    group = group_of(policy, evaluation_num_env_runners=0)
    assert (group.metrics(), group.probe(), group.restore()) == ({}, [], [])
    group.sync_weights(1, 3, SEED)
    group.begin()
    assert group.is_running
    assert len(group.collect().returns) == 10 and not group.is_running
    assert group.local_worker() is group.local_env_runner
    assert group.foreach_env_runner(lambda r: r.worker_index) == [0]
    assert group.foreach_env_runner(lambda r: r.worker_index, local_env_runner=False) == []


@contextmanager
def before_act(number: int, policy: Policy, told: Callable[[], None]) -> Iterator[None]:
    """Within it something is called right before the policy acts for the given time."""
    num_acts, act = 0, policy.act

    def telling(*arguments: Any) -> Any:
        nonlocal num_acts
        num_acts += 1
        if num_acts == number:
            told()
        return act(*arguments)

    policy.act = telling  # type: ignore[method-assign]
    try:
        yield
    finally:
        del policy.act


def test_auto_ends_with_whole_episodes(policy: Policy) -> None:
    config = config_of(evaluation_duration="auto", evaluation_parallel_to_training=True)
    group = evaluation_group(config, policy)
    result = evaluated(group)
    assert group._num_players == 2  # their means count the same
    assert len(result.returns) == 2  # one of each actor: `finish` has overtaken the task
    runner = EvaluationRunner(config, {DEFAULT_MODULE_ID: policy})

    def task(number: int) -> Task:
        return Task(number, SEED, 1, endless=(0, 1))

    with before_act(300, policy, lambda: runner.finish(4, at_once=False)):
        runner.finish(3, at_once=False)  # another one
        played = runner.play(task(4))
    assert len(played) > 2 and sum(int(r.lengths.sum()) for r in played.values()) < 300
    assert list(played) == list(range(len(played)))
    runner.finish(5, at_once=True)
    assert runner.play(task(5)) == {}


def test_auto_in_timesteps_ends_where_it_is_told(policy: Policy) -> None:
    runner = EvaluationRunner(config_of(evaluation_num_env_runners=0), {DEFAULT_MODULE_ID: policy})
    with before_act(300, policy, lambda: runner.finish(4, at_once=False)):
        played = runner.play(Task(4, SEED, 1, endless=(0, 1), cuts_off=True))
    results = [played[number] for number in range(len(played))]
    assert len(results) > 1 and all(len(result.lengths) for result in results[:-1])
    assert len(results[-1].cut_lengths) > 0  # as it was told to end within its episodes
    plan = EvaluationPlan("auto", "timesteps", 1)
    whole = plan.result(played)
    assert whole is not None and len(whole.returns) == sum(len(r.returns) for r in results)
    runner.finish(5, at_once=True)
    assert runner.play(Task(5, SEED, 1, endless=(0, 1), cuts_off=True)) == {}


def test_timesteps_that_take_too_long_are_those_that_were_made(policy: Policy) -> None:
    config = config_of(evaluation_duration=500, evaluation_duration_unit="timesteps")
    runner, plan = EvaluationRunner(config, {DEFAULT_MODULE_ID: policy}), EvaluationPlan.of(config)
    with before_act(100, policy, lambda: runner.finish(1, at_once=True)):
        played = runner.play(Task(1, SEED, 1, parts=tuple(plan.missing({}, 10))))
    result = plan.result(played)
    assert result is not None and len(result.returns) > 0
    # Every act was a step: a part has one slot, and ends with its episode.
    assert result.num_env_steps == 100 and len(result.cut_lengths) == 1


def test_by_hand_auto_plays_episodes_of_each_actor(policy: Policy) -> None:
    config = config_of(
        evaluation_duration="auto",
        evaluation_duration_unit="timesteps",
        evaluation_parallel_to_training=True,
    )
    result = evaluated(evaluation_group(config, policy))
    assert len(result.returns) == 2 and not len(result.cut_lengths)


def test_functions_reach_every_runner_with_the_weights(policy: Policy) -> None:
    group = group_of(policy)
    group.sync_weights(1, 11, SEED)
    assert group.foreach_env_runner(lambda r: (r.worker_index, r.weights_version)) == [
        (1, 11),
        (2, 11),
    ]
    local = group_of(policy, evaluation_num_env_runners=0)
    local.sync_weights(1, 11, SEED)
    assert local.foreach_worker(lambda runner: runner.policy is policy) == [True]


def test_what_a_function_raises_is_raised_and_no_fault_of_the_actor(policy: Policy) -> None:
    def raises(runner: EvaluationRunner) -> None:
        raise ValueError(f"not in {runner.worker_index}")

    for number in (0, 2):
        group = group_of(policy, evaluation_num_env_runners=number)
        group.sync_weights(1, 3, SEED)
        with pytest.raises(ValueError, match=f"not in {min(1, number)}"):
            group.foreach_env_runner(raises)
        assert group.num_healthy_env_runners == group.num_env_runners == number
        pairs = group.foreach_env_runner_with_id(lambda index, r: (index, r.weights_version))
        assert pairs == ([(1, 3), (2, 3)] if number else [(0, 3)])
    assert group.foreach_env_runner(lambda r: r.worker_index, env_runner_ids=[2, 7]) == [2]


def test_idle_actors_are_named(policy: Policy, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "trainables"):
        group_of(policy)
        assert not caplog.text
        group_of(policy, evaluation_num_env_runners=4)
    assert "2 of 4 actors are idle" in caplog.text
    config = config_of(
        evaluation_num_env_runners=4, evaluation_config={"num_envs_per_env_runner": 3}
    )
    assert EvaluationPlan.of(config).num_parts == 4  # as the warning says


# ------------------------------------------------------------------ with an algorithm


def test_beside_training_the_weights_are_those_that_the_iteration_begins_with() -> None:
    settings = {**SMALL, "evaluation_interval": 2}
    with config_of(**settings, evaluation_parallel_to_training=True).build() as algo:
        untrained = algo.evaluate()
        algo.evaluation.latest = {}
        results = [evaluation_of(algo.train()) for _ in range(4)]
    with config_of(**settings | {"evaluation_num_env_runners": 0}).build() as plain:
        between = [evaluation_of(plain.train()) for _ in range(4)]
    # The first result always has one; of iteration 2 it is of the weights after iteration 1.
    assert [result["weights_version"] for result in results] == [0, 1, 1, 3]
    assert results[0] == untrained
    assert [result["weights_version"] for result in between] == [1, 2, 2, 4]
    for name in ("episode_return_mean", "num_env_steps"):
        assert results[1][name] == between[0][name]


def test_training_does_not_notice_evaluation_beside_it() -> None:
    def trained(**settings: Any) -> np.ndarray:
        with config_of(**SMALL | settings, observation_filter="MeanStdFilter").build() as algo:
            for _ in range(3):
                algo.train()
            return np.concatenate([w.ravel() for w in algo.get_policy().get_weights().values()])

    beside = trained(evaluation_interval=1, evaluation_parallel_to_training=True)
    np.testing.assert_array_equal(beside, trained())


def test_without_an_answer_the_last_evaluation_stays() -> None:
    with config_of(**SMALL, evaluation_interval=1).build() as algo:
        first = evaluation_of(algo.train())
        FakeActors.moods[1] = "late"
        second = evaluation_of(algo.train())
        assert second == first | {"num_timeouts": 1}
        FakeActors.moods.clear()
        assert evaluation_of(algo.train())["weights_version"] == 3


def test_a_first_evaluation_without_an_answer_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with config_of(**SMALL, evaluation_interval=1).build() as algo:
        FakeActors.moods[1] = "late"
        with caplog.at_level(logging.WARNING, "trainables"):
            first = algo.train()
        assert "raise evaluation_sample_timeout_s, lower evaluation_duration" in caplog.text
        assert "or set evaluation_duration_unit='timesteps', which cuts" in caplog.text
        assert "nothing was played within evaluation_sample_timeout_s = 9.5" in caplog.text
        for name in ("episode_return_mean", "episode_return_max", "episode_len_mean"):
            assert math.isnan(first[f"evaluation/{name}"])
        for name in ("num_episodes", "num_episodes_cut_off", "num_env_steps"):
            assert first[f"evaluation/{name}"] == 0
        assert first["evaluation/num_timeouts"] == 1
        assert is_unknown(first, "evaluation/episode_return_mean")  # of the sweep's schedulers
        assert not is_unknown(first, "episode_return_mean")
        FakeActors.moods.clear()
        second = algo.train()
        assert second["evaluation/episode_return_mean"] > 0
        assert set(evaluation_of(second)) == set(evaluation_of(first))


def goes_on_for_ever(**settings: Any) -> PPOConfig:
    given = {**SMALL, "env": EndlessEnv, "env_config": {"horizon": 10**9}}
    timesteps = {"evaluation_duration": 20, "evaluation_duration_unit": "timesteps"}
    return config_of(**given | timesteps | settings)


@pytest.mark.parametrize(("num_actors", "num_slots"), covering([2, 0, 1], [3, 1], strength=1))
def test_timesteps_of_episodes_that_never_end(num_actors: int, num_slots: int) -> None:
    config = goes_on_for_ever(
        evaluation_num_env_runners=num_actors,
        evaluation_config={"num_envs_per_env_runner": num_slots},
    )
    with config.build() as algo:
        result = algo.evaluate()
    assert math.isnan(result["episode_return_mean"]) and result["num_episodes"] == 0
    assert result["num_episodes_cut_off"] == num_slots
    assert result["num_env_steps"] == (20 if num_slots == 1 else 21)


def test_more_timesteps_than_an_episode_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.runtime.evaluation.runner.longest_evaluated", lambda most: 10)
    with goes_on_for_ever(evaluation_num_env_runners=0).build() as algo:
        assert algo.evaluate()["num_env_steps"] == 20


def test_auto_beside_training_cuts_timesteps_off() -> None:
    config = goes_on_for_ever(
        evaluation_duration="auto", evaluation_parallel_to_training=True, evaluation_interval=1
    )
    with config.build() as algo:
        result = evaluation_of(algo.train())
    # The actor of this test begins when training is over: it plays a step.
    assert result["num_env_steps"] == result["num_episodes_cut_off"] == 1
    assert math.isnan(result["episode_return_mean"]) and result["num_episodes"] == 0


def test_reset_config_and_a_resume_keep_the_seeds(tmp_path: Any) -> None:
    with config_of(**SMALL).build() as algo:
        algo.train()
        algo.save(str(tmp_path / "c"))
        before = algo.evaluate()
        algo.reset(config_of(**SMALL | {"seed": 4}).to_dict())
        assert algo.evaluate()["episode_return_mean"] != before["episode_return_mean"]
        algo.restore(str(tmp_path / "c"))
        assert algo.evaluate() == before
        assert algo.evaluation_workers is algo.eval_env_runner_group


def test_settings_that_do_not_fit_together(golden: Golden) -> None:
    wrong: list[dict[str, Any]] = [
        {"evaluation_duration": "auto"},
        {"evaluation_duration": "long"},
        {"evaluation_num_env_runners": 0, "evaluation_parallel_to_training": True},
        {"evaluation_parallel_to_training": True, "custom_evaluation_function": "a:b"},
        {"evaluation_num_env_runners": 0, "evaluation_sample_timeout_s": 5},
        {"evaluation_num_env_runners": -1},
        {"evaluation_sample_timeout_s": 0},
    ]
    golden("evaluation/settings", refusals(lambda settings: config_of(**settings), wrong))
