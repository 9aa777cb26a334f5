"""Settings of faults and of env runners, and which failures are tolerated. Without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from trainables import PPO, PPOConfig
from trainables.core.checkpoint import CheckpointError
from trainables.core.errors import ConfigError
from trainables.runtime.actors.faults import FaultTolerance, FaultTolerantActors
from trainables.runtime.actors.group import ActorDied, ActorGroup, Reply
from trainables.runtime.sampling.env_runner import EnvRunner


class Counting(EnvRunner):
    """Counts its samples."""

    count = 0

    def sample(self, num_steps: int) -> Any:
        self.count += 1
        return super().sample(num_steps)


def died(index: int) -> Reply:
    return Reply(index, "sample", error=ActorDied(f"env runner {index} died"))


class OneActor:
    """An `ActorGroup` with a failure that nobody has heard of."""

    def __init__(self, failure: Reply):
        self._unread, self.log = [failure], list[str]()

    def take_failures(self) -> list[Reply]:
        taken, self._unread = self._unread, []
        return taken

    def kill(self, index: int) -> None:
        self.log.append("kill")

    def restore(self) -> list[int]:
        self.log.append("restore")
        return [1]

    @property
    def healthy(self) -> list[int]:
        return []


def tolerance(**more: Any) -> FaultTolerance:
    options = {"ignore": False, "restart": False, "num_consecutive": 2} | more
    return FaultTolerance("env runner", "sample", **options)


def test_failures_count_until_a_sample_comes_from_who_failed() -> None:
    faults = tolerance(restart=True)
    for _ in range(5):  # never three without a sample between
        faults.failed(died(1))
        faults.failed(died(2))
        faults.answered(Reply(1, "sample"))
        faults.answered(Reply(2, "sample"))
    faults.failed(died(1))
    faults.answered(Reply(2, "sample"))  # says nothing of 1
    faults.answered(Reply(1, "call"))  # nor does this: it samples nothing
    faults.failed(died(1))
    with pytest.raises(RuntimeError, match=r"failed 3 times .*the last one 1: env runner 1 died"):
        faults.failed(died(1))


def test_without_a_setting_the_first_failure_is_raised_as_it_is() -> None:
    reply = died(1)
    with pytest.raises(ActorDied) as caught:
        tolerance().failed(reply)
    assert caught.value is reply.error
    assert "restart_failed_env_runners" in caught.value.__notes__[0]


def test_a_failure_that_was_noticed_elsewhere_counts_before_the_next_one_is_made() -> None:
    """And kills nothing but the actor that failed."""
    for error in (ActorDied("env runner 1 died"), ValueError("out of luck")):
        group = OneActor(Reply(1, "sample", error=error))
        faults = tolerance(restart=True, num_consecutive=0)
        actors = FaultTolerantActors(cast("ActorGroup", group), faults, 1.0, lambda _: None)
        with pytest.raises(RuntimeError, match="failed 1 times"):
            actors.restore(wait=False)
        assert group.log == ["kill"]
        actors.restore(wait=False)
        assert group.log == ["kill", "restore"]


def test_errors_of_the_settings_are_no_faults() -> None:
    """Unless one that has worked before is made again: its environment may come back."""
    error = ConfigError("env 'x' allows no action")
    for setting in ("ignore", "restart"):
        faults = tolerance(**{setting: True})
        with pytest.raises(ConfigError):
            faults.failed(Reply(1, "sample", error=error))
        faults.failed(Reply(1, "build", error=error))


def test_names_and_sections_of_the_reference() -> None:
    config = (
        PPOConfig()
        .rollouts(
            recreate_failed_workers=True,
            num_consecutive_worker_failures_tolerance=3,
            worker_health_probe_timeout_s=5,
            worker_restore_timeout_s=60,
            validate_workers_after_construction=False,
        )
        .env_runners(sample_timeout_s=7.5)
        .debugging(worker_cls=Counting)
    )
    assert config.restart_failed_env_runners
    assert config.num_consecutive_env_runner_failures_tolerance == 3
    assert config.env_runner_health_probe_timeout_s == 5
    assert config.env_runner_restore_timeout_s == 60
    assert not config.validate_env_runners_after_construction
    assert (config.sample_timeout_s, config.env_runner_cls) == (7.5, Counting)
    # PPO waits for everyone, so nothing is ever under way.
    with pytest.raises(ConfigError, match=r"max_requests_in_flight_per_env_runner.*no effect"):
        PPOConfig().training(max_requests_in_flight_per_sampler_worker=3)
    with pytest.raises(ConfigError, match=r"belongs to \.env_runners\(\)"):
        PPOConfig().training(env_runner_cls=Counting)


def test_settings_that_exclude_each_other() -> None:
    config = PPOConfig().environment("CartPole-v1")
    both = config.copy().fault_tolerance(
        ignore_env_runner_failures=True, restart_failed_env_runners=True
    )
    with pytest.raises(ConfigError, match=r"are both set.*choose one"):
        both.validate()
    with pytest.raises(ConfigError, match=r"num_gpus_per_env_runner = 0.5 has no effect"):
        config.copy().env_runners(num_gpus_per_env_runner=0.5).validate()


def test_what_has_no_effect_is_refused() -> None:
    tolerance = {"num_env_runners": 1, "restart_failed_env_runners": True}
    variables = {"extra_python_environs_for_worker": {"A": "b"}}
    effects: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
        ({"ignore_env_runner_failures": True}, {"num_env_runners": 1}, ["num_env_runners"]),
        ({"sample_timeout_s": 5}, {"num_env_runners": 1}, ["num_env_runners"]),
        *(
            ({name: 3}, tolerance, ["restart_failed_env_runners"])
            for name in (
                "num_consecutive_env_runner_failures_tolerance",
                "env_runner_health_probe_timeout_s",
            )
        ),
        ({"num_cpus_per_learner": 2}, {"num_learners": 1}, ["num_learners"]),
        (variables, {"num_learners": 1}, ["num_learners"]),
        (variables, {"evaluation_num_env_runners": 1}, ["evaluation_num_env_runners"]),
    ]
    for given, needs, missed in effects:
        (name,) = given
        PPOConfig.from_dict({"env": "CartPole-v1", **given, **needs}).validate()
        for without in missed:
            others = {n: value for n, value in needs.items() if n != without}
            with pytest.raises(ConfigError, match=f"{name} = .* has no effect with .*{without}"):
                PPOConfig.from_dict({"env": "CartPole-v1", **given, **others}).validate()


def test_an_env_runner_of_your_own(tmp_path: Path) -> None:
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs_per_env_runner=2)
        .training(train_batch_size=64, minibatch_size=32, num_epochs=1)
        .debugging(seed=0)
    )
    with config.copy().env_runners(env_runner_cls=Counting).build() as algo:
        algo.train()
        runner = algo.env_runners.local_env_runner
        assert type(runner) is Counting
        assert runner.count >= 1
        algo.save(str(tmp_path / "c"))
    # A checkpoint names it, and nobody imports what is not trusted.
    name = f"{__name__}:Counting"
    with pytest.raises(CheckpointError, match="Counting"):
        PPO.from_checkpoint(tmp_path / "c")
    with PPO.from_checkpoint(tmp_path / "c", trust=[name]) as algo:
        assert type(algo.env_runners.local_env_runner) is Counting
    with config.copy().env_runners(env_runner_cls=name).build() as algo:
        algo.train()
        algo.save(str(tmp_path / "named"))
    with pytest.raises(CheckpointError, match="Counting"):
        PPO.from_checkpoint(tmp_path / "named")
    with pytest.raises(ConfigError, match=r"env_runner_cls = .*subclass of .*:EnvRunner"):
        config.copy().env_runners(env_runner_cls="pathlib:Path").build()
    with pytest.raises(ConfigError, match=r"env_runner_cls.*RemoteEnvRunner, as remote_worker"):
        config.copy().env_runners(env_runner_cls=Counting, remote_worker_envs=True).build()
