"""What a process of seeds hands on of their results."""

from __future__ import annotations

from typing import Any

from ray import tune

from experiments.seeds.hosts import SeedHost
from experiments.seeds.multi_seed import seed_report


class Told(tune.Trainable):
    """Reports where it ran beside what it learned."""

    def step(self) -> dict[str, Any]:
        return {"loss": float(self.config["seed"]), "host": self.config["seed"]}


def test_where_seeds_ran_is_not_averaged() -> None:
    here = SeedHost(Told)
    here.build([1, 2], {}, None, None)
    results = here.train([1, 2])
    here.stop()
    assert all("host" not in result and "pid" not in result for result in results.values())
    report = seed_report(results, ["loss"])
    assert report["loss"] == 1.5 and not [name for name in report if name.endswith("host")]
