"""A trainable that costs nothing and whose return depends on its seed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep_dummy import STEPS, Dummy, DummyConfig

from trainables.core.config.settings import setting

NAME = "seeded_dummy:Seeded"


@dataclass
class SeededConfig(DummyConfig):
    """The dummy's settings, and what differs between seeds."""

    modulo: int = setting(2**32, "debugging", "seeds count modulo this", gt=0)
    uneven: bool = setting(False, "debugging", "odd seeds spend three times the steps")
    fail_seed: int | None = setting(None, "debugging", "the seed that raises in iteration 2")
    kill_seed: int | None = setting(None, "debugging", "the seed whose process dies, too")
    once: str = setting("", "debugging", "file that, once there, keeps seeds from failing")
    log: str = setting("", "debugging", "file that gets a line for each iteration")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SeededConfig:
        return cls(**cls.check(values))


class Seeded(Dummy):
    """Its return is the dummy's plus the square of its seed, so that the mean is not the IQM."""

    config_class = SeededConfig

    def setup(self, config: dict[str, Any]) -> None:
        super().setup({**SeededConfig().to_dict(), **config})

    def step(self) -> dict[str, Any]:
        result = super().step()
        seed = self.settings["seed"]
        if self.settings["log"]:
            with Path(self.settings["log"]).open("a") as log:
                log.write(f"{self.trial_id} {seed} {self.count} {os.getpid()}\n")
        once = Path(self.settings["once"] or os.devnull)
        if self.count == 2 and (once.name == "null" or not once.exists()):
            if seed == self.settings["fail_seed"]:
                raise ValueError("this seed fails as asked")
            if seed == self.settings["kill_seed"]:
                once.touch()
                os._exit(1)
        gain = (seed % self.settings["modulo"]) ** 2
        pace = 3 if self.settings["uneven"] and seed % 2 else 1
        return {
            "episode_return_mean": result["episode_return_mean"] + gain,
            "episode_reward_mean": result["episode_return_mean"] + gain,
            "num_env_steps_sampled_lifetime": self.count * STEPS * pace,
            "learner/loss": float(seed),
        }
