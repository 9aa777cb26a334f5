"""A trainable that costs nothing: its return depends on its settings and its iteration only."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from trainables.core.config.settings import Settings, setting
from trainables.core.errors import ConfigError

NAME = "sweep_dummy:Dummy"
STEPS = 100  # environment steps that one iteration counts


@dataclass
class DummyConfig(Settings):
    """Settings with the names of real ones."""

    lr: float = setting(1e-3, "training", "best at 0.01", gt=0)
    gamma: float = setting(0.99, "training", "discount", ge=0, le=1)
    num_epochs: int = setting(1, "training", "must be even above 2", gt=0)
    minibatch_size: int = setting(64, "training", "rows", gt=0)
    model: dict[str, Any] = setting({}, "training", "network")
    num_env_runners: int = setting(0, "env_runners", "a bundle of one CPU each", ge=0)
    seconds: float = setting(0.0, "debugging", "time that an iteration takes", ge=0)
    set_up_seconds: float = setting(0.0, "debugging", "time that set-up takes", ge=0)
    fail_at: int = setting(0, "debugging", "iteration that raises; 0 is none", ge=0)
    fail_file: str = setting("", "debugging", "the third iteration raises while the file is there")
    die_file: str = setting(
        "", "debugging", "an iteration kills the process while the file is there"
    )
    die_at: int = setting(3, "debugging", "which iteration", gt=0)
    full_file: str = setting("", "debugging", "no checkpoint can be saved while the file is there")
    refuse_file: str = setting("", "debugging", "set-up refuses what a file there says")
    refuse_seeds_above: int = setting(-1, "debugging", "only of seeds above it", ge=-1)
    nan: bool = setting(False, "debugging", "the return is not a number")
    seed: int | None = setting(None, "debugging", "seed")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> DummyConfig:
        return cls(**cls.check(values))

    def validate(self) -> None:
        if self.num_epochs > 2 and self.num_epochs % 2:
            raise ConfigError(f"num_epochs = {self.num_epochs} must be even")


class Dummy(tune.Trainable):
    config_class = DummyConfig
    metrics: tuple[str, ...] | None = ("episode_return_mean", "num_env_steps_sampled_lifetime")

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        runners = int(config.get("num_env_runners", 0))
        return tune.PlacementGroupFactory([{"CPU": 1}] * (1 + runners))

    def setup(self, config: dict[str, Any]) -> None:
        self.settings = {**DummyConfig().to_dict(), **config}
        self.count = 0
        time.sleep(self.settings["set_up_seconds"])
        refuse_file = Path(self.settings["refuse_file"] or "no such file")
        seed = self.settings["seed"] or 0
        if refuse_file.is_file() and seed > self.settings["refuse_seeds_above"]:
            raise ConfigError(refuse_file.read_text())

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        self.count += 1
        time.sleep(self.settings["seconds"])
        if self.settings["fail_at"] and self.count >= self.settings["fail_at"]:
            raise RuntimeError("the dummy fails as asked")
        if (
            self.settings["fail_file"]
            and self.count == 3
            and Path(self.settings["fail_file"]).exists()
        ):
            raise RuntimeError("the dummy fails as asked")
        die_file = Path(self.settings["die_file"] or "no such file")
        if self.count == self.settings["die_at"] and die_file.is_file():
            die_file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        value = self.count * (1 - abs(self.settings["lr"] - 0.01))
        return {
            "episode_return_mean": float("nan") if self.settings["nan"] else value,
            "num_env_steps_sampled_lifetime": self.count * STEPS,
            "cwd": os.getcwd(),
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        if Path(self.settings["full_file"] or "no such file").is_file():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), checkpoint_dir)
        policy = Path(checkpoint_dir, "policies", "default_policy")
        policy.mkdir(parents=True)
        (policy / "policy.json").write_text(json.dumps({"count": self.count}))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        policy = Path(checkpoint_dir, "policies", "default_policy", "policy.json")
        self.count = json.loads(policy.read_text())["count"]


@dataclass
class MeetingConfig(DummyConfig):
    """Where two trials meet."""

    meet: str = setting("", "debugging", "a folder")


class Meeting(Dummy):
    """Begins when a second trial does, however late its process starts."""

    config_class = MeetingConfig

    def step(self) -> dict[str, Any]:
        place = Path(self.settings["meet"])
        if self.count == 0:
            place.mkdir(exist_ok=True)
            (place / self.trial_id).touch()
        deadline = time.monotonic() + 240
        while len(list(place.iterdir())) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return super().step()


class Timed(Dummy):
    """Says when each result was made, by the machine's clock."""

    def step(self) -> dict[str, Any]:
        return {**super().step(), "at": time.time()}


class SavesSlowly(Dummy):
    """Takes a while to write a checkpoint: the sweep is saved meanwhile."""

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        time.sleep(0.5)
        super().save_checkpoint(checkpoint_dir)


class Capped(Dummy):
    """Reaches 4 sooner or later, and stays there, as CartPole does at 500."""

    def step(self) -> dict[str, Any]:
        result = super().step()
        return {**result, "episode_return_mean": min(4.0, result["episode_return_mean"])}


class Undeclared(Dummy):
    """Says nothing of what it reports: its first result shows it."""

    metrics = None
