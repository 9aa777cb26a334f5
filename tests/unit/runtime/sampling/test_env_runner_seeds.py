"""The random streams of env runners that are made again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from trainables.runtime.sampling.module_slots import ModuleSlots
from trainables.runtime.sampling.remote_group import RemoteEnvRunnerGroup


def test_an_env_runner_that_is_made_again_has_streams_of_its_own() -> None:
    """Neither its predecessor's, nor one that its predecessor spawned for its own parts."""
    runners: Any = RemoteEnvRunnerGroup.__new__(RemoteEnvRunnerGroup)
    runners._config = runners._video_folder = runners._output = None
    runners._policies, runners.tasks = {"a": SimpleNamespace(recipe={})}, []
    runners._module_slots = ModuleSlots(["a"])
    runners._seed, runners._restarts_before = np.random.SeedSequence(3), {}
    seeds = [
        runners._build_arguments(index, restarts)[0].seed
        for index in (1, 2)
        for restarts in range(3)
    ]
    roots = [tuple(seed.generate_state(4)) for seed in seeds]
    parts = [tuple(part.generate_state(4)) for seed in seeds for part in seed.spawn(8)]
    assert len({*roots, *parts}) == len(roots) + len(parts)
