"""Trials that come and go in one process, called from many threads as Tune calls them."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from trainables import PPO
from trainables.runtime.members.host import Host

SETTINGS = {
    "env": "CartPole-v1",
    "num_envs_per_env_runner": 4,
    "train_batch_size_per_learner": 128,
    "minibatch_size": 64,
    "num_epochs": 2,
}


def config(seed: int) -> dict[str, Any]:
    return {**SETTINGS, "seed": seed, "lr": 1e-3 * (1 + seed)}


def in_threads(calls: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = {name: pool.submit(call) for name, call in calls.items()}
        return {name: future.result() for name, future in futures.items()}


def weights(algo: PPO) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in algo.get_policy().module.parameters()])


def test_trials_that_come_and_go_are_as_they_are_alone() -> None:
    host = Host()
    lengths = {0: 4, 1: 2, 2: 3}
    for seed in lengths:
        host.make(str(seed), PPO, {"config": config(seed)})

    def whole(seed: int) -> list[float]:
        name = str(seed)
        returns = []
        for _ in range(lengths[seed]):
            returns.append(host.call(name, "train", (), {})["episode_return_mean"])
        return returns

    found = in_threads({str(seed): lambda seed=seed: whole(seed) for seed in lengths})
    for seed, length in lengths.items():
        alone = PPO(config=config(seed))
        assert found[str(seed)] == [alone.train()["episode_return_mean"] for _ in range(length)]
        own = host._trials[str(seed)]
        torch.testing.assert_close(weights(own), weights(alone), atol=1e-4, rtol=0)
        alone.stop()
    counts = host.counts()
    assert counts["together"]["UpdateRequest"] >= 4
    for seed in lengths:
        host.call(str(seed), "stop", (), {})
    assert not host._trials and not host._between


def test_who_fails_fails_alone_and_others_go_on() -> None:
    class Fails(PPO):
        def training_step(self) -> dict[str, float]:
            if self.iteration == 1:
                raise ValueError("no more")
            return super().training_step()

    host = Host()
    host.make("sound", PPO, {"config": config(0)})
    host.make("fails", Fails, {"config": config(1)})

    def twice(name: str) -> Any:
        host.call(name, "train", (), {})
        try:
            return host.call(name, "train", (), {})
        except ValueError as error:
            return error

    found = in_threads({name: lambda name=name: twice(name) for name in ("sound", "fails")})
    assert isinstance(found["fails"], ValueError)
    assert found["sound"]["training_iteration"] == 2
    for name in found:
        host.end(name)


def test_a_trial_is_saved_restored_and_reset_beside_others(tmp_path: Any) -> None:
    host = Host()
    for seed in (0, 1):
        host.make(str(seed), PPO, {"config": config(seed)})
    in_threads({n: lambda n=n: host.call(n, "train", (), {}) for n in ("0", "1")})
    host.call("0", "save", (str(tmp_path),), {})
    expected = host.call("0", "train", (), {})["episode_return_mean"]
    assert host.call("1", "reset", ({**config(0)},), {})
    host.call("1", "restore", (str(tmp_path),), {})
    assert host.call("1", "train", (), {})["episode_return_mean"] == expected
    for name in ("0", "1"):
        host.end(name)


def test_a_trial_that_is_stopped_amid_an_iteration_leaves_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainables.runtime.members.host._LEAST_PATIENCE_S", 10.0)
    host = Host()
    for seed in (0, 1):
        host.make(str(seed), PPO, {"config": config(seed)})
    arrivals, has_sampled, goes_on = host._arrivals, threading.Event(), threading.Event()

    def gated(going: Any, took: float) -> Any:
        if len(going) == 2 and not goes_on.is_set():
            has_sampled.set()
            goes_on.wait()
        return arrivals(going, took)

    monkeypatch.setattr(host, "_arrivals", gated)

    def stopped() -> None:
        has_sampled.wait()
        host.end("1")
        goes_on.set()

    calls = {n: lambda n=n: host.call(n, "train", (), {}) for n in ("0", "1")}
    found = in_threads({**calls, "stop": stopped})
    assert found["1"] == {"host": 0}  # no error, which Ray would print
    alone = PPO(config=config(0))
    assert found["0"]["episode_return_mean"] == alone.train()["episode_return_mean"]
    host.end("0")
    assert not (host._trials or host._between or host._under_way)
    assert not [thread for thread in threading.enumerate() if thread.name == "member"]


def test_a_trial_that_is_stopped_is_let_go() -> None:
    """What others did together with it would hold its environments and its replay, too."""
    host = Host()
    for seed in (0, 1, 2):
        host.make(str(seed), PPO, {"config": config(seed)})
    calls = {n: lambda n=n: host.call(n, "train", (), {}) for n in ("0", "1", "2")}
    in_threads(calls)
    stopped = weakref.ref(host._trials["1"])
    host.call("1", "stop", (), {})
    until = time.monotonic() + 10  # the loop may be about to let go of it
    while stopped() is not None and time.monotonic() < until:
        gc.collect()
    assert stopped() is None
    in_threads({name: calls[name] for name in ("0", "2")})
    assert host.counts()["together"]["UpdateRequest"] >= 2
    for name in ("0", "2"):
        host.end(name)
    assert not (host._owners or host._meeting._programs)


class _Odd(BaseException):
    """No `Exception`."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(3), r"called sys\.exit\(3\)"),
        (KeyboardInterrupt(), "raised KeyboardInterrupt"),
        (_Odd(), "raised _Odd"),
    ],
)
def test_a_trial_that_raises_what_is_no_exception_fails_alone(
    error: BaseException, told: str
) -> None:
    """Ray takes SystemExit for the end of the process, and KeyboardInterrupt for a call's."""

    class Exits(PPO):
        def training_step(self) -> dict[str, float]:
            raise error

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            raise error

    host = Host()
    host.make("sound", PPO, {"config": config(0)})
    host.make("exits", Exits, {"config": config(1)})

    def exits() -> None:
        with pytest.raises(RuntimeError, match=told):
            host.call("exits", "train", (), {})

    found = in_threads({"sound": lambda: host.call("sound", "train", (), {}), "exits": exits})
    assert found["sound"]["training_iteration"] == 1
    with pytest.raises(RuntimeError, match=told):
        host.call("exits", "save", (), {})
    host.make("none", PPO, {"config": config(0)})
    for name in ("sound", "exits", "none"):
        host.end(name)


def test_a_host_tells_whose_environment_hangs(tmp_path: Path) -> None:
    host, file = Host(), tmp_path / "hang"
    settings = {**SETTINGS, "env": "hosted_faults:Hangs", "num_envs_per_env_runner": 1}
    for seed in (0, 1):
        args = {"file": str(file) if seed else "none"}
        host.make(str(seed), PPO, {"config": {**settings, "seed": seed, "env_config": args}})
    assert host.work()["seconds"] == 0
    file.touch()
    found: list[dict[str, Any]] = []

    def watched() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            work = host.work()
            if work["seconds"] > 0.3 and work["name"] == "1":
                found.append(work)
                break
            time.sleep(0.02)
        file.unlink()

    calls = {n: lambda n=n: host.call(n, "train", (), {}) for n in ("0", "1")}
    outcomes = in_threads({**calls, "watched": watched})
    place = [line for line in found[0]["where"] if "hosted_faults.py" in line]
    assert place and "(step)" in place[-1]
    assert {outcomes[n]["training_iteration"] for n in ("0", "1")} == {1}  # and then all go on
    assert host.work()["longest"] >= 0.3
    for name in ("0", "1"):
        host.end(name)


def test_nobody_waits_for_ever_if_the_loop_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    host.make("it", PPO, {"config": config(0)})

    def broken(_: Any) -> None:
        raise RuntimeError("the loop is broken")

    monkeypatch.setattr(host._meeting, "do_next", broken)
    with pytest.raises(RuntimeError, match="broken"):
        host.call("it", "train", (), {})
    host.end("it")
    assert not [thread for thread in threading.enumerate() if thread.name == "member"]
