"""Env runners that die, hang or raise: what is counted, who goes on, and how others take over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failing_envs import FailingEnv, next_task, rows_of
from ray import tune

from trainables import PPO, Algorithm
from trainables.core.errors import ConfigError
from trainables.runtime.sampling.group import EnvRunnerGroup, Sample

pytestmark = pytest.mark.usefixtures("ray_here")

# A fragment is two episodes of 10 steps in each slot, and a row that only resets after either.
SLOTS, LENGTH = 3, 22
STEPS = SLOTS * 20


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "env": FailingEnv,
        "env_config": {"folder": str(folder)},
        "env_task_fn": next_task,
        "num_env_runners": 2,
        "num_cpus_per_env_runner": 0.5,
        "num_envs_per_env_runner": SLOTS,
        "rollout_fragment_length": LENGTH,
        "train_batch_size_per_learner": 2 * SLOTS * LENGTH,
        "minibatch_size": 40,
        "num_epochs": 1,
        "observation_filter": "MeanStdFilter",
        "model": {"fcnet_hiddens": [8]},
        "seed": 1,
        "env_runner_restore_timeout_s": 300,
        **more,
    }


@pytest.fixture(scope="module")
def processes(ray_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PPO]:
    with PPO(config=settings(tmp_path_factory.mktemp("calm"))) as algo:
        yield algo


@pytest.fixture
def make(processes: PPO, tmp_path: Path) -> Callable[..., PPO]:
    """PPO with other settings, in the same processes; failed ones are made anew."""

    def made(**more: Any) -> PPO:
        processes.reset_config(settings(tmp_path, **more))
        return processes

    return made


def columns(algo: Algorithm) -> list[int]:
    """From now on, the number of columns of each rollout."""
    seen: list[int] = []
    sample = algo.env_runners.sample

    def counted(**options: Any) -> Any:
        rollouts, episodes = sample(**options)
        seen.append(rollouts["default_policy"].valid.shape[1])
        return rollouts, episodes

    algo.env_runners.sample = counted  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize(
    "how",
    [
        "kill",
        "raise",
        pytest.param("hang", marks=pytest.mark.slow),
    ],
)
def test_a_failed_env_runner_is_made_again_like_the_one_before(
    how: str, make: Callable[..., PPO], tmp_path: Path
) -> None:
    recreated: list[list[int]] = []
    algo = make(
        restart_failed_env_runners=True,
        sample_timeout_s=10,
        on_env_runners_recreated=lambda env_runner_indices, **_: recreated.append(
            env_runner_indices
        ),
    )
    group = algo.env_runners
    first = group.foreach_env_runner(rows_of)
    assert algo.train()["num_env_steps_sampled"] == 2 * STEPS
    (tmp_path / f"{how}-2").touch()
    result = algo.train()
    # What the failed one had sampled is not counted, and training goes on with the rest.
    assert result["num_env_steps_sampled"] == STEPS
    assert (result["num_healthy_workers"], result["num_env_runner_restarts"]) == (1, 1)
    assert algo.restore_env_runners() == [2]
    assert recreated == [[2]]
    mine = algo.get_policy()
    assert mine.observations.filter is not None

    def look(index: int, runner: Any) -> tuple[Any, ...]:
        policy = runner.policy
        tasks = [slot.unwrapped.task for slot in runner.env.envs]
        moments = policy.observations.filter.get_state()
        return (
            index,
            policy.get_weights(),
            moments,
            tasks,
            rows_of(runner),
        )

    one, two = group.foreach_worker_with_id(look)
    assert (one[0], two[0]) == (1, 2)
    for name, weight in mine.get_weights().items():
        np.testing.assert_array_equal(two[1][name], weight)
    for name, value in mine.observations.filter.get_state().items():
        np.testing.assert_array_equal(two[2][name], value)
    now = 100 * result["training_iteration"]
    assert one[3] == [now + 1] * SLOTS
    assert two[3] == [now - 100 + 2] * SLOTS  # it was asked last in the iteration before
    assert not np.isclose(two[4][:, 0], first[1][:, 0]).any()  # streams of its own
    assert not np.isclose(two[4][:, 0], first[0][:, 0]).any()

    result = algo.train()
    assert result["num_env_steps_sampled"] == 2 * STEPS
    assert (result["num_healthy_workers"], result["num_env_runner_restarts"]) == (2, 1)
    assert result["num_env_steps_sampled_lifetime"] == 5 * STEPS
    assert result["num_env_steps_trained_lifetime"] == 5 * STEPS
    assert result["num_episodes_lifetime"] == 5 * SLOTS * 2


def test_restarted_ones_join_by_themselves_and_all_columns_can_be_asked_for(
    make: Callable[..., PPO], tmp_path: Path
) -> None:
    algo = make(restart_failed_env_runners=True)
    (tmp_path / "raise-1").touch()
    rollouts, _ = algo.env_runners.sample(all_columns=True)
    rollout = rollouts["default_policy"]
    assert rollout.valid.shape == (LENGTH, 2 * SLOTS)
    assert not rollout.valid[:, :SLOTS].any()
    assert rollout.valid[:, SLOTS:].sum() == STEPS
    assert not rollout.follows[:SLOTS].any()
    widths = columns(algo)
    deadline = time.monotonic() + 240
    while not widths or widths[-1] == SLOTS:  # nobody waits for it
        assert time.monotonic() < deadline
        algo.train()
    assert widths[-1] == 2 * SLOTS
    assert algo.env_runners.num_restarts == 1


def test_without_tolerance_an_error_ends_training_with_its_own_message(
    make: Callable[..., PPO], tmp_path: Path
) -> None:
    algo = make()
    (tmp_path / "raise-1").touch()
    with pytest.raises(Exception, match="out of luck") as caught:
        algo.train()
    text = str(caught.value)
    assert text.count("env runner 1 is out of luck") == 1
    assert "\n" not in text
    notes = "\n".join(caught.value.__notes__)
    assert "in env runner 1, at" in notes
    assert "failing_envs.py" in notes
    assert "restart_failed_env_runners" in notes


def test_ignored_failures_leave_the_others_until_none_is_left(
    make: Callable[..., PPO], tmp_path: Path
) -> None:
    algo = make(ignore_env_runner_failures=True)
    (tmp_path / "raise-2").touch()
    results = [algo.train() for _ in range(2)]
    assert [r["num_healthy_workers"] for r in results] == [1, 1]
    assert [r["num_env_steps_sampled"] for r in results] == [STEPS, STEPS]
    assert results[-1]["num_env_runner_restarts"] == 0
    # A checkpoint says what there is of it; who loads it has all env runners.
    state = algo.get_state()
    assert [part is None for part in state["env_runners"]["runners"]] == [False, True]
    (tmp_path / "kill-1").touch()
    with pytest.raises(RuntimeError, match="none of 2 env runners is left"):
        algo.train()

    other = make(ignore_env_runner_failures=True)
    before = other.env_runners.foreach_env_runner(rows_of)
    other.set_state(state)
    after = other.env_runners.foreach_env_runner(rows_of)
    assert not np.isclose(before[1][:, 0], after[1][:, 0]).any()  # no episode again
    result = other.train()
    assert result["num_env_steps_sampled"] == 2 * STEPS
    assert result["num_env_steps_sampled_lifetime"] == 4 * STEPS


def test_one_that_always_fails_ends_training_after_the_tolerance(
    make: Callable[..., PPO], tmp_path: Path
) -> None:
    algo = make(restart_failed_env_runners=True, num_consecutive_env_runner_failures_tolerance=1)
    (tmp_path / "raise-1").write_text("always")
    (tmp_path / "raise-2").write_text("always")
    with pytest.raises(RuntimeError, match=r"failed 2 times .*out of luck.*tolerance = 1"):
        for _ in range(3):
            algo.train()


def test_samples_come_without_a_barrier_and_each_is_counted_once(
    make: Callable[..., PPO], tmp_path: Path
) -> None:
    algo = make(restart_failed_env_runners=True, observation_filter="NoFilter")
    group = algo.env_runners
    samples: list[Sample] = []

    def collect(count: int, index: int | None = None) -> list[Sample]:
        """So many more samples (of one env runner)."""
        new: list[Sample] = []
        deadline = time.monotonic() + 240
        while sum(index in (None, sample.index) for sample in new) < count:
            assert time.monotonic() < deadline
            new += group.ready_samples(1.0)
        samples.extend(new)
        return new

    collect(4)
    group.sync_weights()
    versions = [s.weights_version for s in collect(6, 1) if s.index == 1]
    # Those that were asked for before (two at most) have the old weights, the others the new ones.
    assert versions == sorted(versions)
    assert versions.count(0) <= 2
    assert versions[-1] == 1
    actors: Any = group
    assert all(actors._group.num_in_flight(i) <= 2 for i in (1, 2))

    (tmp_path / "kill-2").touch()
    deadline = time.monotonic() + 240
    while group.num_healthy_env_runners == 2:  # the other one samples meanwhile
        assert time.monotonic() < deadline
        collect(1, 1)
    collect(2, 2)
    assert (group.num_healthy_env_runners, group.num_restarts) == (2, 1)
    assert {s.weights_version for s in samples if s.index == 2} == {0, 1}
    for sample in samples:
        rollout = sample.fetch()["default_policy"]
        assert sample.num_env_steps == rollout.num_env_steps
        assert set(rollout.weights_version) == {sample.weights_version}
    # Of each env runner's life the fragments follow each other, without a hole or a repetition.
    for index, lives in ((1, 1), (2, 2)):
        starts = [s.fetch()["default_policy"].follows[0] for s in samples if s.index == index]
        assert starts.count(False) == lives
        assert not starts[0]
    # What is asked in between waits for its turn, and has the weights of now.
    group.sync_weights()
    got = group.foreach_env_runner(lambda r: r.weights_version, env_runner_ids=[2], timeout_s=60)
    assert got == [2]


def test_in_process_a_sample_is_a_fragment(tmp_path: Path) -> None:
    batch = SLOTS * LENGTH
    few = settings(tmp_path, num_env_runners=0, train_batch_size_per_learner=batch)
    with PPO(config=few) as algo:
        (sample,) = algo.env_runners.ready_samples(0.0)
        assert (sample.index, sample.num_env_steps, sample.weights_version) == (0, STEPS, 0)
        algo.env_runners.sync_weights()
        (sample,) = algo.env_runners.ready_samples()
        assert sample.fetch()["default_policy"].weights_version.tolist() == [1] * SLOTS
        result = algo.train()
        assert (result["num_healthy_workers"], result["num_env_runner_restarts"]) == (0, 0)
        assert algo.restore_env_runners() == []
        group: EnvRunnerGroup = algo.env_runners
        assert group.foreach_env_runner(lambda runner: 1, local_env_runner=False) == []


def test_an_error_of_the_settings_is_no_fault(make: Callable[..., PPO]) -> None:
    """Also with tolerance: it would come again."""
    with pytest.raises(ConfigError, match="folder"):
        make(restart_failed_env_runners=True, env_config={})


@pytest.mark.slow
def test_in_a_trial_another_one_comes_into_the_bundle_of_the_first(
    processes: PPO, tmp_path: Path
) -> None:
    """The trial has all CPUs there are, so there is room nowhere else."""
    processes.env_runners.stop()
    (tmp_path / "kill-1").touch()
    result = tune.Tuner(
        PPO,
        param_space=settings(tmp_path, restart_failed_env_runners=True),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            stop=lambda _, result: (
                (result["num_env_runner_restarts"], result["num_healthy_workers"]) == (1, 2)
                or result["time_total_s"] > 200
            ),
            verbose=0,
        ),
    ).fit()[0]
    assert result.error is None
    assert result.metrics is not None
    assert result.metrics["num_env_runner_restarts"] == 1
    assert result.metrics["num_healthy_workers"] == 2
    assert not (tmp_path / "kill-1").exists()
