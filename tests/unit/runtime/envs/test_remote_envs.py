"""Slots in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import EndlessEnv, limited_walk
from process_envs import ClockEnv, next_task
from runners import runner_of
from tiers import rarely

import trainables
from trainables import PPOConfig
from trainables.core.data.batch import Rollout
from trainables.core.errors import ConfigError
from trainables.runtime.envs.all_slots import reset_with_infos
from trainables.runtime.envs.make import EnvOptions, make_vector_env
from trainables.runtime.envs.remote.process import SlotDiedError
from trainables.runtime.envs.remote.vector_env import RemoteVectorEnv
from trainables.runtime.envs.state import get_env_state, set_env_state
from trainables.runtime.envs.sub_environment import RESTARTS, SubEnvironmentError

REMOTE = EnvOptions(remote=True)


def sampled(num_envs: int, lengths: list[int], wait_ms: float = 0, **config: Any) -> list[Rollout]:
    """Rollouts of the lengths, one after another."""
    options = EnvOptions(remote=True, restart=config.pop("restart", False))
    env = make_vector_env(ClockEnv, config, num_envs, options=options)
    settings = PPOConfig().env_runners(remote_worker_envs=True, remote_env_batch_wait_ms=wait_ms)
    runner = runner_of(env, settings)
    try:
        return [runner.sample(length)[0]["default_policy"] for length in lengths]
    finally:
        runner.stop()


@pytest.fixture(scope="module")
def pair() -> Any:
    """The same environment in this process and in two others."""
    made = [
        make_vector_env(limited_walk, None, 2, options=EnvOptions(remote=remote))
        for remote in (False, True)
    ]
    yield made
    for env in made:
        env.close()


def test_together_they_step_as_in_one_process(pair: Any) -> None:
    rows: list[list[Any]] = []
    for env in pair:
        rng = np.random.default_rng(0)
        rows.append([reset_with_infos(env, np.random.SeedSequence(1))[0]])
        for _ in range(40):
            rows[-1] += env.step(rng.uniform(-3, 1, (2, 1)).astype(np.float32))[:4]
    assert any(part.dtype == bool and part.any() for part in rows[0]), "no episode ended: no test"
    for one, other in zip(*rows, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_state_crosses_processes(pair: Any) -> None:
    states, rows = [], []
    for env in pair:
        reset_with_infos(env, np.random.SeedSequence(2))
        for _ in range(17):  # an episode's end: the next step only resets
            env.step(np.zeros((2, 1), np.float32))
        states.append(get_env_state(env))
        env.step(np.zeros((2, 1), np.float32))
        env.step(np.zeros((2, 1), np.float32))
        set_env_state(env, states[-1])
        rows.append([env.step(np.zeros((2, 1), np.float32))[0] for _ in range(25)])
    np.testing.assert_array_equal(*rows)
    endless = make_vector_env(EndlessEnv, None, 1, options=REMOTE)
    endless.reset()
    assert get_env_state(endless) is None
    endless.close()


def test_every_slot_has_its_own_clock_and_no_row_is_lost() -> None:
    """Slot 0 is slow: the others make their rows meanwhile, and all columns are whole."""
    rollouts = sampled(3, [7, 4], sleep=[0.02, 0.0, 0.005])
    for slot, length in enumerate((3, 4, 5)):
        obs = np.concatenate([rollouts[0].obs[:-1, slot], rollouts[1].obs[:, slot]])
        valid = np.concatenate([rollout.valid[:, slot] for rollout in rollouts])
        rewards = np.concatenate([rollout.rewards[:, slot] for rollout in rollouts])
        for row in range(12):
            episode, t = divmod(row, length + 1)
            assert obs[row].tolist() == [slot, episode, t, 0]
            if row < 11:
                assert valid[row] == (t < length)
                assert rewards[row] == (t + 1 if t < length else 0)
    assert rollouts[1].follows.all()


def test_a_long_wait_acts_as_in_one_process() -> None:
    """With all slots waited for, also exploration draws what it draws without processes."""
    rollouts = []
    for remote in (False, True):
        env = make_vector_env(limited_walk, None, 3, options=EnvOptions(remote=remote))
        settings = PPOConfig()
        if remote:
            settings.env_runners(remote_worker_envs=True, remote_env_batch_wait_ms=60_000)
        runner = runner_of(env, settings)
        rollouts.append([runner.sample(15)[0]["default_policy"] for _ in range(2)])
        runner.stop()
    for one, other in zip(*rollouts, strict=True):
        for name in ("obs", "actions", "rewards", "valid", "continues", "logp", "terminated"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.full("test_every_slot_has_its_own_clock_and_no_row_is_lost")
def test_slow_environments_are_stepped_side_by_side() -> None:
    start = time.perf_counter()
    sampled(4, [1])
    started = time.perf_counter() - start
    start = time.perf_counter()
    sampled(4, [40], sleep=[0.02])
    assert time.perf_counter() - start < started + 0.5 * 4 * 40 * 0.02


def test_an_error_there_is_one_error_here() -> None:
    with pytest.raises(SubEnvironmentError) as error:
        sampled(2, [4], breaks={1: "raise"})
    name = "env 'process_envs:ClockEnv', slot 1 of env runner 0"
    assert str(error.value) == f"{name}: step raised OSError: lost"
    assert "in _break" in error.value.__notes__[0]
    with pytest.raises(SlotDiedError, match=rf"{name}: its process has ended \(signal 9\)"):
        sampled(2, [4], breaks={1: "die"})
    with pytest.raises(ConfigError, match=r"made a int, not a gymnasium\.Env"):
        make_vector_env(lambda context: 3, None, 1, options=REMOTE)


@pytest.mark.parametrize("what", rarely(["raise", "die"], ["die"]))
def test_what_fails_is_replaced(what: str) -> None:
    (rollout,) = sampled(2, [6], breaks={1: what}, restart=True)
    # The fresh one fails in the same step, until it has had other steps: it is always its first.
    assert rollout.obs[:, 1, 2].tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert rollout.valid[:, 1].tolist() == [True, False] * 3
    assert rollout.continues[:, 1].tolist() == [False] * 6
    assert rollout.valid[:, 0].tolist() == [True] * 3 + [False] + [True] * 2


def test_a_new_process_gets_the_task_and_is_counted() -> None:
    options = EnvOptions(remote=True, restart=True)
    env = make_vector_env(ClockEnv, {"breaks": {0: "die"}}, 1, options=options)
    assert isinstance(env, RemoteVectorEnv)
    reset_with_infos(env, np.random.SeedSequence(0))
    assert env.choose_tasks(
        lambda result, env, context: result["x"] + context.vector_index, {"x": 0}
    ) == [0]
    env.step(np.zeros(1, np.int64))
    assert env.step(np.zeros(1, np.int64))[4][RESTARTS].tolist() == [1]
    assert env.num_restarts == 1
    env.set_tasks([5])
    env._slots[0]._process.kill()
    for _ in range(4):
        env.step(np.zeros(1, np.int64))
    assert env.num_restarts == 2, "the task that keeps it whole went to the new process"
    env.close()


@pytest.mark.full("test_a_new_process_gets_the_task_and_is_counted")
def test_processes_end_with_the_environment_and_with_their_parent(tmp_path: Path) -> None:
    env = make_vector_env(ClockEnv, None, 2, options=REMOTE)
    assert isinstance(env, RemoteVectorEnv)
    processes = [slot._process for slot in env._slots]
    env.close()
    assert all(process.poll() is not None for process in processes)

    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\n"
        "import numpy as np\n"
        "from process_envs import ClockEnv\n"
        "from trainables.runtime.envs.make import EnvOptions, make_vector_env\n"
        "config = {'sleep': [60.0]}\n"
        "env = make_vector_env(ClockEnv, config, 2, options=EnvOptions(remote=True))\n"
        "env.reset()\n"
        "env.start([0, 1], np.zeros(2, int))\n"
        "print(*[slot._process.pid for slot in env._slots], flush=True)\n"
        "time.sleep(60)\n"
    )
    # First of all this project: what other tests have loaded may have put a copy of it on the path.
    root = str(Path(trainables.__file__).parents[1])
    paths = {"PYTHONPATH": os.pathsep.join([root, *(path for path in sys.path if path)])}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env={**os.environ, **paths}
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(_is_running(pid) for pid in pids)
        parent.kill()
    deadline = time.monotonic() + 10
    while any(_is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "busy in a step, they outlive their parent"
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


def test_training_goes_on_with_its_tasks(tmp_path: Path) -> None:
    config = (
        PPOConfig()
        .environment(ClockEnv, env_task_fn=next_task)
        .env_runners(num_envs_per_env_runner=2, remote_worker_envs=True)
        .training(train_batch_size_per_learner=32, minibatch_size=32, model={"fcnet_hiddens": [8]})
        .debugging(seed=0)
    )
    with config.build() as algo:
        assert algo.train()["num_sub_environment_restarts"] == 0
        assert algo.env_runners.tasks == [[[1, 0], [1, 1]]]
        algo.save(str(tmp_path))
    with config.build() as resumed:
        resumed.restore(str(tmp_path))
        runner: Any = resumed.env_runners.local_env_runner
        assert runner.env._tasks == {0: [1, 0], 1: [1, 1]}


def test_settings_that_do_not_go_together() -> None:
    config = PPOConfig().environment(ClockEnv).env_runners(remote_env_batch_wait_ms=5)
    with pytest.raises(ConfigError, match="remote_env_batch_wait_ms = 5 has no effect without rem"):
        config.build()


@pytest.mark.full("test_together_they_step_as_in_one_process")
def test_another_package_of_our_name_on_the_path_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As MLflow puts one there that holds what a model needs."""
    (tmp_path / "trainables").mkdir()
    (tmp_path / "trainables" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    env = make_vector_env(ClockEnv, None, 1, options=REMOTE)
    env.close()
